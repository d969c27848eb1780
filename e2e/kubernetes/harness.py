"""What a scenario is: a numbered function that checks what it promises and says so.

A scenario gets a `Context` with a namespace of its own. `context.check(what, condition, seen)` is the one way to assert: it prints the
statement, so that the log of a run says what was shown, and raises `Failure` when it does not hold. `context.skip(why)` ends a scenario that this cluster
cannot run; that is never counted as passed.
"""

import contextlib
import time

import kube

SCENARIOS = {}


class Failure(Exception):
    """Something that should hold does not."""


class Skipped(Exception):
    """This cluster cannot show it."""


def scenario(number, own_cluster=False, seconds=300):
    """Registers a function as a scenario. `own_cluster`: it looks into the node or kills parts of it."""

    def register(function):
        SCENARIOS[function.__name__] = (number, function, own_cluster, seconds)
        return function

    return register


class Context:
    """What a running scenario has."""

    def __init__(self, name, bed, say):
        self.name, self.bed, self.say = name, bed, say
        self.namespace = "e2e-" + name.replace("_", "-")
        self.checks = 0
        self.notes = []

    def check(self, what, condition, seen=None):
        shown = "" if seen is None else f" [{seen}]"
        self.say(f"    {'shown' if condition else 'NOT SO'}: {what}{shown}")
        if not condition:
            raise Failure(f"{what}{shown}")
        self.checks += 1

    def note(self, text):
        self.notes.append(text)

    def skip(self, why):
        raise Skipped(why)

    @contextlib.contextmanager
    def timed(self, what, seconds):
        """Checks that what is done inside takes no longer."""
        start = time.monotonic()
        yield
        took = time.monotonic() - start
        self.check(f"{what} within {seconds:g} s", took < seconds, f"{took:.2f} s")
        self.note(f"{what} {took:.1f} s")

    # --- objects of the scenario's namespace

    def claim(self, name, size="1Gi", mode="ReadWriteMany", storage_class="carafe", **more):
        """Asks for a volume; does not wait."""
        spec = {
            "accessModes": [mode],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        } | more.pop("spec", {})
        metadata = {"name": name, "namespace": self.namespace} | more
        kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})

    def bound(self, name, seconds=60):
        """Waits until a claim is bound; returns its PersistentVolume."""
        kube.wait(f"claim {name} is Bound", seconds, lambda: self.get("pvc", name)["status"].get("phase") == "Bound",
                  lambda: kube.events(self.namespace, name))
        return kube.get("pv", self.get("pvc", name)["spec"]["volumeName"])

    def pod(self, name, claims, command="exec sleep 1000000", wait=True, **spec):
        """Makes a pod with each claim mounted at /NAME; waits until it is ready."""
        image = spec.pop("image", self.bed.images["shell"])
        mounts = [{"name": c, "mountPath": f"/{c}"} | spec.get("mount", {}) for c in claims]
        spec.pop("mount", None)
        container = {
            "name": "main", "image": image, "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", command], "volumeMounts": mounts,
        } | spec.pop("container", {})
        volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
        body = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": volumes} | spec
        kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": self.namespace}, "spec": body})
        if wait:
            self.ready(name)

    def ready(self, name, seconds=120):
        kube.wait(f"pod {name} is ready", seconds, lambda: kube.is_ready(self.get("pod", name)),
                  lambda: kube.events(self.namespace, name))

    def get(self, kind, name):
        return kube.get(kind, name, self.namespace)

    def run(self, pod, script, check=True, seconds=120):
        """Runs a shell script in a pod; returns its output."""
        return kube.kubectl("-n", self.namespace, "exec", pod, "--", "sh", "-c", script, check=check, seconds=seconds)

    def logs(self, pod):
        return kube.kubectl("-n", self.namespace, "logs", pod)

    def delete(self, kind, name, seconds=60):
        """Deletes an object and waits until it is gone."""
        kube.kubectl("-n", self.namespace, "delete", kind, name, f"--timeout={seconds}s", "--ignore-not-found", seconds=seconds + 10)

    def statfs(self, pod, path):
        """Size of the file system at `path`, as `stat -f` shows it, in bytes."""
        blocks, size = self.run(pod, f"stat -f -c '%b %S' {path}").split()
        return int(blocks) * int(size)

    def event(self, name, text, seconds=60):
        """Waits for an event on `name` that contains `text`; returns it."""
        found = []

        def look():
            found[:] = [line for line in kube.events(self.namespace, name).splitlines() if text.lower() in line.lower()]
            return found

        kube.wait(f"an event on {name} says {text!r}", seconds, look, lambda: kube.events(self.namespace, name))
        return found[0].strip()
