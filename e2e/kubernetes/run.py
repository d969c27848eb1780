"""Runs the end-to-end scenarios on the cluster that KUBECONFIG names and checks what they promise.

    python3 run.py [--own-cluster] [--log FILE] [--keep] [SCENARIO ...]

Each scenario has a namespace of its own. It ends in one line, `ok NAME seconds [note]`, `FAIL NAME why` or `skip NAME why`; a table follows. The exit code is
0 when something ran and nothing failed. `cargo xtask e2e` is the door to this.
"""

import argparse
import os
import signal
import sys
import time
import traceback

import kube
from bed import Bed
from harness import SCENARIOS, Context, Failure, Skipped

import chart, clickhouse, documented, faults, kills, refusals, security, snapshots, speed, volumes  # noqa: E401,F401 - they register their scenarios


def main():
    options = arguments()
    if options.list:
        for name, (number, function, *_) in ordered():
            print(f"{number:>3} {name:26} {function.__doc__.splitlines()[0]}")
        return 0
    if options.own_cluster:
        use_own_cluster()
    log = open(options.log, "w", encoding="utf-8") if options.log else None

    def say(text):
        print(text, flush=True)
        if log:
            print(f"{time.strftime('%H:%M:%S')} {text}", file=log, flush=True)

    bed = Bed(say, options.own_cluster)
    lines = []
    try:
        lines.append(step("install", bed.install, say, bed, log))
        if lines[-1][1] == "ok":
            chosen = choose(options.names)
            lines += [run_one(name, bed, say, log) for name in chosen]
    finally:
        if not options.keep:
            lines.append(step("uninstall", bed.uninstall, say, bed, log))
    return table(lines, say)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--own-cluster", action="store_true", help="the cluster of e2e/cluster, whose node can be looked into")
    parser.add_argument("--log", help="where everything that is shown is written, with evidence of failures")
    parser.add_argument("--keep", action="store_true", help="leave the release and the services")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("names", nargs="*", help="names or numbers; none: all")
    return parser.parse_args()


def use_own_cluster():
    state = os.environ.get("CARAFE_K8S", os.path.expanduser("~/.cache/carafe-k8s"))
    os.environ["KUBECONFIG"] = os.path.join(state, "state", "admin.kubeconfig")
    os.environ["PATH"] = os.path.join(state, "bin") + ":" + os.environ["PATH"]


def ordered():
    return sorted(SCENARIOS.items(), key=lambda item: item[1][0])


def choose(names):
    if not names:
        return [name for name, _ in ordered()]
    chosen = []
    for word in names:
        found = [name for name, (number, *_) in ordered() if word in (name, str(number))]
        if not found:
            sys.exit(f"unknown scenario {word!r} (see --list)")
        chosen += found
    return chosen


def run_one(name, bed, say, log):
    _, function, own_cluster, seconds = SCENARIOS[name]
    context = Context(name, bed, say)

    def scenario():
        if own_cluster and not bed.own_cluster:
            context.skip("it looks into the node, which only the project's own cluster allows")
        kube.kubectl("delete", "namespace", context.namespace, "--ignore-not-found", "--timeout=60s", seconds=70)
        kube.kubectl("create", "namespace", context.namespace)
        function(context)
        if not context.checks:
            raise Failure("it checked nothing")
        clean_up(context)

    return step(name, scenario, say, bed, log, seconds, context)


def clean_up(context):
    """Deletes the namespace; what cannot be deleted is a failure, too."""
    kube.kubectl("delete", "namespace", context.namespace, "--timeout=90s", seconds=100)


def step(name, function, say, bed, log, seconds=600, context=None):
    """Runs a step; returns its line of the table."""
    say(f"\n==> {name}")
    start = time.monotonic()
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(seconds)
    verdict, note = "ok", ""
    try:
        function()
        note = "; ".join(context.notes) if context else ""
    except Skipped as why:
        verdict, note = "skip", str(why)
    except (Failure, kube.KubeError) as why:
        verdict, note = "FAIL", str(why)
    except Exception:  # noqa: BLE001 - a fault of a scenario is a failure of it, and the next one runs
        verdict, note = "FAIL", traceback.format_exc()
    signal.alarm(0)
    took = time.monotonic() - start
    first = next(iter(note.strip().splitlines()), "") if verdict != "FAIL" or "Traceback" not in note else note.strip().splitlines()[-1]
    say(f"{verdict} {name} {took:.1f} s {note if verdict == 'FAIL' else first}")
    if verdict == "FAIL" and log:
        print(bed.evidence(), file=log, flush=True)
    checks = context.checks if context else 0
    return name, verdict, took, checks, first


def out_of_time(*_):
    raise Failure("it took too long")


def table(lines, say):
    say("\n{:28} {:5} {:>8} {:>7}  {}".format("scenario", "", "seconds", "checks", "note"))
    for name, verdict, took, checks, note in lines:
        say(f"{name:28} {verdict:5} {took:8.1f} {checks:7}  {note[:110]}")
    verdicts = [line[1] for line in lines if line[0] not in ("install", "uninstall")]
    failed = [line for line in lines if line[1] == "FAIL"]
    say(f"{verdicts.count('ok')} passed, {len(failed)} failed, {verdicts.count('skip')} skipped")
    return 1 if failed or not verdicts.count("ok") else 0


if __name__ == "__main__":
    sys.exit(main())
