"""kubectl, driven: objects are dictionaries, waits have a limit and say what they saw."""

import json
import os
import subprocess
import time

CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster")


class KubeError(Exception):
    """kubectl said no, or something did not come about in time."""


def run(command, check=True, seconds=60, text=None):
    """Runs a program; returns its output, with its errors when they are not checked."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise KubeError(f"{' '.join(command)[:300]}: no answer in {seconds} s") from error
    if check and done.returncode != 0:
        raise KubeError(f"{' '.join(command)[:300]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout if check else done.stdout + done.stderr


def kubectl(*arguments, **options):
    return run(["kubectl", *arguments], **options)


def apply(*objects, seconds=60, extra=()):
    """Applies objects (dictionaries)."""
    body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return kubectl("apply", "-f", "-", *extra, text=json.dumps(body), seconds=seconds)


def get(kind, name, namespace=None):
    where = ["-n", namespace] if namespace else []
    return json.loads(kubectl(*where, "get", kind, name, "-o", "json"))


def items(kind, namespace=None, selector=None):
    where = ["-n", namespace] if namespace else ["-A"]
    which = ["-l", selector] if selector else []
    return json.loads(kubectl("get", kind, *where, *which, "-o", "json"))["items"]


def exists(kind, name, namespace=None):
    where = ["-n", namespace] if namespace else []
    return kubectl(*where, "get", kind, name, "-o", "name", "--ignore-not-found").strip() != ""


def is_ready(pod):
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def events(namespace, name):
    """What was said about an object, a line each: reason and message, without its name, which a test could find by mistake."""
    return kubectl("-n", namespace, "get", "events", f"--field-selector=involvedObject.name={name}", "--no-headers",
                   "-o", "custom-columns=REASON:.reason,MESSAGE:.message", check=False, seconds=20)


def wait(what, seconds, condition, explain=lambda: "", pause=0.2):
    """Waits until `condition()` is true; an error of kubectl counts as not yet."""
    end = time.monotonic() + seconds
    last = ""
    while True:
        try:
            if condition():
                return
            last = ""
        except KubeError as error:
            last = str(error)
        if time.monotonic() > end:
            raise KubeError(f"not within {seconds} s: {what}\n{last}{explain()}")
        time.sleep(pause)


def in_node(*command, check=True, seconds=60):
    """Runs a command in the namespaces of the project's own test node."""
    return run([os.path.join(CLUSTER, "in-node.sh"), *command], check=check, seconds=seconds)


def mounts():
    """Lines of the node's mount table that are Carafe's: (mount number, device, mount point)."""
    lines = (line.split() for line in in_node("cat", "/proc/1/mountinfo").splitlines())
    # Mounts of other work on the machine are visible in the node, too.
    return [(l[0], l[2], l[4]) for l in lines if "fuse.carafe" in l[l.index("-"):] and l[4].startswith("/var/lib/kubelet/")]
