"""Workloads 1 to 4: what the engine sees of the disk, where parts land, and moves between disks."""

import os
import threading

from harness import check, check_true, timed, wide_rows, wide_table, workload


@workload(1)
def disk_is_shown(ctx):
    engine = ctx.engine()
    sql = "SELECT is_broken, free_space, total_space FROM system.disks WHERE name = 'vol'"
    # Others may write to the same file system: the figure must lie between two looks at df.
    for _ in range(50):
        before = free(ctx.dir)
        broken, seen, total = (int(x) for x in engine.row(sql))
        after = free(ctx.dir)
        if min(before, after) <= seen <= max(before, after):
            break
    check("is_broken", broken, 0)
    check_true(f"free space {seen} between {before} and {after}", min(before, after) <= seen <= max(before, after))
    check_true("free space within the total", 0 < seen <= total)
    if ctx.hook("store_stop"):
        # Whatever waits for the store must not wait for ever: then it comes back and the time tells.
        back = threading.Timer(2, lambda: ctx.hook("store_start"))
        back.start()
        _, seconds = timed(lambda: engine.row(sql))
        back.join()
        check_true(f"system.disks with the store stopped took {seconds:.3f} s", seconds < 1)
    engine.close()


def free(path):
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize


@workload(2)
def compact_and_wide_parts(ctx):
    engine = ctx.engine()
    answers = []
    for name, wide in (("compact", False), ("wide", True)):
        wide_table(engine, name, wide)
        wide_rows(engine, name, 20_000)
        wide_rows(engine, name, 20_000, start=20_000)
        types = {kind for (kind,) in engine.active_parts(name, "part_type")}
        check(f"part types of {name}", types, {name.capitalize()})
        answers.append(engine.row(f"SELECT count(), sum(v), sum(f), sum(cityHash64(*)) FROM {name}"))
    check("count and sums", answers[0], answers[1])
    check("count", answers[0][0], "40000")
    engine.close()


@workload(3)
def big_parts_land_on_the_volume(ctx):
    engine = ctx.engine()
    engine.run(
        "CREATE TABLE t (p UInt8, k UInt64, v UInt64) ENGINE = MergeTree PARTITION BY p ORDER BY k "
        "SETTINGS storage_policy = 'hot_and_cold'",
        "INSERT INTO t SELECT 1, number, sipHash64(number) FROM numbers(1000000)",
        "INSERT INTO t SELECT 2, number, sipHash64(number) FROM numbers(100)",
    )
    disks = set(engine.active_parts("t", "partition, disk_name"))
    check("disks of the partitions", disks, {("1", "vol"), ("2", "default")})
    check("rows", engine.number("SELECT count() FROM t"), 1_000_100)
    engine.close()


@workload(4)
def partition_moves_there_and_back(ctx):
    engine = ctx.engine()
    wide_table(engine, "t", policy="hot_and_cold", partition="PARTITION BY id % 2")
    wide_rows(engine, "t", 10_000)
    answer = engine.row("SELECT count(), sum(v), sum(cityHash64(*)) FROM t")
    check("disk at first", disks_of(engine, "0"), {"default"})
    for disk in ("vol", "default", "vol"):
        engine.run(f"ALTER TABLE t MOVE PARTITION 0 TO DISK '{disk}'")
        check("disk after the move", disks_of(engine, "0"), {disk})
        check("disk of the other partition", disks_of(engine, "1"), {"default"})
        check("sums after the move", engine.row("SELECT count(), sum(v), sum(cityHash64(*)) FROM t"), answer)
    engine.check_table("t")
    engine.close()


def disks_of(engine, partition):
    rows = engine.active_parts("t", "partition, disk_name")
    return {disk for part, disk in rows if part == partition}
