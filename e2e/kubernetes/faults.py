"""Parts that go away: the store, the bucket, the kubelet, the node."""

import os
import time

import kube
from harness import scenario

# Writes files beside, renames them into place, reads them back through a fresh open, and says what it saw.
WRITER = r"""
mkdir -p /data/w; i=0; head -c 65536 /dev/urandom > /tmp/src; s=$(sha256sum < /tmp/src)
while :; do
  i=$((i+1))
  cp /tmp/src /data/w/$i.tmp && mv /data/w/$i.tmp /data/w/$i || echo "ERROR writing $i"
  [ "$(sha256sum < /data/w/$i)" = "$s" ] || echo "ERROR reading $i"
  [ $i -gt 20 ] && { rm /data/w/$((i-20)) || echo "ERROR removing"; }
  echo "ok $i $(date +%s)"; sleep 0.1
done
"""


def rounds(t, pod):
    """What the verifying writer has said: (rounds, errors, longest pause in seconds)."""
    lines = t.logs(pod).splitlines()
    times = [int(line.split()[2]) for line in lines if line.startswith("ok ")]
    errors = [line for line in lines if not line.startswith("ok ")]
    return len(times), errors, max((b - a for a, b in zip(times, times[1:])), default=0)


def goes_on(t, pod, seconds=60):
    """Waits until the writer has done ten more rounds."""
    before = rounds(t, pod)[0]
    kube.wait("the writer goes on", seconds, lambda: rounds(t, pod)[0] >= before + 10)


@scenario(11, seconds=600)
def servers_gone(t):
    """Redis, then S3 taken away: a pod can still be deleted at once, and nothing stored is lost."""
    t.claim("data")
    t.bound("data")
    for server in ("redis", "s3"):
        pod = f"user-of-{server}"
        t.pod(pod, ["data"])
        sums = t.run(pod, f"for i in 1 2 3 4 5 6 7 8; do head -c 300000 /dev/urandom > /data/{server}-$i; done; sync; cd /data && sha256sum {server}-*")
        # Something that is not stored yet, so that there is something to lose patience over.
        t.run(pod, f"head -c 300000 /dev/urandom > /data/{server}-late", check=False)
        t.bed.stop_service(server)
        try:
            with t.timed(f"pod deleted without {server}", 30):
                t.delete("pod", pod, 60)
        finally:
            t.bed.start_service(server)
        t.pod(f"after-{server}", ["data"])
        t.check(f"hashes are equal after {server} came back", t.run(f"after-{server}", f"cd /data && sha256sum {server}-[1-8]") == sums)
    t.delete("pod", "after-redis"), t.delete("pod", "after-s3")
    time.sleep(8)
    code, said = t.bed.carafe("fsck", "$(META_URL)")
    t.check("fsck finds nothing", code == 0, said.strip().splitlines()[-1] if said.strip() else code)


@scenario(12, own_cluster=True, seconds=240)
def kubelet_restart(t):
    """The kubelet restarts under load: no error, no new mount."""
    t.claim("data")
    t.bound("data")
    t.pod("writer", ["data"], WRITER)
    goes_on(t, "writer")
    before = kube.mounts()
    kube.in_node("sh", "-c", "kill -9 $(pidof kubelet)")
    kube.wait("the kubelet is back", 60, lambda: kube.in_node("pidof", "kubelet").strip())
    time.sleep(15)
    goes_on(t, "writer")
    t.check("the mount table is the same", kube.mounts() == before, f"{len(before)} mounts")
    count, errors, pause = rounds(t, "writer")
    t.check("the writer saw no error", not errors, f"{count} rounds, {errors[:2]}")
    t.note(f"{count} rounds, longest pause {pause} s")


@scenario(13, own_cluster=True, seconds=400)
def node_reboot(t):
    """The node loses power: the pod comes back and fsynced bytes are equal."""
    t.claim("data")
    t.bound("data")
    t.pod("user", ["data"], restartPolicy="Always")
    sums = t.run("user", "for i in 1 2 3 4 5 6 7 8; do head -c 500000 /dev/urandom > /data/$i; sync /data/$i; done; sync /data; cd /data && sha256sum *")
    kube.run([os.path.join(kube.CLUSTER, "down.sh"), "--keep"], seconds=60)
    kube.run([os.path.join(kube.CLUSTER, "up.sh")], seconds=200)
    for name in ("redis", "s3"):
        t.bed.service_is_up(name)
    kube.wait("the pod runs again", 180, lambda: t.run("user", "cat /data/1 > /dev/null && echo yes") == "yes\n",
              lambda: kube.events(t.namespace, "user"), pause=1)
    t.check("fsynced bytes are equal", t.run("user", "cd /data && sha256sum *") == sums)
    records = kube.in_node("sh", "-c", "ls /run/carafe/mounts 2>/dev/null | wc -l").strip()
    sources = [line for line in kube.mounts() if "/mnt/" in line[2]]
    t.check("there is no record without a mount", int(records) <= len(sources), f"{records} records, {len(sources)} mounts")
