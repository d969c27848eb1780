"""Runs ClickHouse workloads on a directory and checks their answers.

    python run.py --dir MOUNT --state LOCAL_DIR [options] [NAME or NUMBER ...]

Each workload runs in a process of its own and prints one line, `ok NAME seconds [note]`, `FAIL NAME why` or
`skip NAME why` (a workload whose option is missing). The exit code is 0 when none failed. Without names all run.
"""

import argparse
import os
import subprocess
import sys
import time
import traceback

import disks, lifecycle, mutations, several, tpch  # noqa: E401,F401 - they register their workloads
from harness import WORKLOADS, Context, Failure

HOOKS = {
    "store_stop": "makes the metadata store unreachable (workload 1)",
    "store_start": "makes it reachable again (workload 1)",
    "crash": "kills something below the volume in the middle of an insert loop (workload 12)",
    "node_loss": "throws away the client's unflushed state and mounts again (workload 13)",
    "drop_caches": "empties caches before a restart (workload 20)",
}


def main():
    options = arguments()
    if options.list:
        for name, (number, function) in ordered():
            print(f"{number:3} {name}")
        return 0
    if options.one:
        return run_here(options.one, options)
    chosen = choose(options.names)
    verdicts = [run_apart(name, options) for name in chosen]
    passed, failed, skipped = (verdicts.count(verdict) for verdict in ("ok", "FAIL", "skip"))
    print(f"workloads: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", help="a directory on the file system under test")
    parser.add_argument("--state", help="a local directory for the engine's catalogue")
    parser.add_argument("--dir2", help="the same directory through another mount (workloads 14, 15)")
    parser.add_argument("--redis", help="HOST:PORT of the metadata's Redis server (workload 19)")
    parser.add_argument("--lease-seconds", help="how long a dead session may hold a lock (workload 14)")
    parser.add_argument("--tpchgen", help="the program tpchgen-cli, if it is not beside this python (workload 21)")
    parser.add_argument("--partitions", help="how many for workload 20")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one workload")
    parser.add_argument("--keep", action="store_true", help="leave the files of the workloads")
    parser.add_argument("--list", action="store_true", help="list the workloads")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    for hook, what in HOOKS.items():
        parser.add_argument(f"--hook-{hook.replace('_', '-')}", dest=hook, help=f"shell command that {what}")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if not options.list and not (options.dir and options.state):
        parser.error("--dir and --state are needed")
    return options


def ordered():
    return sorted(WORKLOADS.items(), key=lambda item: item[1][0])


def choose(names):
    known = {name: name for name, _ in ordered()} | {str(number): name for name, (number, _) in ordered()}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"unknown workloads: {' '.join(unknown)} (see --list)")
    return [known[name] for name in names] if names else [name for name, _ in ordered()]


def run_apart(name, options):
    """Runs one workload in a process; prints its line and returns its verdict."""
    start = time.monotonic()
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--one", name]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, check=False)
        lines, good = result.stdout.strip().splitlines(), result.returncode == 0
        note = lines[-1] if lines else result.stderr[-1500:].strip()
        if not good and result.returncode < 0:
            note = f"the engine died of signal {-result.returncode} {note}"
    except subprocess.TimeoutExpired:
        good, note = False, f"no end after {options.timeout:.0f} s"
    if good and note.startswith("skipped: "):
        verdict, text = "skip", note.removeprefix("skipped: ")
    elif good:
        verdict, text = "ok", f"{time.monotonic() - start:.1f} {note if note != 'done' else ''}"
    else:
        verdict, text = "FAIL", note
    print(f"{verdict} {name} {text}".rstrip(), flush=True)
    return verdict


def run_here(name, options):
    context = Context(name, options.dir, options.state, vars(options))
    try:
        context.prepare()
        note = WORKLOADS[name][1](context)
        if not options.keep:
            context.clean()
            if os.path.exists(context.dir):
                raise Failure(f"the directory is still there: {os.listdir(context.dir)}")
    except Failure as failure:
        print(str(failure).replace("\n", " | "))
        return 1
    except Exception:
        print(traceback.format_exc().strip().replace("\n", " | ")[-1500:])
        return 1
    print(note or "done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
