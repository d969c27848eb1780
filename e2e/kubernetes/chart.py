"""The chart on a real API server: its objects, the examples, the quickstart."""

import glob
import os

import documented
import kube
from bed import CHART, DRIVER, MOUNTS, RELEASE, ROOT, SYSTEM
from harness import scenario


@scenario(26, seconds=240)
def chart_objects(t):
    """Every object of six sets of values is taken by the API server; misspelt values are refused."""
    sets = sorted(glob.glob(os.path.join(CHART, "ci", "*.yaml")))
    t.check("there are six sets of values", len(sets) >= 6, len(sets))
    kube.run(["kubectl", "create", "namespace", MOUNTS], check=False)  # there already with mount pods
    for number, values in enumerate(sets):
        said = kube.run(["helm", "template", f"set{number}", CHART, "-n", SYSTEM, "-f", values, "--api-versions", "snapshot.storage.k8s.io/v1"])
        taken = kube.kubectl("apply", "--dry-run=server", "-f", "-", text=said, seconds=90).splitlines()
        t.check(f"{os.path.basename(values)}: every object is taken", len(taken) == len(objects(said)), f"{len(taken)} objects")
    with open(os.path.join(ROOT, "manifests", "carafe.yaml"), encoding="utf-8") as file:
        text = file.read()
    taken = kube.kubectl("apply", "--dry-run=server", "-f", "-", text=text, seconds=90).splitlines()
    t.check("manifests/carafe.yaml: every object is taken", len(taken) == len(objects(text)), f"{len(taken)} objects")
    for wrong in ("quikstart.enabled=true", "node.tolerationz[0].operator=Exists", "fileSystems[0].name=a,fileSystems[0].secretnam=b"):
        said = kube.run(["helm", "upgrade", "--dry-run=client", "--install", "x", CHART, "-n", SYSTEM, "--set", wrong], check=False)
        t.check(f"{wrong} is refused", "additional properties" in said.lower(), said.strip().splitlines()[-1][:100])


def objects(text):
    """The documents of a stream of YAML that are objects."""
    return [part for part in ("\n" + text).split("\n---") if "\nkind:" in part]


@scenario(28, seconds=200)
def examples(t):
    """The files of manifests/examples are taken by the API server, and the one with two pods runs."""
    folder = os.path.join(ROOT, "manifests", "examples")
    operator = kube.exists("crd", "clickhouseinstallations.clickhouse.altinity.com")
    for path in sorted(glob.glob(os.path.join(folder, "*.yaml"))):
        name = os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if "kind: ClickHouseInstallation" in text and not operator:
            text = "\n---".join(part for part in ("\n" + text).split("\n---") if "kind: ClickHouseInstallation" not in part)
        if not objects(text):
            continue
        namespace = "default" if "namespace: default" in text else t.namespace
        taken = kube.kubectl("-n", namespace, "apply", "--dry-run=server", "-f", "-", text=text).splitlines()
        t.check(f"{name}: every object is taken", len(taken) == len(objects(text)), f"{len(taken)} objects")
    with open(os.path.join(folder, "shared-volume.yaml"), encoding="utf-8") as file:
        text = file.read().replace("busybox:1.37", t.bed.images["shell"])
    kube.kubectl("-n", t.namespace, "apply", "-f", "-", text=text)
    t.ready("writer"), t.ready("reader")
    kube.wait("the reader shows the writer's lines", 60, lambda: "from the writer" in t.logs("reader"))
    t.check("the reader of shared-volume.yaml shows what the writer wrote", "from the writer" in t.logs("reader"))
    kube.kubectl("-n", t.namespace, "delete", "pod", "writer", "reader", "--now")


@scenario(27, own_cluster=True, seconds=500)
def quickstart(t):
    """From nothing to a written file in 120 seconds with quickstart.enabled, by the commands of docs/kubernetes.md."""
    t.bed.uninstall_release()
    kube.in_node("sh", "-c", "mkdir -p /var/lib/carafe/quick && chown 65532:65532 /var/lib/carafe/quick")
    kube.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "e2e-quick"}, "spec": {
        "capacity": {"storage": "20Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "e2e-quick",
        "hostPath": {"path": "/var/lib/carafe/quick"}}})
    try:
        with t.timed("helm install to a written file", 120):
            disk = ["--set", "quickstart.persistence.storageClassName=e2e-quick", "--timeout=3m"]
            documented.run(t, documented.commands("Try it"), [*t.bed.image_arguments(), *disk])
            t.bound("try", 90)
            t.pod("user", ["try"])
            t.run("user", "echo written > /try/f && sync")
        t.check("the file is there", t.run("user", "cat /try/f") == "written\n")
        said = kube.run(["helm", "uninstall", RELEASE, "-n", SYSTEM, "--timeout=60s"], check=False, seconds=90)
        t.check("helm uninstall is refused while a volume is mounted", kube.exists("csidriver", DRIVER), said.strip()[-200:])
        t.delete("pod", "user"), t.delete("pvc", "try")
    finally:
        t.bed.uninstall_release()
        kube.kubectl("-n", SYSTEM, "delete", "pvc", "--all", "--timeout=60s", seconds=70)
        kube.kubectl("delete", "pv", "e2e-quick", "--timeout=60s", seconds=70)
        t.bed.install()
