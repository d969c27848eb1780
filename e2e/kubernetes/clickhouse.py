"""ClickHouse as clickhouse-operator runs it: the very objects that it makes of an installation of one shard and two replicas.

The operator itself is not needed. The engine is that of the image `clickhouse`, which answers the HTTP protocol.
"""


import kube
from harness import scenario
from volumes import second_mount

CHI = "ch-carafe"
LABEL = "clickhouse.altinity.com/"
PATTERN = f"clickhouse/${{pvc.namespace}}/${{pvc.labels['{LABEL}chi']}}/${{pvc.labels['{LABEL}shard']}}-${{pvc.labels['{LABEL}replica']}}"
ROWS = 100_000
GIB = 1 << 30

STORAGE = """<clickhouse><storage_configuration>
  <disks><carafe><type>local</type><path>/shared/data/</path></carafe></disks>
  <policies>
    <carafe><volumes><main><disk>carafe</disk></main></volumes></carafe>
    <hot_and_cold><volumes><hot><disk>default</disk></hot><cold><disk>carafe</disk></cold></volumes><move_factor>0.1</move_factor></hot_and_cold>
  </policies></storage_configuration></clickhouse>"""


@scenario(25, seconds=900)
def clickhouse(t):
    """One shard, two replicas, tables on Carafe disks: insert, move, lose pods, grow, keep and delete."""
    classes(t)
    for replica in (0, 1):
        install(t, replica)
    for replica in (0, 1):
        t.ready(pod(replica), 180)
        fill(t, replica)
        move_there_and_back(t, replica)
    by_pattern(t)
    for replica in (0, 1):
        t.delete("pod", pod(replica), 90)
    for replica in (0, 1):
        kube.wait("the pod is made again", 60, lambda: kube.exists("pod", pod(replica), t.namespace))
        t.ready(pod(replica), 180)
        t.check(f"replica {replica}: every row is there after the loss of its pod", rows(t, replica, "events") == ROWS)
    grow(t)
    keep_and_delete(t)


def classes(t):
    """StorageClasses as a user writes them: the installed one with a path pattern."""
    secrets = {k: v for k, v in kube.get("storageclass", "carafe")["parameters"].items() if k.startswith("csi.storage.k8s.io/")}
    for name, more in (("e2e-clickhouse", {}), ("e2e-clickhouse-adopt", {"onPathExists": "adopt"})):
        kube.apply({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
                    "provisioner": "csi.carafe.dev", "reclaimPolicy": "Retain", "allowVolumeExpansion": True,
                    "parameters": secrets | {"pathPattern": PATTERN} | more})


def host(replica):
    return f"chi-{CHI}-c1-0-{replica}"


def pod(replica):
    return host(replica) + "-0"


def install(t, replica):
    """A StatefulSet with what belongs to it."""
    labels = {LABEL + "app": "chop", LABEL + "chi": CHI, LABEL + "cluster": "c1", LABEL + "namespace": t.namespace,
              LABEL + "shard": "0", LABEL + "replica": str(replica)}
    macros = f"<clickhouse><macros><installation>{CHI}</installation><cluster>c1</cluster><shard>0</shard><replica>{host(replica)}</replica></macros></clickhouse>"
    maps = {f"{host(replica)}-config": {"storage.xml": STORAGE}, f"{host(replica)}-conf": {"macros.xml": macros}}
    ports = [{"name": "tcp", "containerPort": 9000}, {"name": "http", "containerPort": 8123}, {"name": "interserver", "containerPort": 9009}]
    ping = {"httpGet": {"path": "/ping", "port": "http"}, "periodSeconds": 3, "timeoutSeconds": 1}
    container = {
        "name": "clickhouse", "image": t.bed.images["clickhouse"], "imagePullPolicy": "IfNotPresent", "ports": ports,
        "env": [{"name": "CLICKHOUSE_SKIP_USER_SETUP", "value": "1"}],
        "readinessProbe": ping | {"initialDelaySeconds": 10}, "livenessProbe": ping | {"initialDelaySeconds": 60, "failureThreshold": 10},
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/clickhouse"}, {"name": "shared", "mountPath": "/shared"},
                         {"name": "config", "mountPath": "/etc/clickhouse-server/config.d/"},
                         {"name": "conf", "mountPath": "/etc/clickhouse-server/conf.d/"}],
    }
    volumes = [{"name": name, "configMap": {"name": f"{host(replica)}-{name}"}} for name in ("config", "conf")]
    claims = [claim("data", "carafe", "ReadWriteOnce", labels), claim("shared", "e2e-clickhouse", "ReadWriteMany", labels)]
    kube.apply(
        *({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": n, "namespace": t.namespace}, "data": d} for n, d in maps.items()),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": host(replica), "namespace": t.namespace},
         "spec": {"clusterIP": "None", "selector": labels, "ports": [{"name": p["name"], "port": p["containerPort"]} for p in ports]}},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": host(replica), "namespace": t.namespace, "labels": labels},
         "spec": {"replicas": 1, "serviceName": host(replica), "selector": {"matchLabels": labels}, "volumeClaimTemplates": claims,
                  "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                  "template": {"metadata": {"labels": labels},
                               "spec": {"terminationGracePeriodSeconds": 30, "containers": [container], "volumes": volumes}}}})


def claim(name, storage_class, mode, labels):
    spec = {"accessModes": [mode], "storageClassName": storage_class, "volumeMode": "Filesystem", "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def query(t, replica, sql, seconds=120):
    """Asks a replica's engine; an error of it is an error here."""
    script = ("import sys, urllib.request as u, urllib.error as e\n"
              "try: print(u.urlopen('http://127.0.0.1:8123/', sys.stdin.buffer.read(), 100).read().decode(), end='')\n"
              "except e.HTTPError as x: sys.exit(x.read().decode())")
    return kube.kubectl("-n", t.namespace, "exec", "-i", pod(replica), "--", "python3", "-c", script, text=sql, seconds=seconds).strip()


def rows(t, replica, table):
    return int(query(t, replica, f"SELECT count() FROM {table}"))


def fill(t, replica):
    for table, policy in (("events", "carafe"), ("moved", "hot_and_cold")):
        query(t, replica, f"CREATE TABLE {table} (n UInt64, p UInt8, s String) ENGINE = MergeTree PARTITION BY p ORDER BY n "
                          f"SETTINGS storage_policy = '{policy}', min_bytes_for_wide_part = 0")
    for part in range(4):
        query(t, replica, f"INSERT INTO events SELECT number, number % 4, toString(number) FROM numbers({part * ROWS // 4}, {ROWS // 4})")
    t.check(f"replica {replica}: every row is there", rows(t, replica, "events") == ROWS)
    query(t, replica, "OPTIMIZE TABLE events FINAL")
    seen = query(t, replica, "SELECT count(), sum(n), uniqExact(s) FROM events")
    t.check(f"replica {replica}: the sums are right after OPTIMIZE", seen == f"{ROWS}\t{ROWS * (ROWS - 1) // 2}\t{ROWS}", seen)
    seen = query(t, replica, "SELECT groupUniqArray(disk_name) FROM system.parts WHERE table = 'events' AND active")
    t.check(f"replica {replica}: the table lies on the Carafe disk", seen == "['carafe']", seen)
    size = int(query(t, replica, "SELECT total_space FROM system.disks WHERE name = 'carafe'"))
    t.check(f"replica {replica}: the disk's size is the claim's", size == GIB, size)


def move_there_and_back(t, replica):
    query(t, replica, "INSERT INTO moved SELECT number, 1, toString(number) FROM numbers(20000)")
    for disk in ("carafe", "default"):
        query(t, replica, f"ALTER TABLE moved MOVE PARTITION 1 TO DISK '{disk}'")
        seen = query(t, replica, "SELECT groupUniqArray(disk_name) FROM system.parts WHERE table = 'moved' AND active")
        good = seen == f"['{disk}']" and query(t, replica, "SELECT sum(n) FROM moved") == "199990000"
        t.check(f"replica {replica}: MOVE PARTITION to {disk} keeps the sum", good, seen)


def by_pattern(t):
    second_mount(t)
    for replica in (0, 1):
        path = f"/mnt/clickhouse/{t.namespace}/{CHI}/0-{replica}/data/store"
        t.check(f"replica {replica} lies under its path pattern", t.run("second", f"ls {path}").strip() != "", path)
    t.delete("pod", "second")


def grow(t):
    name = f"shared-{pod(0)}"
    patch = '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}'
    kube.kubectl("-n", t.namespace, "patch", "pvc", name, "--type=merge", "-p", patch)
    kube.wait("the engine sees 2 GiB", 60, lambda: query(t, 0, "SELECT total_space FROM system.disks WHERE name = 'carafe'") == str(2 * GIB))
    t.check("the engine sees the resized claim without a restart", True, "2 GiB")


def keep_and_delete(t):
    """What the operator does when the installation is deleted: its sets and `data` go, `shared` with Retain stays."""
    volumes = {c: t.get("pvc", f"{c}-{pod(0)}")["spec"]["volumeName"] for c in ("data", "shared")}
    for replica in (0, 1):
        t.delete("statefulset", host(replica), 90)
        kube.wait("the pod is gone", 90, lambda: not kube.exists("pod", pod(replica), t.namespace))
        t.delete("pvc", f"data-{pod(replica)}", 90), t.delete("pvc", f"shared-{pod(replica)}", 90)
    kube.wait("the deleted volume is gone", 60, lambda: not kube.exists("pv", volumes["data"]))
    t.check("Delete: the volume is gone", not kube.exists("pv", volumes["data"]))
    kube.wait("the retained volume is released", 60, lambda: kube.get("pv", volumes["shared"])["status"]["phase"] == "Released")
    t.check("Retain: the volume is kept", True, "Released")
    labels = {LABEL + "chi": CHI, LABEL + "shard": "0", LABEL + "replica": "0"}
    t.claim("again", size="2Gi", storage_class="e2e-clickhouse-adopt", labels=labels)
    t.bound("again")
    t.pod("looks", ["again"])
    t.check("a new claim of the same pattern adopts the folder", t.run("looks", "find /again/data -name '*.bin' -o -name 'data.*' | head -1").strip() != "")
    t.delete("pod", "looks")
    # Retain leaves volumes to their administrator, which is this test.
    for volume in kube.items("pv"):
        if volume["spec"].get("claimRef", {}).get("namespace") == t.namespace:
            kube.kubectl("delete", "pv", volume["metadata"]["name"], "--wait=false")
    kube.kubectl("delete", "storageclass", "e2e-clickhouse", "e2e-clickhouse-adopt", "--ignore-not-found")
