"""The driver, the store and the bucket killed, one at a time, while ClickHouse inserts.

A loader pod without a volume inserts numbered batches and says what was acknowledged. It never sends a batch twice, so afterwards each
acknowledged batch must be whole, and every other one whole or absent.
"""

import kube
from bed import RELEASE, SERVICES, SYSTEM
from clickhouse import classes, host, install, pod, query
from faults import goes_on, rounds
from harness import scenario

BATCH = 100

LOADER = r"""
import time, urllib.error, urllib.request
batch = 0
while True:
    batch += 1
    sql = f"INSERT INTO acked SELECT {batch}, number, randomPrintableASCII(1000) FROM numbers(%d)"
    try:
        urllib.request.urlopen("http://%s:8123/", sql.encode(), 300).read()
        print("ok", batch, int(time.time()), flush=True)
    except urllib.error.HTTPError as error:
        print("error", batch, int(time.time()), error.read()[:200], flush=True)
    except OSError as error:
        print("error", batch, int(time.time()), error, flush=True)
    time.sleep(0.2)
"""


@scenario(30, own_cluster=True, seconds=900)
def killed_under_inserts(t):
    """Controller, Redis, S3 and node plugin killed under an insert loop of ClickHouse: no acknowledged row is lost."""
    classes(t)
    install(t, 0)
    t.ready(pod(0), 180)
    # Wide enough that parts go to the bucket: small files are kept in the store.
    query(t, 0, "CREATE TABLE acked (batch UInt32, n UInt32, s String) ENGINE = MergeTree ORDER BY (batch, n) SETTINGS storage_policy = 'carafe'")
    script = LOADER % (BATCH, f"{host(0)}.{t.namespace}.svc")
    t.pod("loader", [], image=t.bed.images["clickhouse"], container={"command": ["python3", "-c", script]})
    goes_on(t, "loader", 120)
    unseen(t, "controller", lambda: kill(SYSTEM, f"{RELEASE}-controller"), lambda: deployed(t))
    unseen(t, "Redis", lambda: kill(SERVICES, "redis-"), lambda: t.bed.service_is_up("redis"))
    unseen(t, "S3", lambda: kill(SERVICES, "s3-"), lambda: t.bed.service_is_up("s3"))
    if t.bed.launcher == "pods":
        unseen(t, "node plugin", lambda: kill(SYSTEM, f"{RELEASE}-node"), lambda: deployed(t))
    else:
        mounts_end_with_the_plugin(t)
    t.note(f"{rounds(t, 'loader')[0]} batches acknowledged")
    t.delete("pod", "loader")
    remove(t)
    code, said = t.bed.carafe("fsck", "$(META_URL)")
    t.check("fsck finds nothing", code == 0, said.strip().splitlines()[-1] if said.strip() else code)


def kill(namespace, prefix):
    """Kills every process of some pods at once, as a crash of them all would, and waits until the kubelet has started them again."""
    killed = containers(namespace, prefix)
    pids = {line.split()[0]: line.split()[1] for line in kube.in_node("ctr", "-n", "k8s.io", "task", "ls").splitlines()[1:]}
    kube.in_node("sh", "-c", "kill -9 " + " ".join(pids[container] for container in killed))
    kube.wait("other containers run in their place", 120, lambda: len(now := containers(namespace, prefix)) == len(killed) and not now & killed)


def containers(namespace, prefix):
    """The ids of the running containers of the pods whose names begin so."""
    found = set()
    for one in kube.items("pods", namespace):
        if one["metadata"]["name"].startswith(prefix):
            states = one["status"].get("containerStatuses", [])
            found |= {state["containerID"].removeprefix("containerd://") for state in states if "running" in state["state"]}
    return found


def deployed(t):
    for kind in ("daemonset/" + RELEASE + "-node", "deployment/" + RELEASE + "-controller"):
        kube.kubectl("-n", SYSTEM, "rollout", "status", kind, "--timeout=120s", seconds=130)
    kube.wait("the driver is registered on every node", 60, t.bed.registered)


def unseen(t, what, end, back):
    """Something is killed and comes back: the loader waits, sees no error, and goes on."""
    seen = len(rounds(t, "loader")[1])
    end()
    back()
    goes_on(t, "loader", 180)
    _, errors, pause = rounds(t, "loader")
    t.check(f"{what} killed: ClickHouse saw no error", len(errors) == seen, errors[seen:seen + 2] or f"longest pause so far {pause} s")
    nothing_lost(t, what)


def mounts_end_with_the_plugin(t):
    """Mounts that are processes of the plugin end with it: applications get errors and no acknowledgements, a new pod has every row."""
    kill(SYSTEM, f"{RELEASE}-node")
    kube.wait("the engine sees that its mount ended", 60, lambda: "not connected" in t.run(pod(0), "ls /shared", check=False))
    t.check("node plugin killed: the pod sees ENOTCONN, as docs/kubernetes.md says", True)
    deployed(t)
    t.delete("pod", pod(0), 90)
    kube.wait("the pod is made again", 60, lambda: kube.exists("pod", pod(0), t.namespace))
    t.ready(pod(0), 180)
    goes_on(t, "loader", 180)
    nothing_lost(t, "node plugin")


def nothing_lost(t, what):
    """Compares the table with what was acknowledged."""
    acknowledged = {int(line.split()[1]) for line in t.logs("loader").splitlines() if line.startswith("ok ")}
    counts = dict(map(int, line.split()) for line in query(t, 0, "SELECT batch, count() FROM acked GROUP BY batch").splitlines())
    lost = sorted(batch for batch in acknowledged if counts.get(batch, 0) != BATCH)
    t.check(f"{what} killed: every acknowledged batch is whole", not lost, f"{len(acknowledged)} acknowledged, lost {lost[:5]}")
    torn = {batch: count for batch, count in counts.items() if count != BATCH}
    t.check(f"{what} killed: no batch is there in part or twice", not torn, torn)


def remove(t):
    """The set, its claims and classes; the retained volume is this test's to delete."""
    t.delete("statefulset", host(0), 90)
    kube.wait("the pod is gone", 90, lambda: not kube.exists("pod", pod(0), t.namespace))
    for claim in ("data", "shared"):
        t.delete("pvc", f"{claim}-{pod(0)}", 90)
    for volume in kube.items("pv"):
        if volume["spec"].get("claimRef", {}).get("namespace") == t.namespace:
            kube.kubectl("delete", "pv", volume["metadata"]["name"], "--wait=false")
    kube.kubectl("delete", "storageclass", "e2e-clickhouse", "e2e-clickhouse-adopt", "--ignore-not-found")
