"""Workloads 8, 9, 16, 17 and 18: freezing, detaching, merges with direct I/O, log engines, buffers."""

import os
import shutil

from harness import check, check_true, workload


@workload(8)
def frozen_parts_attach_after_drop(ctx):
    engine = ctx.engine()
    table = "(p UInt8, v UInt64) ENGINE = MergeTree PARTITION BY p ORDER BY v SETTINGS storage_policy = 'vol'"
    engine.run(f"CREATE TABLE t {table}", "INSERT INTO t SELECT number % 3, number FROM numbers(3000)")
    answer = engine.count_and_sum("t")
    engine.run("ALTER TABLE t FREEZE WITH NAME 'first'")
    check("frozen parts", len(frozen(ctx, "first")), 3)
    engine.run("ALTER TABLE t UNFREEZE WITH NAME 'first'")
    check("parts after UNFREEZE", len(frozen(ctx, "first")), 0)

    engine.run("ALTER TABLE t FREEZE WITH NAME 'second'", "DROP TABLE t SYNC", f"CREATE TABLE again {table}")
    paths = engine.value("SELECT data_paths[1] FROM system.tables WHERE database = 'w' AND name = 'again'")
    for part in frozen(ctx, "second"):
        shutil.copytree(part, os.path.join(paths, "detached", os.path.basename(part)))
        engine.run(f"ALTER TABLE again ATTACH PART '{os.path.basename(part)}'")
    check("rows of the attached parts", engine.count_and_sum("again"), answer)
    engine.check_table("again")
    engine.close()


def frozen(ctx, name):
    """The directories of the parts that are frozen under a name."""
    found = []
    for directory, _, files in os.walk(ctx.path("shadow", name)):
        if "checksums.txt" in files:
            found.append(directory)
    return sorted(found)


@workload(9)
def detached_rows_come_back(ctx):
    engine = ctx.engine()
    engine.run(
        "CREATE TABLE t (p UInt8, v UInt64) ENGINE = MergeTree PARTITION BY p ORDER BY v "
        "SETTINGS storage_policy = 'vol', min_bytes_for_wide_part = 0",
        "INSERT INTO t SELECT number % 2, number FROM numbers(10000)",
    )
    whole, half = (10_000, 49_995_000), (5_000, 24_995_000)
    check("at first", engine.count_and_sum("t"), whole)
    engine.run("ALTER TABLE t DETACH PARTITION 1")
    check("one partition detached", engine.count_and_sum("t"), half)
    engine.run("ALTER TABLE t ATTACH PARTITION 1")
    check("attached again", engine.count_and_sum("t"), whole)
    engine.run("DETACH TABLE t")
    check_true("a detached table is gone", not engine.rows("SHOW TABLES FROM w LIKE 't'"))
    engine.run("ATTACH TABLE t")
    check("table attached again", engine.count_and_sum("t"), whole)
    engine.close()


@workload(16)
def merge_with_direct_io(ctx):
    engine = ctx.engine()
    engine.run("CREATE TABLE t (k UInt64, v UInt64, s String) ENGINE = MergeTree ORDER BY k SETTINGS storage_policy = 'vol', "
               "min_merge_bytes_to_use_direct_io = 1, min_bytes_for_wide_part = 0")
    for part in range(6):
        engine.run(f"INSERT INTO t SELECT number * 6 + {part}, number, toString(sipHash64(number)) FROM numbers(100000)")
    sql = "SELECT count(), sum(v), sum(cityHash64(*)) FROM t"
    answer = engine.row(sql)
    engine.run("OPTIMIZE TABLE t FINAL")
    check("parts", len(engine.active_parts("t")), 1)
    check("rows", answer[0], "600000")
    check("sums after the merge", engine.row(sql), answer)
    engine.check_table("t")
    engine.close()


@workload(17)
def log_engines_append(ctx):
    engine = ctx.engine()
    for kind in ("Log", "StripeLog", "TinyLog"):
        name = kind.lower()
        engine.run(f"CREATE TABLE {name} (v UInt64, s String) ENGINE = {kind} SETTINGS storage_policy = 'vol'")
        for part in range(3):
            engine.run(f"INSERT INTO {name} SELECT number, toString({part}) FROM numbers(1000)")
        check(f"{kind} after three appends", engine.count_and_sum(name), (3_000, 1_498_500))
        [(data,)] = engine.rows(f"SELECT data_paths[1] FROM system.tables WHERE database = 'w' AND name = '{name}'")
        check_true(f"{kind} lies on the volume", data.startswith(ctx.path()))
        engine.run(f"TRUNCATE TABLE {name}")
        check(f"{kind} after TRUNCATE", engine.number(f"SELECT count() FROM {name}"), 0)
    engine.close()


@workload(18)
def buffer_table_flushes(ctx):
    engine = ctx.engine()
    engine.run(
        "CREATE TABLE target (v UInt64) ENGINE = MergeTree ORDER BY v SETTINGS storage_policy = 'vol'",
        "CREATE TABLE buffer AS target ENGINE = Buffer(w, target, 1, 1000, 1000, 1000000, 1000000, 1000000000, 1000000000)",
        "INSERT INTO buffer SELECT number FROM numbers(5000)",
    )
    check("seen through the buffer", engine.number("SELECT count() FROM buffer"), 5_000)
    check("in the target before", engine.number("SELECT count() FROM target"), 0)
    engine.run("OPTIMIZE TABLE buffer")
    check("in the target after", engine.number("SELECT count() FROM target"), 5_000)
    engine.close()
