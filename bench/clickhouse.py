"""The ClickHouse rows of the benchmark, one phase a process.

    python clickhouse.py PHASE --dir MOUNT --state LOCAL_DIR --rows N --seconds S

Phases, in this order: insert, select-cold, select-local-cache, select-hot, optimize. The caller empties caches between them. Prints one JSON
object, figures by name; rows are in millions a second.
"""

import argparse
import json
import os
import time

CONFIG = """<clickhouse><storage_configuration>
  <disks><vol><type>local</type><path>{path}/</path></vol></disks>
  <policies><vol><volumes><main><disk>vol</disk></main></volumes></vol></policies>
</storage_configuration></clickhouse>
"""

TABLE = """CREATE TABLE t (
  id UInt64, at DateTime, a UInt32, b UInt32, c Float64, d Float64, e String, f String,
  tag LowCardinality(String), g Int16, h UInt8, i UInt64
) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY id SETTINGS storage_policy = 'vol', min_bytes_for_wide_part = 0"""

ROWS = """INSERT INTO t SELECT number, toDateTime('2026-01-15 00:00:00') + toIntervalMonth(number % 12), number % 1000,
  sipHash64(number) % 1000000, number / 7, sqrt(number), 'name ' || toString(number % 5000), hex(sipHash64(number, 1)),
  'tag' || toString(number % 20), number % 300, number % 3, sipHash64(number, 2)
  FROM numbers({first}, {count})"""


class Bench:
    def __init__(self, arguments):
        from chdb import session

        self.rows, self.seconds = arguments.rows, arguments.seconds
        path = os.path.join(os.path.abspath(arguments.dir), "clickhouse")
        os.makedirs(path, exist_ok=True)
        config = os.path.join(arguments.state, "engine.xml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(path=path))
        self.session = session.Session(f"{arguments.state}/catalogue?config-file={config}")
        self.run("CREATE DATABASE IF NOT EXISTS b ENGINE = Atomic")
        self.run("USE b")

    def run(self, sql):
        return self.session.query(sql, "TabSeparatedRaw").bytes().decode()

    def timed(self, sql):
        start = time.monotonic()
        self.run(sql)
        return time.monotonic() - start

    def insert(self):
        self.run(TABLE)
        # One block, so twelve parts.
        one_block = f"max_insert_block_size = {self.rows}, min_insert_block_size_rows = {self.rows}, " \
                    f"min_insert_block_size_bytes = 0, max_block_size = {self.rows}, max_threads = 1"
        seconds = self.timed(ROWS.format(first=0, count=self.rows) + f" SETTINGS {one_block}")
        self.run("CREATE TABLE few AS t")
        count, start = 0, time.monotonic()
        while time.monotonic() - start < self.seconds and count < 1_000:
            self.run(ROWS.format(first=count * 10, count=10).replace("INTO t", "INTO few").replace("number % 12", "0"))
            count += 1
        return {"insert into 12 wide parts, rows": self.rows / seconds / 1e6,
                "inserts of 10 rows": count / (time.monotonic() - start)}

    def select(self, how):
        # Opening the catalogue has loaded the parts; the columns are read here.
        seconds = self.timed("SELECT * FROM t FORMAT Null")
        if how == "hot":
            seconds = min(self.timed("SELECT * FROM t FORMAT Null") for _ in range(3))
        return {f"select *, {how}, rows": self.rows / seconds / 1e6}

    def optimize(self):
        # Twelve partitions get a second part each, so that there is something to merge.
        self.run(ROWS.format(first=self.rows, count=self.rows // 10))
        return {"OPTIMIZE FINAL": 1 / self.timed("OPTIMIZE TABLE t FINAL")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase")
    parser.add_argument("--dir", required=True)
    parser.add_argument("--state", required=True)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    bench = Bench(arguments)
    if arguments.phase.startswith("select-"):
        figures = bench.select(arguments.phase.removeprefix("select-"))
    else:
        figures = {"insert": bench.insert, "optimize": bench.optimize}[arguments.phase]()
    bench.session.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
