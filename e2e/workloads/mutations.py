"""Workloads 5 to 7, 10 and 11: mutations with hard links, lightweight updates, column changes, merges, projections."""

import os

from harness import check, check_true, wide_rows, wide_table, workload


@workload(5)
def update_links_what_it_does_not_touch(ctx):
    engine = ctx.engine()
    wide_table(engine, "t")
    wide_rows(engine, "t", 20_000)
    # Doubling a float is exact, so is the sum of doubled ones.
    before = float(engine.value("SELECT sum(f) FROM t"))
    engine.run("ALTER TABLE t UPDATE f = f * 2 WHERE 1 SETTINGS mutations_sync = 2")
    check("sum after the update", float(engine.value("SELECT sum(f) FROM t")), before * 2)
    [(path,)] = engine.active_parts("t", "path")
    links = {name: os.stat(os.path.join(path, name)).st_nlink for name in os.listdir(path)}
    columns = {name: count for name, count in links.items() if name.endswith(".bin")}
    check("links of the new column", columns.pop("f.bin"), 1)
    check_true(f"links of the untouched columns: {columns}", len(columns) >= 12 and set(columns.values()) == {2})
    engine.close()


@workload(6)
def rows_are_deleted_and_updated(ctx):
    engine = ctx.engine()
    engine.run(
        "CREATE TABLE t (k UInt64, v UInt64) ENGINE = MergeTree ORDER BY k SETTINGS storage_policy = 'vol', "
        "min_bytes_for_wide_part = 0, enable_block_number_column = 1, enable_block_offset_column = 1",
        "INSERT INTO t SELECT number, 1 FROM numbers(50000)",
        "ALTER TABLE t DELETE WHERE k % 500 = 7 SETTINGS mutations_sync = 2",
    )
    check("rows after DELETE", engine.number("SELECT count() FROM t"), 49_900)
    engine.run("UPDATE t SET v = 11 WHERE k < 1000 AND k % 500 != 7 SETTINGS enable_lightweight_update = 1")
    check("sum after UPDATE", engine.count_and_sum("t"), (49_900, 49_900 + 998 * 10))
    engine.run("DELETE FROM t WHERE k = 0")
    check("rows after a lightweight DELETE", engine.count_and_sum("t"), (49_899, 49_899 + 997 * 10))
    engine.run("OPTIMIZE TABLE t FINAL")
    check("sum after the merge", engine.count_and_sum("t"), (49_899, 49_899 + 997 * 10))
    engine.close()


@workload(7)
def columns_are_added_renamed_and_dropped(ctx):
    engine = ctx.engine()
    engine.run(
        "CREATE TABLE t (k UInt64, v UInt64, gone String) ENGINE = MergeTree ORDER BY k "
        "SETTINGS storage_policy = 'vol', min_bytes_for_wide_part = 0",
        "INSERT INTO t SELECT number, number, 'x' FROM numbers(1000)",
        "ALTER TABLE t ADD COLUMN more UInt64 DEFAULT k * 2",
        "INSERT INTO t (k, v, gone, more) SELECT number + 1000, number, 'y', 5 FROM numbers(1000)",
    )
    wanted = 999 * 1000 + 5 * 1000
    check("sum of the default", engine.number("SELECT sum(more) FROM t"), wanted)
    engine.run(
        "ALTER TABLE t RENAME COLUMN v TO renamed SETTINGS mutations_sync = 2, alter_sync = 2",
        "ALTER TABLE t DROP COLUMN gone SETTINGS mutations_sync = 2, alter_sync = 2",
        "ALTER TABLE t MATERIALIZE COLUMN more SETTINGS mutations_sync = 2",
    )
    check("columns", engine.rows("SELECT name FROM system.columns WHERE database = 'w' AND table = 't' ORDER BY position"),
          [("k",), ("renamed",), ("more",)])
    check("sums", engine.row("SELECT sum(renamed), sum(more) FROM t"), ("999000", str(wanted)))
    engine.run("OPTIMIZE TABLE t FINAL")
    check("sums after the merge", engine.row("SELECT sum(renamed), sum(more) FROM t"), ("999000", str(wanted)))
    engine.close()


@workload(10)
def replacing_merge_keeps_the_last_version(ctx):
    engine = ctx.engine()
    engine.run("CREATE TABLE t (k UInt64, v UInt64, version UInt8) ENGINE = ReplacingMergeTree(version) ORDER BY k "
               "SETTINGS storage_policy = 'vol'")
    for version in range(1, 6):
        engine.run(f"INSERT INTO t SELECT number, number * {version}, {version} FROM numbers(1000)")
    answer = tuple(int(x) for x in engine.row("SELECT count(), sum(v) FROM t FINAL"))
    check("FINAL", answer, (1_000, 2_497_500))
    engine.run("OPTIMIZE TABLE t FINAL")
    check("after OPTIMIZE", engine.count_and_sum("t"), (1_000, 2_497_500))
    engine.close()


@workload(11)
def projection_answers(ctx):
    engine = ctx.engine()
    wide_table(engine, "t")
    wide_rows(engine, "t", 20_000)
    sql = "SELECT tag, sum(v) FROM t GROUP BY tag ORDER BY tag"
    plain = engine.rows(f"{sql} SETTINGS optimize_use_projections = 0")
    check("groups", len(plain), 7)
    check("by projection", engine.rows(f"{sql} SETTINGS force_optimize_projection = 1"), plain)
    engine.check_table("t")
    engine.close()
