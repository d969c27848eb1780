"""How long a pod with a volume takes to start, compared with one without."""

import time

import kube
from harness import scenario

COUNT = 20


def start_up(t, name, claims, **spec):
    """Seconds from asking for a pod until it is ready."""
    start = time.monotonic()
    t.pod(name, claims, wait=False, **spec)
    kube.kubectl("-n", t.namespace, "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s", seconds=70)
    return time.monotonic() - start


def median_and_p95(seconds):
    """Both in milliseconds."""
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2] * 1000, ordered[int(len(ordered) * 0.95) - 1] * 1000


@scenario(3, seconds=600)
def publish_time(t):
    """Twenty pods on a file system that is served already: p95 under 300 ms above a bare pod."""
    for number in range(COUNT):
        t.claim(f"v{number}")
    for number in range(COUNT):
        t.bound(f"v{number}")
    t.pod("holds", ["v0"])
    empty = [{"name": "empty", "emptyDir": {}}]
    bare, with_volume = [], []
    for number in range(COUNT):  # in turns, so that a slow moment of the machine falls on both
        bare.append(start_up(t, f"bare{number}", [], volumes=empty))
        with_volume.append(start_up(t, f"pod{number}", [f"v{number}"]))
        kube.kubectl("-n", t.namespace, "delete", "pod", f"bare{number}", f"pod{number}", "--wait=false")
    median, p95 = median_and_p95([b - a for a, b in zip(bare, with_volume)])
    t.note(f"above bare: median {median:.0f} ms, p95 {p95:.0f} ms")
    for what, seconds in (("bare", bare), ("with a volume", with_volume)):
        t.note("{}: median {:.0f} ms, p95 {:.0f} ms".format(what, *median_and_p95(seconds)))
    t.check("p95 of publish is under 300 ms above a bare pod", p95 < 300, f"{p95:.0f} ms")
