"""What mount pods and the plugin's token may not do."""

import json
import subprocess
import os

import kube
from bed import MOUNTS, PASSWORD, RELEASE, SECRET_KEY, SYSTEM
from harness import scenario


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
