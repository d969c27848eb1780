# Sourced by every script here: where things are. Override by environment.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
K8S_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CARAFE_K8S=${CARAFE_K8S:-$HOME/.cache/carafe-k8s}
BIN=$CARAFE_K8S/bin            # built programs
IMAGES=$CARAFE_K8S/images      # built image archives
STATE=$CARAFE_K8S/state        # everything of the running node; down.sh deletes it
K8S_VERSION=$(sed -n 's#^\s*k8s.io/kubernetes \(v[0-9.]*\).*#\1#p' "$K8S_DIR/go/go.mod" | head -1)
CONTAINERD_VERSION=$(sed -n 's#^\s*github.com/containerd/containerd/v2 \(v[0-9.]*\).*#\1#p' "$K8S_DIR/go/go.mod" | head -1)
NODE_NAME=carafe-node
NODE_IP=10.99.0.1              # all of these exist only in the node's own network namespace
POD_CIDR=10.244.0.0/24
SERVICE_CIDR=10.96.0.0/16
SERVICE_IP=10.96.0.1
API_PORT=${CARAFE_K8S_PORT:-16443}
IMAGE_PREFIX=localhost/carafe-k8s
# folders that the node covers with its own (bind mounts seen only in the node)
NODE_DIRS="/var/lib/kubelet /var/lib/carafe /var/lib/containerd /var/lib/cni /var/lib/etcd /var/log/pods /var/log/containers"
export KUBECONFIG=$STATE/admin.kubeconfig
case ":$PATH:" in *:"$BIN":*) ;; *) PATH=$BIN:$PATH ;; esac

node_pid() { # pid (here) of the node's first process, or nothing
  local pid
  [ -r "$STATE/node.pid" ] || return 1
  pid=$(cat "$STATE/node.pid")
  # the start time guards against a reused pid
  [ -n "$pid" ] && [ "$(start_time "$pid")" = "$(cat "$STATE/node.start" 2>/dev/null)" ] || return 1
  echo "$pid"
}
start_time() { # of a live process; nothing for a zombie
  sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" && $1 != "X" {print $20}'
}
say() { printf '[%s] %s\n' "$(date +%T)" "$*" >&2; }
