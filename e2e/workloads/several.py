"""Workloads 12 to 15, 19 and 20: engines that are killed, two engines at once, a Redis server beside, many partitions."""

import json
import os
import random
import socket
import time

from harness import Failure, check, check_true, timed, workload


def finish(process, what, wanted=0):
    """Waits for a role and returns the last line that it printed."""
    out, err = process.communicate(timeout=600)
    if process.returncode != wanted:
        raise Failure(f"{what}: exit code {process.returncode}\n{out}\n{err[-2000:]}")
    return out.strip().splitlines()[-1] if out.strip() else ""


@workload(12)
def killed_engine_loses_nothing_acknowledged(ctx):
    place = {"state": os.path.join(ctx.state, "engine"), "acks": os.path.join(ctx.state, "acks")}
    random.seed(12)
    first, total = 0, 0
    for _ in range(4):
        writer = ctx.role("insert", first=first, **place)
        check("the writer", writer.stdout.readline().strip(), "started")
        time.sleep(2 + random.random() * 2)
        ctx.hook("crash")
        writer.kill()
        writer.communicate()
        found = json.loads(finish(ctx.role("verify", **place), "verify"))
        check_true(f"batches were acknowledged: {found}", found["acknowledged"] > total)
        total = found["acknowledged"]
        first += 1_000_000


@workload(13)
def lost_node_keeps_the_acknowledged_insert(ctx):
    place = {"state": os.path.join(ctx.state, "engine"), "acks": os.path.join(ctx.state, "acks")}
    for first in (0, 1_000):
        writer = ctx.role("insert", first=first, batches=1, optimize_every=0, **place)
        finish(writer, "insert")
        # The hook throws the client's unflushed state away and mounts anew.
        ctx.hook("node_loss")
        finish(ctx.role("verify", **place), "verify")


@workload(14)
def catalogue_opens_once(ctx):
    state, other = (os.path.join(directory, "catalogue") for directory in (ctx.dir, ctx.dir2))
    holder = ctx.role("hold", state=state)
    check("the holder", holder.stdout.readline().strip(), "held")
    for path in (state, other):
        second = ctx.role("open_once", state=path)
        _, err = second.communicate(timeout=120)
        check_true(f"a second engine is refused: {err[-500:]}", second.returncode != 0 and "Cannot lock file" in err)
    holder.kill()
    holder.communicate()
    limit = float(ctx.options.get("lease_seconds") or 60)
    start = time.monotonic()
    while True:
        again = ctx.role("open_once", state=other)
        _, err = again.communicate(timeout=120)
        if again.returncode == 0:
            break
        check_true(f"free within {limit} s: {err[-500:]}", time.monotonic() - start < limit)


@workload(15)
def reader_elsewhere_sees_new_parts(ctx):
    engine = ctx.engine("writer")
    engine.run("CREATE TABLE t (p UInt8, v UInt64) ENGINE = MergeTree PARTITION BY p ORDER BY v SETTINGS storage_policy = 'vol'",
               "SYSTEM STOP MERGES")
    uuid = engine.value("SELECT uuid FROM system.tables WHERE database = 'w' AND name = 't'")
    steps = [os.path.join(ctx.state, f"step{n}") for n in range(5)]
    engine.run("INSERT INTO t SELECT 0, number FROM numbers(1000)")
    reader = ctx.role("read", state=os.path.join(ctx.state, "reader"), disk=os.path.join(ctx.dir2, "data"), uuid=uuid, steps=steps)
    for n, step in enumerate(steps):
        if n:
            engine.run(f"INSERT INTO t SELECT {n}, number FROM numbers(1000)")
        open(step, "w", encoding="utf-8").close()
        check(f"rows after part {n}", json.loads(reader.stdout.readline() or "null"), list(engine.count_and_sum("t")))
    finish(reader, "reader")
    engine.close()


class Redis:
    """Enough of a client to fill a database and to count keys."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=30)
        self.file = self.socket.makefile("rb")

    def call(self, *words):
        request = b"*%d\r\n" % len(words)
        for word in (str(word).encode() for word in words):
            request += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(request)
        return self.reply()

    def reply(self):
        line = self.file.readline().rstrip()
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise Failure(f"redis: {rest.decode()}")
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2] if int(rest) >= 0 else None
        return int(rest) if kind == b":" else rest


@workload(19)
def redis_tables_live_beside_the_metadata(ctx):
    address = ctx.options.get("redis")
    if not address:
        return "skipped: needs --redis HOST:PORT"
    host, port = address.rsplit(":", 1)
    redis = Redis(host, int(port))
    ours = redis.call("DBSIZE")
    redis.call("SELECT", 9)
    redis.call("FLUSHDB")
    engine = ctx.engine()
    engine.run(
        f"CREATE TABLE kv (k String, v UInt64) ENGINE = Redis('{address}', 9) PRIMARY KEY k",
        "INSERT INTO kv SELECT 'key' || toString(number), number FROM numbers(100000)",
        "CREATE TABLE t (k String, n UInt64) ENGINE = MergeTree ORDER BY k SETTINGS storage_policy = 'vol'",
        "INSERT INTO t SELECT 'key' || toString(number * 10), number FROM numbers(1000)",
    )
    function = f"redis('{address}', 'k', 'k String, v UInt64', 9)"
    check("rows of the table function", engine.count_and_sum(function), (100_000, 4_999_950_000))
    check("the join", engine.row("SELECT count(), sum(v) FROM t JOIN kv ON t.k = kv.k"), ("1000", "4995000"))
    slowest = scan_beside_file_operations(ctx, engine)
    check_true(f"slowest file operation under a SCAN load: {slowest:.3f} s", slowest < 1)
    redis.call("FLUSHDB")
    redis.call("SELECT", 0)
    # How many keys there are changes by itself; that none is missing is seen by what needs them.
    check_true("the metadata's keys are there", ours > 0 and redis.call("DBSIZE") > 0)
    check("the table beside", engine.count_and_sum("t", "n"), (1_000, 499_500))
    engine.check_table("t")
    engine.close()
    return f"slowest file operation {slowest * 1e3:.1f} ms"


def scan_beside_file_operations(ctx, engine):
    import threading

    done = threading.Event()

    def scan():
        for _ in range(3):
            engine.number("SELECT count() FROM kv")
        done.set()

    thread = threading.Thread(target=scan)
    thread.start()
    slowest, n = 0.0, 0
    while not done.is_set():
        _, seconds = timed(lambda: touch(ctx.path(f"probe{n % 100}")))
        slowest, n = max(slowest, seconds), n + 1
    thread.join()
    return slowest


def touch(path):
    with open(path, "w", encoding="utf-8") as file:
        file.write("x")
    os.stat(path)
    os.unlink(path)


@workload(20)
def thousand_partitions_restart(ctx):
    parts = int(ctx.options.get("partitions") or 1_000)
    engine = ctx.engine()
    engine.run(
        "CREATE TABLE t (p UInt32, v UInt64) ENGINE = MergeTree PARTITION BY p ORDER BY v SETTINGS storage_policy = 'vol'",
        f"INSERT INTO t SELECT number % {parts}, number FROM numbers({parts * 100}) SETTINGS max_partitions_per_insert_block = 0",
    )
    answer = engine.count_and_sum("t")
    engine.close()
    place = {"state": os.path.join(ctx.state, "engine")}
    seen = []
    for _ in range(2):
        ctx.hook("drop_caches")
        found = json.loads(finish(ctx.role("restart", **place), "restart"))
        check("parts and rows after the restart", (found["parts"], found["answer"]), (parts, list(answer)))
        seen.append(found["seconds"])
    return f"{parts} parts: start in {seen[0]} s, again in {seen[1]} s"
