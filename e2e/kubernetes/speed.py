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


def spread(what, seconds):
    """Median and p95 in words."""
    ordered = sorted(seconds)
    return f"{what} {ordered[len(ordered) // 2] * 1000:.0f}/{ordered[int(len(ordered) * 0.95) - 1] * 1000:.0f} ms"


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
    above = sorted(b - a for a, b in zip(bare, with_volume))
    p95, median = above[int(COUNT * 0.95) - 1], above[COUNT // 2]
    t.note(f"above bare: median {median * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms; {spread('bare', bare)}; {spread('with a volume', with_volume)}")
    t.check("p95 of publish is under 300 ms above a bare pod", p95 < 0.3, f"{p95 * 1000:.0f} ms")
