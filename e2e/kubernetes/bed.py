"""What the scenarios stand on: a Redis and an S3 server as pods, the chart, one file system, the snapshot controller."""

import glob
import json
import os
import re
import subprocess

import kube

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CHART = os.path.join(ROOT, "charts", "carafe")
SYSTEM = "carafe-system"
MOUNTS = "carafe-mounts"
SERVICES = "carafe-services"
RELEASE = "carafe"
DRIVER = "csi.carafe.dev"
PASSWORD = "e2e-password-of-redis"
SECRET_KEY = "e2e-secret-key-of-the-bucket"

IMAGES = {
    "shell": "busybox:1.37",
    "services": "valkey/valkey:8.1",
    "s3": "chrislusf/seaweedfs:4.48",
    "carafe": "ghcr.io/carafe-fs/carafe:0.1.0",
    "clickhouse": "localhost/carafe-k8s/chdb-server:1",
}
OWN_IMAGES = {
    "shell": "localhost/carafe-k8s/busybox:1",
    "services": "localhost/carafe-services:e2e",
    "s3": "localhost/carafe-services:e2e",
    "carafe": "localhost/carafe:e2e",
    "clickhouse": "localhost/carafe-k8s/chdb-server:1",
}


class Bed:
    def __init__(self, say, own_cluster):
        self.say, self.own_cluster = say, own_cluster
        self.images = dict(OWN_IMAGES if own_cluster else IMAGES) | json.loads(os.environ.get("CARAFE_E2E_IMAGES", "{}"))
        self.launcher = os.environ.get("CARAFE_E2E_LAUNCHER", "processes")

    # --- helm

    def helm_arguments(self):
        """What the chart is told on this cluster."""
        return ["-f", os.path.join(HERE, "values.yaml"), *self.image_arguments()]

    def image_arguments(self):
        """Where images come from here, and how mounts run."""
        values = ["-f", os.path.join(HERE, "values-own-cluster.yaml")] if self.own_cluster else []
        values += ["--set", f"node.launcher={self.launcher}"]
        return values + os.environ.get("CARAFE_E2E_HELM_ARGS", "").split()

    def install(self):
        self.snapshot_controller()
        self.services()
        kube.run(["kubectl", "create", "namespace", SYSTEM], check=False)
        kube.apply(secret("carafe-main", SYSTEM, {
            "meta-url": f"redis://redis.{SERVICES}.svc:6379/0", "meta-password": PASSWORD,
            "access-key": "carafe", "secret-key": SECRET_KEY,
        }))
        there = kube.run(["helm", "list", "-n", SYSTEM, "-q"]).split()
        kube.run(["helm", "upgrade", "--install", RELEASE, CHART, "-n", SYSTEM, *self.helm_arguments(), "--timeout=5m"], seconds=400)
        if self.own_cluster and RELEASE in there:
            # The image may be another one under the same name.
            kube.kubectl("-n", SYSTEM, "rollout", "restart", f"daemonset/{RELEASE}-node", f"deployment/{RELEASE}-controller")
        kube.kubectl("-n", SYSTEM, "rollout", "status", f"daemonset/{RELEASE}-node", "--timeout=120s", seconds=130)
        kube.kubectl("-n", SYSTEM, "rollout", "status", f"deployment/{RELEASE}-controller", "--timeout=120s", seconds=130)
        kube.wait("the driver is registered on every node", 60, self.registered)

    def registered(self):
        nodes = kube.items("csinodes")
        return all(DRIVER in [d["name"] for d in (node["spec"].get("drivers") or [])] for node in nodes)

    def uninstall_release(self):
        kube.run(["helm", "uninstall", RELEASE, "-n", SYSTEM, "--ignore-not-found", "--wait", "--timeout=2m"], seconds=150)

    def uninstall(self):
        self.uninstall_release()
        kube.kubectl("delete", "namespace", SERVICES, "--timeout=60s", "--ignore-not-found", seconds=70)
        kube.kubectl("delete", "crd", "-l", "app.kubernetes.io/name=carafe", "--ignore-not-found", "--timeout=60s", seconds=70)
        kube.kubectl("delete", "namespace", SYSTEM, MOUNTS, "--timeout=90s", "--ignore-not-found", seconds=100)

    # --- what the file system stands on

    def services(self):
        with open(os.path.join(HERE, "services.yaml"), encoding="utf-8") as file:
            text = file.read()
        words = {"SERVICES_IMAGE": self.images["services"], "S3_IMAGE": self.images["s3"], "PASSWORD": PASSWORD, "SECRET_KEY": SECRET_KEY}
        text = re.sub(r"@(\w+)@", lambda match: words[match[1]], text)
        kube.kubectl("apply", "-f", "-", text=text)
        for name in ("redis", "s3"):
            self.service_is_up(name)

    def service_is_up(self, name):
        kube.kubectl("-n", SERVICES, "rollout", "status", f"statefulset/{name}", "--timeout=120s", seconds=130)

    def stop_service(self, name):
        """Takes a server away, its data stays."""
        kube.kubectl("-n", SERVICES, "scale", f"statefulset/{name}", "--replicas=0")
        kube.wait(f"{name} is gone", 60, lambda: not kube.exists("pod", f"{name}-0", SERVICES))

    def start_service(self, name):
        kube.kubectl("-n", SERVICES, "scale", f"statefulset/{name}", "--replicas=1")
        self.service_is_up(name)

    def redis(self, *command):
        return kube.kubectl("-n", SERVICES, "exec", "redis-0", "--", "redis-cli", "--no-auth-warning", "-a", PASSWORD, *command)

    def store_calls(self):
        """How many commands the store has executed so far."""
        return int(re.search(r"total_commands_processed:(\d+)", self.redis("INFO", "stats"))[1])

    def snapshot_controller(self):
        """CRDs and controller of snapshots, which belong to a cluster and not to the chart."""
        if not self.own_cluster:
            return
        module = "github.com/kubernetes-csi/external-snapshotter/client/v8"
        go = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=os.path.join(kube.CLUSTER, "go"),
                            capture_output=True, text=True, check=True)
        for crd in sorted(glob.glob(os.path.join(go.stdout.strip(), "config/crd/*snapshot.storage.k8s.io_*.yaml"))):
            kube.kubectl("apply", "-f", crd)
        kube.kubectl("apply", "-f", os.path.join(HERE, "snapshot-controller.yaml"))

    # --- the command line, as a pod beside the file system

    def carafe(self, *arguments, seconds=120):
        """Runs a `carafe` command with the file system's secrets; returns its output."""
        name = "verb-" + re.sub(r"\W", "", arguments[0])
        kube.kubectl("-n", SYSTEM, "delete", "pod", name, "--ignore-not-found", "--timeout=30s")
        env = [{"name": "META_URL", "valueFrom": {"secretKeyRef": {"name": "carafe-main", "key": "meta-url"}}}]
        for variable, key in (("CARAFE_META_PASSWORD", "meta-password"), ("CARAFE_ACCESS_KEY", "access-key"), ("CARAFE_SECRET_KEY", "secret-key")):
            env.append({"name": variable, "valueFrom": {"secretKeyRef": {"name": "carafe-main", "key": key}}})
        container = {"name": "main", "image": self.images["carafe"], "imagePullPolicy": "IfNotPresent", "args": list(arguments), "env": env}
        kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SYSTEM},
                    "spec": {"restartPolicy": "Never", "containers": [container]}})
        kube.wait(f"carafe {' '.join(arguments)} ends", seconds,
                  lambda: kube.get("pod", name, SYSTEM)["status"]["phase"] in ("Succeeded", "Failed"))
        state = kube.get("pod", name, SYSTEM)["status"]["containerStatuses"][0]["state"]["terminated"]
        return state["exitCode"], kube.kubectl("-n", SYSTEM, "logs", name)

    def mount_pods(self):
        return kube.items("pods", MOUNTS) if kube.exists("namespace", MOUNTS) else []

    def node_pod(self):
        pods = kube.items("pods", SYSTEM, "app.kubernetes.io/component=node")
        return pods[0]["metadata"]["name"]

    def evidence(self):
        """What is looked at after a failure."""
        looks = [["get", "pods,pvc,pv", "-A", "-o", "wide"], ["get", "events", "-A", "--sort-by=.lastTimestamp"]]
        for component, container in (("controller", "driver"), ("controller", "provisioner"), ("node", "driver")):
            looks.append(["-n", SYSTEM, "logs", "-l", f"app.kubernetes.io/component={component}", "-c", container, "--tail=60", "--prefix"])
        for pod in self.mount_pods():
            looks.append(["-n", MOUNTS, "logs", pod["metadata"]["name"], "--all-containers", "--tail=40", "--prefix"])
        return "\n".join(f"$ kubectl {' '.join(look)}\n{kube.kubectl(*look, check=False, seconds=30)}" for look in looks)


def secret(name, namespace, data):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "stringData": data}
