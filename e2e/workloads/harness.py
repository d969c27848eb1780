"""What every workload needs: a ClickHouse engine whose disk `vol` is a directory under test, checks, and a registry.

The engine allows one session a process, so each workload runs in a process of its own (run.py starts them), and a workload
that needs two engines, or one that dies, starts roles.py as a further process.
"""

import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))

#: Number and function of every workload, by name; filled by the decorator below.
WORKLOADS = {}


def workload(number):
    """Registers a workload under its function's name; `number` is the one in the list of workloads."""

    def register(function):
        WORKLOADS[function.__name__] = (number, function)
        return function

    return register


class Failure(Exception):
    """An answer is not the one that the workload must give."""


def check(what, got, wanted):
    if got != wanted:
        raise Failure(f"{what}: got {got!r}, wanted {wanted!r}")


def check_true(what, condition):
    if not condition:
        raise Failure(what)


CONFIG = """<clickhouse><storage_configuration>
  <disks><vol><type>local</type><path>{path}/</path></vol></disks>
  <policies>
    <vol><volumes><main><disk>vol</disk></main></volumes></vol>
    <hot_and_cold><volumes>
      <hot><disk>default</disk><max_data_part_size_bytes>4000000</max_data_part_size_bytes></hot>
      <cold><disk>vol</disk></cold></volumes><move_factor>0.1</move_factor></hot_and_cold>
  </policies>
</storage_configuration></clickhouse>
"""


class Context:
    """Where one workload works, and the hooks that act on the services below the directory under test."""

    def __init__(self, name, directory, state, options):
        self.name = name
        #: A directory of this workload's own on the file system under test.
        self.dir = os.path.join(os.path.abspath(directory), name)
        #: The same directory seen through another mount, if there is one.
        other = options.get("dir2") or directory
        self.dir2 = os.path.join(os.path.abspath(other), name)
        #: A directory of this workload's own on a local disk.
        self.state = os.path.join(os.path.abspath(state), name)
        self.options = options

    def prepare(self):
        self.clean()
        os.makedirs(os.path.join(self.dir, "data"))
        os.makedirs(self.state)

    def clean(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        shutil.rmtree(self.state, ignore_errors=True)

    def path(self, *parts):
        """A path on the disk `vol`."""
        return os.path.join(self.dir, "data", *parts)

    def hook(self, name):
        """Runs the shell command given for this hook; says whether there was one."""
        command = self.options.get(name)
        if command:
            subprocess.run(command, shell=True, check=True)
        return bool(command)

    def engine(self, state="engine", directory=None):
        return Engine(os.path.join(self.state, state), os.path.join(directory or self.dir, "data"))

    def role(self, role, **arguments):
        """Starts roles.py as a process; its arguments travel as JSON."""
        arguments.setdefault("disk", os.path.join(self.dir, "data"))
        command = [sys.executable, os.path.join(HERE, "roles.py"), role, json.dumps(arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Engine:
    """One ClickHouse session. `state` holds its catalogue, `disk` is the path of the disk `vol`."""

    def __init__(self, state, disk):
        from chdb import session  # slow to import, and not every process needs it

        os.makedirs(os.path.dirname(state), exist_ok=True)
        os.makedirs(disk, exist_ok=True)
        config = state + ".xml"
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(path=disk))
        self.session = session.Session(f"{state}?config-file={config}")
        self.run("CREATE DATABASE IF NOT EXISTS w ENGINE = Atomic")
        self.run("USE w")

    def text(self, sql):
        return self.session.query(sql, "TabSeparatedRaw").bytes().decode()

    def run(self, *statements):
        for sql in statements:
            self.text(sql)

    def rows(self, sql):
        return [tuple(line.split("\t")) for line in self.text(sql).splitlines()]

    def row(self, sql):
        rows = self.rows(sql)
        if len(rows) != 1:
            raise Failure(f"{sql}: {len(rows)} rows instead of one")
        return rows[0]

    def value(self, sql):
        return self.row(sql)[0]

    def number(self, sql):
        return int(self.value(sql))

    def count_and_sum(self, table, column="v", where="1"):
        return tuple(int(x) for x in self.row(f"SELECT count(), sum({column}) FROM {table} WHERE {where}"))

    def active_parts(self, table, columns="name"):
        return self.rows(
            f"SELECT {columns} FROM system.parts WHERE database = 'w' AND table = '{table}' AND active ORDER BY name"
        )

    def check_table(self, table):
        answer = self.value(f"CHECK TABLE {table} SETTINGS check_query_single_value_result = 1")
        check(f"CHECK TABLE {table}", answer, "1")

    def close(self):
        self.session.close()


#: A table like those that the call counts were taken from: 13 columns, a skip index, a projection.
WIDE_TABLE = """CREATE TABLE {name} (
  id UInt64, v Int64, day Date, at DateTime64(3), name String, tag LowCardinality(String), f Float64, g Nullable(Int32),
  ip IPv4, u UUID, a Array(UInt16), m Map(String, UInt8), flag Bool,
  INDEX by_v v TYPE minmax GRANULARITY 1,
  PROJECTION by_tag (SELECT tag, sum(v) GROUP BY tag)
) ENGINE = MergeTree {partition} ORDER BY id
SETTINGS storage_policy = '{policy}', min_bytes_for_wide_part = {wide_from}"""

WIDE_ROWS = """INSERT INTO {name} SELECT number, number * 3, toDate('2026-01-01') + number % 28,
  toDateTime64('2026-01-01 00:00:00', 3) + number, 'name ' || toString(number), 't' || toString(number % 7), number / 3,
  if(number % 5 = 0, NULL, number % 1000), toIPv4(toUInt32(number)), toUUID('00000000-0000-0000-0000-000000000001'),
  range(number % 4), map('k', toUInt8(number % 256)), number % 2 = 0
  FROM numbers({start}, {count})"""


def wide_table(engine, name, wide=True, policy="vol", partition=""):
    wide_from = 0 if wide else 1 << 40
    engine.run(WIDE_TABLE.format(name=name, partition=partition, policy=policy, wide_from=wide_from))


def wide_rows(engine, name, count, start=0):
    engine.run(WIDE_ROWS.format(name=name, start=start, count=count))


def timed(function):
    start = time.monotonic()
    result = function()
    return result, time.monotonic() - start
