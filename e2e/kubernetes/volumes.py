"""Volumes as pods see them: sizes, modes, owners, two clients."""

import kube
from bed import SYSTEM
from harness import scenario

GIB = 1 << 30


@scenario(1, seconds=420)
def rwx_volume(t):
    """A claim of 1Gi for many pods: bound, shared, its size exact, also without the store."""
    with t.timed("Bound", 5):
        t.claim("data")
        t.bound("data", 5)
    t.pod("one", ["data"])
    t.pod("two", ["data"])
    t.run("one", "echo from-one > /data/f && mkdir /data/d && echo deep > /data/d/g")
    t.check("a second pod reads what the first wrote", t.run("two", "cat /data/f /data/d/g") == "from-one\ndeep\n")
    t.check("stat -f shows exactly 1 GiB", t.statfs("one", "/data") == GIB, t.statfs("one", "/data"))
    t.bed.stop_service("redis")
    try:
        with t.timed("stat -f without the store", 5):
            t.check("stat -f shows 1 GiB with Redis stopped", t.statfs("one", "/data") == GIB)
    finally:
        t.bed.start_service("redis")
    t.run("one", "rm -r /data/f /data/d", seconds=90)
    full = t.run("one", "dd if=/dev/zero of=/data/full bs=1M count=1024 && stat -c %s /data/full", seconds=240)
    t.check("a file of the whole quota is written", full.strip().endswith(str(GIB)))
    beyond = t.run("one", "echo x >> /data/full && sync /data/full", check=False)
    told = "No space left" in beyond or "quota exceeded" in beyond.lower()
    t.check("the byte past it is ENOSPC or EDQUOT", told, beyond.strip().splitlines()[0] if beyond.strip() else "nothing")
    t.check("the file has kept its size", t.run("two", "stat -c %s /data/full").strip() == str(GIB))


@scenario(2, seconds=600)
def close_to_open(t):
    """Two isolated mounts of one volume: 200 rounds of close and open, no wrong hash."""
    t.claim("data")
    volume = t.bound("data")
    t.pod("one", ["data"])
    t.run("one", "echo here > /data/mark")
    second_mount(t)
    found = t.run("second", f"find /mnt -path '*/mark' | grep {volume['spec']['csi']['volumeHandle']} || find /mnt -name mark").splitlines()
    t.check("the second mount shows the volume", len(found) >= 1, found[:1])
    folder = found[0].removesuffix("/mark")
    wrong = 0
    write = "dd if=/dev/urandom of={0}/f bs=1k count={1} 2>/dev/null && sha256sum < {0}/f"
    for number in range(100):
        size = 1 + (number * 37) % 300
        for writer, reader, place, other in (("one", "second", "/data", folder), ("second", "one", folder, "/data")):
            wrong += t.run(writer, write.format(place, size)) != t.run(reader, f"sha256sum < {other}/f")
    t.check("200 rounds of close and open have no wrong hash", wrong == 0, f"{wrong} wrong")
    t.delete("pod", "second")


def second_mount(t):
    """A pod `second` with a mount of the whole file system of its own at /mnt."""
    secret = kube.get("secret", "carafe-main", SYSTEM)
    kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "main", "namespace": t.namespace}, "data": secret["data"]})
    names = {"META_URL": "meta-url", "CARAFE_META_PASSWORD": "meta-password", "CARAFE_ACCESS_KEY": "access-key", "CARAFE_SECRET_KEY": "secret-key"}
    env = [{"name": name, "valueFrom": {"secretKeyRef": {"name": "main", "key": key}}} for name, key in names.items()]
    command = "mkdir -p /mnt && exec carafe mount $META_URL /mnt --no-cache-disk"
    t.pod("second", [], command, image=t.bed.images["carafe"], wait=False,
          container={"env": env, "securityContext": {"privileged": True, "runAsUser": 0}})
    kube.wait("the second mount is there", 60, lambda: "fuse.carafe" in t.run("second", "grep ' /mnt ' /proc/mounts"))


@scenario(20, seconds=240)
def expand(t):
    """A running pod sees a bigger volume; a VolumeAttributesClass acts without a remount."""
    t.claim("data")
    t.bound("data")
    t.pod("one", ["data"])
    t.check("the pod sees 1 GiB", t.statfs("one", "/data") == GIB)
    before = t.run("one", "grep ' /data ' /proc/self/mountinfo")
    with t.timed("2 GiB in the running pod", 5):
        patch = '{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}'
        kube.kubectl("-n", t.namespace, "patch", "pvc", "data", "--type=merge", "-p", patch)
        kube.wait("stat -f shows 2 GiB", 30, lambda: t.statfs("one", "/data") == 2 * GIB)
    kube.wait("the claim shows 2Gi", 60, lambda: t.get("pvc", "data")["status"]["capacity"]["storage"] == "2Gi")
    t.check("the mount is the same", t.run("one", "grep ' /data ' /proc/self/mountinfo") == before)
    kube.apply({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "e2e-tuned"},
                "driverName": "csi.carafe.dev", "parameters": {"inodeLimit": "5"}})
    try:
        kube.kubectl("-n", t.namespace, "patch", "pvc", "data", "--type=merge", "-p", '{"spec":{"volumeAttributesClassName":"e2e-tuned"}}')
        kube.wait("the class is in force", 60,
                  lambda: t.get("pvc", "data")["status"].get("currentVolumeAttributesClassName") == "e2e-tuned",
                  lambda: kube.events(t.namespace, "data"))
        kube.wait("a file beyond the class's limit of inodes is refused", 30,
                  lambda: t.run("one", "for i in 1 2 3 4 5 6 7 8 9; do : > /data/$i || exit 1; done", check=False).strip())
        t.check("the class's limit of inodes acts without a remount", t.run("one", "grep ' /data ' /proc/self/mountinfo") == before)
    finally:
        t.delete("pod", "one")
        t.delete("pvc", "data")
        kube.kubectl("delete", "volumeattributesclass", "e2e-tuned", "--ignore-not-found")


@scenario(22, own_cluster=True, seconds=300)
def access_modes(t):
    """One pod only, read only, block, subPath: each as Kubernetes means it."""
    t.claim("single", mode="ReadWriteOncePod")
    t.claim("many", mode="ReadWriteMany")
    t.claim("device", spec={"volumeMode": "Block"})
    t.bound("single"), t.bound("many")
    t.pod("one", ["single"])
    t.pod("two", ["single"], wait=False)
    t.check("a second pod with a ReadWriteOncePod claim is refused", "ReadWriteOncePod" in t.event("two", "ReadWriteOncePod"))
    t.delete("pod", "two"), t.delete("pod", "one")
    said = t.event("device", "InvalidArgument")
    t.check("a Block claim is refused by an event that says so", "block" in said.lower(), said[-160:])
    t.pod("writer", ["many"])
    t.run("writer", "echo here > /many/f && mkdir /many/sub && echo below > /many/sub/g")
    read_only(t)
    t.pod("part", ["many"], mount={"subPath": "sub"})
    t.check("subPath shows the folder", t.run("part", "cat /many/g") == "below\n")
    uid = t.get("pod", "part")["metadata"]["uid"]
    t.delete("pod", "part")
    left = kube.in_node("sh", "-c", f"ls -d /var/lib/kubelet/pods/{uid} 2>/dev/null; grep volume-subpaths /proc/1/mountinfo || true")
    kube.wait("the pod's folder is gone", 60, lambda: not kube.in_node("sh", "-c", f"ls -d /var/lib/kubelet/pods/{uid}/volume-subpaths/*/* 2>/dev/null || true").strip())
    t.check("subPath leaves no mount behind", "volume-subpaths" not in left, left.strip())


def read_only(t):
    """A claim mounted read-only: by the pod's volume, and by the access mode."""
    volumes = [{"name": "many", "persistentVolumeClaim": {"claimName": "many", "readOnly": True}}]
    t.pod("reader", ["many"], volumes=volumes)
    t.check("a read-only pod reads", t.run("reader", "cat /many/f") == "here\n")
    said = t.run("reader", "echo no > /many/f", check=False)
    t.check("its write is EROFS", "Read-only file system" in said, said.strip())
    t.claim("rox", mode="ReadOnlyMany")
    t.bound("rox")
    t.pod("rox-reader", ["rox"])
    said = t.run("rox-reader", "echo no > /rox/f", check=False)
    t.check("a write on a ReadOnlyMany claim is EROFS", "Read-only file system" in said, said.strip())


@scenario(23, seconds=900)
def owners(t):
    """A pod of uid and fsGroup 101 writes without parameters; a volume of 100,000 files is published with few store calls."""
    t.claim("data")
    t.bound("data")
    t.pod("click", ["data"], securityContext={"runAsUser": 101, "runAsGroup": 101, "fsGroup": 101})
    t.run("click", "echo mine > /data/f")
    t.check("the file belongs to 101", t.run("click", "stat -c %u:%g /data/f").startswith("101:"), t.run("click", "stat -c %u:%g /data/f").strip())
    script = "mkdir -p /data/many; for d in $(seq 100); do (mkdir -p /data/many/$d; cd /data/many/$d; for i in $(seq 1000); do : > $i; done) || exit 1; done; sync; find /data/many -type f | wc -l"
    t.check("100,000 files are there", t.run("click", script, seconds=600).strip() == "100000")
    t.delete("pod", "click")
    kube.wait("the mount has ended", 60, lambda: not t.bed.own_cluster or not kube.mounts(), lambda: str(kube.mounts()))
    before = t.bed.store_calls()
    t.pod("again", ["data"], securityContext={"runAsUser": 101, "fsGroup": 101})
    calls = t.bed.store_calls() - before
    t.check("publish makes fewer than 100 store calls", calls < 100, calls)
    t.note(f"{calls} store calls")
