"""Snapshots, restores, clones."""

import kube
from faults import goes_on
from harness import scenario

# Publishes folders of equal files by one rename each, as a database publishes parts.
PARTS = r"""
mkdir -p /data/parts; i=0
while :; do
  i=$((i+1)); mkdir /data/parts/tmp_$i
  for f in 1 2 3 4 5; do echo "part $i" > /data/parts/tmp_$i/$f; done
  mv /data/parts/tmp_$i /data/parts/p$i && echo "ok $i $(date +%s)" || echo "ERROR $i"; sleep 0.05
done
"""
WHOLE = r"""cd /data/parts; for p in p*; do [ "$(cat $p/1 $p/2 $p/3 $p/4 $p/5 | sort -u)" = "part ${p#p}" ] || echo "torn $p"; done; ls -d p* | wc -l"""


@scenario(21, seconds=400)
def snapshot_and_clone(t):
    """A snapshot under load restores to whole parts; a clone is a copy of its own; quotas are exact."""
    t.claim("data")
    t.bound("data")
    t.pod("writer", ["data"], "head -c 2000000 /dev/urandom > /data/big; " + PARTS)
    goes_on(t, "writer")
    big = t.run("writer", "sha256sum < /data/big")
    kube.apply({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": "cut", "namespace": t.namespace},
                "spec": {"volumeSnapshotClassName": "carafe", "source": {"persistentVolumeClaimName": "data"}}})
    kube.wait("the snapshot is ready", 60, lambda: t.get("volumesnapshot", "cut")["status"]["readyToUse"], lambda: kube.events(t.namespace, "cut"))
    goes_on(t, "writer")
    restored(t, "restored", {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "cut"}, big)
    restored(t, "clone", {"kind": "PersistentVolumeClaim", "name": "data"}, big)
    errors = [line for line in t.logs("writer").splitlines() if not line.startswith("ok ")]
    t.check("the writer saw no error", not errors, errors[:2])
    t.delete("volumesnapshot", "cut")
    t.check("the restored volume outlives its snapshot", t.run("pod-restored", "sha256sum < /restored/big") == big)


def restored(t, name, source, big):
    """A volume from a source, checked."""
    t.claim(name, size="1Gi", spec={"dataSource": source})
    t.bound(name)
    t.pod(f"pod-{name}", [name])
    lines = t.run(f"pod-{name}", WHOLE.replace("/data", f"/{name}")).splitlines()
    t.check(f"{name}: every published part is whole", not [l for l in lines if l.startswith("torn")] and int(lines[-1]) > 0, f"{lines[-1]} parts")
    t.check(f"{name}: the big file is equal", t.run(f"pod-{name}", f"sha256sum < /{name}/big") == big)
    t.check(f"{name}: the quota is 1 GiB", t.statfs(f"pod-{name}", f"/{name}") == 1 << 30)
    t.run(f"pod-{name}", f"echo own > /{name}/own && echo more >> /{name}/parts/p1/1")
    seen = t.run("writer", "cat /data/parts/p1/1; sha256sum < /data/big; ls /data/own 2>/dev/null || true")
    t.check(f"{name}: a change stays its own", seen == "part 1\n" + big)
