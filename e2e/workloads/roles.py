"""Processes beside the one that runs a workload: writers that may be killed, checkers, holders of a lock, readers.

    python roles.py ROLE JSON

Also of use from outside, for tests that kill the file system's daemon or its services in the middle of an insert loop:

    python roles.py insert  '{"state": S, "disk": D, "acks": FILE, "seconds": 20}'
    python roles.py verify  '{"state": S, "disk": D, "acks": FILE}'

`insert` writes batches of 1,000 rows and appends the number of each acknowledged batch to FILE, synced; a batch that the engine
refuses is counted and tried no more. `verify` opens the same catalogue and prints what it found as JSON; it fails if an acknowledged batch
is missing or any batch is torn.
"""

import json
import os
import sys
import time

from harness import Engine, Failure, check, check_true

BATCH = 1_000


def insert(state, disk, acks, seconds=3600.0, first=0, batches=1 << 40, optimize_every=7, wide=True):
    engine = Engine(state, disk)
    engine.run("CREATE TABLE IF NOT EXISTS t (batch UInt32, k UInt64, v UInt64, s String) ENGINE = MergeTree ORDER BY (batch, k) "
               f"SETTINGS storage_policy = 'vol', min_bytes_for_wide_part = {0 if wide else 1 << 40}")
    refused, batch, end = [], first, time.monotonic() + seconds
    say("started")
    with open(acks, "a", encoding="utf-8") as file:
        while batch < first + batches and time.monotonic() < end:
            try:
                engine.run(f"INSERT INTO t SELECT {batch}, number, number * {batch + 1}, toString(sipHash64(number)) FROM numbers({BATCH})")
                file.write(f"{batch}\n")
                file.flush()
                os.fsync(file.fileno())
            except Exception as error:  # the engine's own class says no more
                refused.append(str(error)[:300])
            batch += 1
            if optimize_every and batch % optimize_every == 0:
                try:
                    engine.run("OPTIMIZE TABLE t FINAL")
                except Exception as error:
                    refused.append(str(error)[:300])
    engine.close()
    say(json.dumps({"batches": batch - first, "refused": len(refused), "errors": refused[:5]}))


def verify(state, disk, acks):
    with open(acks, encoding="utf-8") as file:
        acknowledged = {int(line) for line in file if line.endswith("\n")}
    # What the engine leaves behind when it is killed it removes itself when it starts, and only then may one look.
    engine = Engine(state, disk)
    whole = {}
    for batch, count, total in engine.rows("SELECT batch, count(), sum(v) FROM t GROUP BY batch"):
        whole[int(batch)] = (int(count), int(total))
    for batch, found in whole.items():
        check(f"rows and sum of batch {batch}", found, (BATCH, BATCH * (BATCH - 1) // 2 * (batch + 1)))
    lost = sorted(acknowledged - set(whole))
    check("acknowledged batches that are missing", lost, [])
    engine.check_table("t")
    check("temporary directories", leftovers(engine), [])
    check("detached parts", engine.rows("SELECT name FROM system.detached_parts WHERE table = 't'"), [])
    engine.close()
    say(json.dumps({"acknowledged": len(acknowledged), "present": len(whole)}))


def leftovers(engine, patience=20):
    """Temporary directories that stay although nothing is merged: a merge that this engine has begun by itself has one too."""
    engine.run("SYSTEM STOP MERGES t")
    end = time.monotonic() + patience
    while True:
        busy = engine.number("SELECT count() FROM system.merges")
        found = [part for part in os.listdir(table_path(engine)) if part.startswith("tmp_")]
        if not (busy or found) or time.monotonic() > end:
            return found
        time.sleep(0.2)


def table_path(engine):
    return engine.value("SELECT data_paths[1] FROM system.tables WHERE database = 'w' AND name = 't'")


def hold(state, disk):
    """Opens a catalogue and keeps it open until standard input ends or the process is killed."""
    engine = Engine(state, disk)
    say("held")
    time.sleep(3600)
    engine.close()


def open_once(state, disk):
    """Opens a catalogue and closes it; fails when somebody holds it."""
    Engine(state, disk).close()
    say("opened")


def read(state, disk, uuid, steps):
    """Attaches a table that another engine writes, and counts its rows anew each time `steps` names one more file."""
    engine = Engine(state, disk)
    engine.run("SYSTEM STOP MERGES",
               f"ATTACH TABLE t UUID '{uuid}' (p UInt8, v UInt64) ENGINE = MergeTree PARTITION BY p ORDER BY v "
               "SETTINGS storage_policy = 'vol'")
    for step in steps:
        while not os.path.exists(step):
            time.sleep(0.02)
        engine.run("DETACH TABLE t", "ATTACH TABLE t", "SYSTEM STOP MERGES")
        say(json.dumps(engine.count_and_sum("t")))
    # Not closed, and not dropped: the table belongs to the writer.
    sys.stdout.flush()
    os._exit(0)


def restart(state, disk):
    """Opens a catalogue with a table of many parts; says how long until the first answer."""
    start = time.monotonic()
    engine = Engine(state, disk)
    answer = engine.count_and_sum("t")
    parts = len(engine.active_parts("t"))
    seconds = time.monotonic() - start
    engine.close()
    say(json.dumps({"seconds": round(seconds, 3), "parts": parts, "answer": answer}))


def say(line):
    print(line, flush=True)


ROLES = {f.__name__: f for f in (insert, verify, hold, open_once, read, restart)}

if __name__ == "__main__":
    try:
        ROLES[sys.argv[1]](**json.loads(sys.argv[2]))
    except Failure as failure:
        print(f"FAIL {failure}", file=sys.stderr)
        sys.exit(1)
