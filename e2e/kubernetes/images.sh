#!/bin/bash
# Makes the images that the scenarios run, without a container engine, and loads them into the test cluster:
#   localhost/carafe:e2e            the program as the Dockerfile makes it: one binary with its libraries, entrypoint `carafe`
#   localhost/carafe-services:e2e   redis-server (also by the name valkey-server) and SeaweedFS
#   localhost/carafe-k8s/chdb-server:1   the ClickHouse engine, made once
# CARAFE_BIN, CARAFE_REDIS_SERVER and CARAFE_WEED name the programs; `cargo xtask cluster load-image` sets them.
. "$(dirname "$0")/../cluster/env.sh"
mkdir -p "$IMAGES"
W=$(mktemp -d "$CARAFE_K8S/img.XXXXXX"); trap 'rm -rf "$W"' EXIT

# A folder with busybox, users, certificates; and programs with the shared libraries that they name.
base() { # folder
  mkdir -p "$1"/{bin,etc/ssl/certs,tmp,proc,sys,dev,root,var/cache,run,usr/bin}
  chmod 1777 "$1/tmp"
  cp "$(command -v busybox)" "$1/bin/busybox"
  local a; for a in $("$1/bin/busybox" --list); do [ "$a" = busybox ] || ln -s busybox "$1/bin/$a"; done
  printf 'root:x:0:0:root:/root:/bin/sh\nnonroot:x:65532:65532::/:/bin/sh\n' > "$1/etc/passwd"
  printf 'root:x:0:\nnonroot:x:65532:\n' > "$1/etc/group"
  cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
}
program() { # folder file name
  local lib
  # Stripped: debug tables would triple what a node keeps of it.
  strip -o "$1/usr/bin/$3" "$2" 2>/dev/null || cp "$2" "$1/usr/bin/$3"
  chmod 755 "$1/usr/bin/$3"
  for lib in $(ldd "$2" 2>/dev/null | grep -o '/[^ )]*'); do
    mkdir -p "$1$(dirname "$lib")"; cp -Ln "$lib" "$1$lib" || true
  done
}
fresh() { # archive program...: whether the archive is younger than all of them
  local f; [ -e "$1" ] || return 1
  for f in "${@:2}" "$0"; do if [ "$f" -nt "$1" ]; then return 1; fi; done
}

if ! fresh "$IMAGES/carafe.tar" "$CARAFE_BIN"; then
  base "$W/carafe"; program "$W/carafe" "$CARAFE_BIN" carafe
  "$K8S_DIR/mkimage.py" --name localhost/carafe:e2e --root "$W/carafe" --out "$IMAGES/carafe.tar" --user 65532:65532 --entrypoint /usr/bin/carafe
fi
if ! fresh "$IMAGES/services.tar" "$CARAFE_REDIS_SERVER" "$CARAFE_WEED"; then
  base "$W/services"
  program "$W/services" "$CARAFE_REDIS_SERVER" redis-server
  program "$W/services" "$(dirname "$CARAFE_REDIS_SERVER")/redis-cli" redis-cli
  program "$W/services" "$CARAFE_WEED" weed
  ln -s redis-server "$W/services/usr/bin/valkey-server"
  "$K8S_DIR/mkimage.py" --name localhost/carafe-services:e2e --root "$W/services" --out "$IMAGES/services.tar"
fi
if ! fresh "$IMAGES/chdb-server.tar" "$K8S_DIR/chdb-server/server.py"; then
  "$K8S_DIR/chdb-server/make-image.sh"
fi
"$K8S_DIR/load-image.sh" "$IMAGES"/{carafe,services,chdb-server}.tar
