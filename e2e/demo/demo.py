"""TPC-H lineitem in a MergeTree table on a volume and in one on local disk: the same queries, the same answers, both times.

    python demo.py --volume DIR --local DIR --rows FILE.parquet [--json]

`--volume` is a directory on the file system to show, `--local` one on a local disk for the engine's catalogue and the twin table.
Prints a table (or JSON) of times; exits with 1 when an answer differs.
"""

import argparse
import json
import os
import sys
import time

CONFIG = """<clickhouse><storage_configuration>
  <disks>
    <volume><type>local</type><path>{volume}/</path></volume>
    <here><type>local</type><path>{local}/</path></here>
  </disks>
  <policies>
    <volume><volumes><main><disk>volume</disk></main></volumes></volume>
    <here><volumes><main><disk>here</disk></main></volumes></here>
  </policies>
</storage_configuration></clickhouse>
"""

TABLE = """CREATE TABLE {table} ENGINE = MergeTree PARTITION BY toYear(l_shipdate) ORDER BY (l_shipdate, l_orderkey)
SETTINGS storage_policy = '{policy}', min_bytes_for_wide_part = 0
EMPTY AS SELECT * FROM file('{rows}', Parquet)"""

# Decimals add up exactly, so every answer must be equal to the last digit, whatever the order of the rows.
QUERIES = {
    "count and sum": "SELECT count(), sum(l_quantity), sum(l_extendedprice) FROM {t}",
    "pricing summary (TPC-H 1)": """
        SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
               sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), count()
        FROM {t} WHERE l_shipdate <= toDate('1998-12-01') - 90
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    "revenue forecast (TPC-H 6)": """
        SELECT sum(l_extendedprice * l_discount) FROM {t}
        WHERE l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "late deliveries by mode": """
        SELECT l_shipmode, count(), sum(l_receiptdate > l_commitdate) FROM {t} GROUP BY l_shipmode ORDER BY l_shipmode""",
    "largest orders": """
        SELECT l_orderkey, sum(l_extendedprice) AS price FROM {t} GROUP BY l_orderkey ORDER BY price DESC, l_orderkey LIMIT 10""",
    "a few rows by key": "SELECT * FROM {t} WHERE l_shipdate = '1996-03-13' ORDER BY l_orderkey, l_linenumber LIMIT 20",
    "every byte": "SELECT sum(cityHash64(*)) FROM {t}",
}


class Demo:
    def __init__(self, arguments):
        from chdb import session

        config = os.path.join(arguments.local, "engine.xml")
        for directory in (self.disk(arguments.volume), self.disk(arguments.local)):
            os.makedirs(directory, exist_ok=True)
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(volume=self.disk(arguments.volume), local=self.disk(arguments.local)))
        self.session = session.Session(f"{arguments.local}/catalogue?config-file={config}")
        self.rows = os.path.abspath(arguments.rows)
        self.lines, self.differences = [], []
        self.run("CREATE DATABASE demo ENGINE = Atomic")
        self.run("USE demo")

    @staticmethod
    def disk(directory):
        return os.path.join(os.path.abspath(directory), "clickhouse")

    def run(self, sql):
        return self.session.query(sql, "TabSeparatedRaw").bytes().decode()

    def both(self, what, sql):
        """Runs one statement on both tables and compares what they answer."""
        answers, seconds = [], []
        for table in ("here", "volume"):
            start = time.monotonic()
            answers.append(self.run(sql.format(t=table, rows=self.rows, table=table, policy=table)))
            seconds.append(time.monotonic() - start)
        if answers[0] != answers[1]:
            self.differences.append({"query": what, "local": answers[0][:500], "volume": answers[1][:500]})
        self.lines.append({"what": what, "local_s": round(seconds[0], 3), "volume_s": round(seconds[1], 3),
                           "equal": answers[0] == answers[1]})
        return answers[1]

    def play(self):
        self.both("create the table", TABLE)
        self.both("insert lineitem", "INSERT INTO {t} SELECT * FROM file('{rows}', Parquet)")
        for what, sql in QUERIES.items():
            self.both(what, sql)
        self.both("merge all parts", "OPTIMIZE TABLE {t} FINAL")
        for what in ("count and sum", "every byte"):
            self.both(f"{what}, after the merge", QUERIES[what])
        checked = self.both("check the table", "CHECK TABLE {t} SETTINGS check_query_single_value_result = 1")
        if checked.strip() != "1":
            self.differences.append({"query": "CHECK TABLE", "volume": checked})
        return int(self.run("SELECT count() FROM volume")), self.parts()

    def parts(self):
        """Parts, files and bytes of the table on the volume, as the engine counts them."""
        sql = "SELECT count(), sum(bytes_on_disk), any(path) FROM system.parts WHERE active AND table = 'volume'"
        count, size, path = self.run(sql).split("\t")
        files = sum(len(names) for _, _, names in os.walk(os.path.dirname(os.path.dirname(path.strip()))))
        return {"parts": int(count), "bytes": int(size), "files": files}

    def leave(self):
        self.run("DROP DATABASE demo SYNC")
        self.session.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--volume", "--local", "--rows"):
        parser.add_argument(name, required=True)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    demo = Demo(arguments)
    rows, parts = demo.play()
    demo.leave()
    if arguments.json:
        print(json.dumps({"rows": rows, **parts, "lines": demo.lines, "differences": demo.differences}))
    else:
        show(rows, parts, demo.lines)
    for difference in demo.differences:
        print(f"DIFFERENT: {difference}", file=sys.stderr)
    return 1 if demo.differences else 0


def show(rows, parts, lines):
    print(f"lineitem: {rows:,} rows, {parts['parts']} parts, {parts['files']} files, {parts['bytes'] / 1e6:.1f} MB on the volume")
    print(f"{'':36} {'local disk':>10} {'volume':>10}  answers")
    for line in lines:
        verdict = "equal" if line["equal"] else "DIFFERENT"
        print(f"{line['what']:36} {line['local_s']:8.3f} s {line['volume_s']:8.3f} s  {verdict}")


if __name__ == "__main__":
    sys.exit(main())
