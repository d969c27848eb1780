"""What mount pods and the plugin's token may not do."""

import json
import os
import subprocess

import kube
from bed import DRIVER, MOUNTS, PASSWORD, RELEASE, SECRET_KEY, SYSTEM
from harness import scenario
from volumes import second_mount


@scenario(4, own_cluster=True, seconds=200)
def mount_pod_is_restricted(t):
    """A mount pod passes `restricted`, has no capability, and shows no secret."""
    need_mount_pods(t)
    t.claim("data")
    t.bound("data")
    t.pod("user", ["data"])
    t.run("user", "echo x > /data/f")
    pods = t.bed.mount_pods()
    t.check("there is a mount pod", len(pods) > 0, len(pods))
    labels = kube.get("namespace", MOUNTS)["metadata"]["labels"]
    t.check("the namespace enforces `restricted`", labels.get("pod-security.kubernetes.io/enforce") == "restricted")
    for wanted in ("holder", "mount-pod"):
        pid = kube.in_node("sh", "-c", f"pgrep -f 'carafe {wanted}' | head -1").strip()
        status = kube.in_node("cat", f"/proc/{pid}/status")
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        seen = {name: fields[name].strip() for name in ("CapEff", "NoNewPrivs", "Seccomp", "Uid")}
        good = int(seen["CapEff"], 16) == 0 and seen["NoNewPrivs"] == "1" and seen["Seccomp"] == "2" and not seen["Uid"].startswith("0")
        t.check(f"`carafe {wanted}` has no capability, no new privileges, and seccomp", good, seen)
        shown = kube.in_node("sh", "-c", f"tr '\\0' '\\n' < /proc/{pid}/environ; tr '\\0' ' ' < /proc/{pid}/cmdline")
        t.check(f"`carafe {wanted}` has no secret in arguments or environment", PASSWORD not in shown and SECRET_KEY not in shown)
    yaml = kube.kubectl("get", "pods", "-A", "-o", "yaml")
    logs = t.bed.evidence()
    for secret in (PASSWORD, SECRET_KEY):
        t.check("the secret is in no pod's YAML", secret not in yaml)
        t.check("the secret is in no log and no event", secret not in logs)


@scenario(19, seconds=120)
def plugin_token(t):
    """The plugin's token makes no pod of another node, reads no secret; nobody else makes a mount pod."""
    need_mount_pods(t)
    token = kube.kubectl("-n", SYSTEM, "create", "token", f"{RELEASE}-node", "--bound-object-kind=Pod",
                         f"--bound-object-name={t.bed.node_pod()}").strip()
    node = kube.get("pod", t.bed.node_pod(), SYSTEM)["spec"]["nodeName"]
    good = mount_pod("probe-own", node)
    t.check("it makes a pod of its own node", "created" in as_token(token, good, "create"))
    for what, pod in {
        "of another node": mount_pod("probe", "another-node"),
        "without a node": mount_pod("probe", None),
        "with a Secret": mount_pod("probe", node, volumes=[{"name": "s", "secret": {"secretName": "x"}}]),
        "with a folder of the node": mount_pod("probe", node, volumes=[{"name": "s", "hostPath": {"path": "/"}}]),
        "with another service account": mount_pod("probe", node, serviceAccountName="admin"),
    }.items():
        said = as_token(token, pod, "create")
        t.check(f"it makes no pod {what}", "orbidden" in said or "403" in said, said.strip()[-150:])
    said = as_token(token, None, "-n", SYSTEM, "get", "secret", "carafe-main")
    t.check("it reads no secret", "orbidden" in said, said.strip()[-120:])
    said = as_token(token, None, "get", "pods", "-A")
    t.check("it lists no other pods", "orbidden" in said, said.strip()[-120:])
    said = kube.kubectl("-n", MOUNTS, "apply", "-f", "-", text=json.dumps(mount_pod("probe", node)), check=False)
    t.check("an administrator makes no pod there", "only the node plugin" in said, said.strip()[-150:])
    kube.kubectl("-n", MOUNTS, "delete", "pod", "probe-own", "--now", "--ignore-not-found")


@scenario(16, own_cluster=True, seconds=240)
def planted_symlink(t):
    """A symlink where a static volume should be leads nowhere."""
    second_mount(t)
    folder = f"static-{t.namespace}"
    t.run("second", f"mkdir -p /mnt/{folder}/good && echo good > /mnt/{folder}/good/f && ln -s /etc /mnt/{folder}/evil && ln -s good /mnt/{folder}/aside")
    before = foreign_mounts()
    for name, path in (("good", "good"), ("evil", "evil"), ("aside", "aside"), ("below", "evil/ssl")):
        static_volume(t, name, f"{folder}/{path}")
        t.pod(f"uses-{name}", [name], wait=False)
    t.ready("uses-good")
    t.check("a plain folder is mounted", t.run("uses-good", "cat /good/f") == "good\n")
    for name in ("evil", "aside", "below"):
        said = t.event(f"uses-{name}", "FailedPrecondition", 90)
        t.check(f"{name}: FailedPrecondition, told by an event", True, said[-160:])
        t.check(f"{name}: the pod does not run", t.get("pod", f"uses-{name}")["status"]["phase"] == "Pending")
    after = foreign_mounts()
    t.check("nothing but file systems of Carafe is bound into pods", not after - before, sorted(after - before)[:3])
    for name in ("good", "evil", "aside", "below"):
        t.delete("pod", f"uses-{name}")
        t.delete("pvc", name), kube.kubectl("delete", "pv", f"{t.namespace}-{name}", "--timeout=30s")
    t.run("second", f"rm -r /mnt/{folder}")
    t.delete("pod", "second")


def foreign_mounts():
    """What CSI targets of pods show that is no FUSE mount of ours."""
    lines = (line.split() for line in kube.in_node("cat", "/proc/1/mountinfo").splitlines())
    return {l[4] for l in lines if "kubernetes.io~csi" in l[4] and "fuse.carafe" not in l}


def static_volume(t, name, path, **attributes):
    """A PersistentVolume of a folder of the file system, with a claim."""
    reference = {"name": "carafe-main", "namespace": SYSTEM}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    kube.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{t.namespace}-{name}"}, "spec": common | {
            "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"name": name, "namespace": t.namespace},
            "csi": {"driver": DRIVER, "volumeHandle": f"{t.namespace}-{name}", "volumeAttributes": {"path": path} | attributes,
                    "nodeStageSecretRef": reference, "nodePublishSecretRef": reference}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": t.namespace},
         "spec": common | {"volumeName": f"{t.namespace}-{name}", "resources": {"requests": {"storage": "1Gi"}}}})


def need_mount_pods(t):
    if t.bed.launcher != "pods":
        t.skip("mounts are child processes here")


def mount_pod(name, node, **spec):
    locked = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    body = {
        "containers": [{"name": "main", "image": "localhost/none:1", "imagePullPolicy": "Never", "securityContext": locked}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "automountServiceAccountToken": False,
    } | spec
    if node:
        body["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": MOUNTS}, "spec": body}


def as_token(token, body, *arguments):
    """kubectl with nothing but a token."""
    config = json.loads(kube.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    cluster = config["clusters"][0]["cluster"]
    user = {"name": "u", "user": {"token": token}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    body_text = json.dumps(body) if body else None
    text = json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "c", "cluster": cluster}], "users": [user],
                       "contexts": [context], "current-context": "c"})
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    words = [*arguments, "-f", "-"] if body else list(arguments)
    done = subprocess.run(["kubectl", f"--kubeconfig=/dev/fd/{reader}", *words], input=body_text, capture_output=True, text=True,
                          timeout=30, pass_fds=[reader])
    os.close(reader)
    return done.stdout + done.stderr
