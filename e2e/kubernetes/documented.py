"""The commands of docs/kubernetes.md, run as they stand there.

Only what a reader replaces is replaced: addresses, keys, the bucket. `helm` and `kubectl` are wrappers that add where images come from on this
cluster, and the scenario's namespace where the text leaves the namespace to the reader.
"""

import os
import re
import shutil
import tempfile

import kube
from bed import PASSWORD, ROOT, SECRET_KEY, SERVICES, SYSTEM
from harness import scenario

PAGE = os.path.join(ROOT, "docs", "kubernetes.md")


def commands(title):
    """The indented blocks of a section, as one shell script."""
    with open(PAGE, encoding="utf-8") as file:
        sections = re.split(r"^## ", file.read(), flags=re.M)
    section = next(part for part in sections if part.splitlines()[0] == title)
    blocks, block, before = [], [], ""
    for line in section.splitlines()[1:] + ["end"]:
        # Within an item of a list, code is indented by seven.
        if re.match(r" {4}", line) and (block or not before.strip()):
            block.append(line)
        elif line.strip() and block:
            indent = min(len(l) - len(l.lstrip()) for l in block if l.strip())
            blocks.append("\n".join(l[indent:] for l in block))
            block = []
        before = line
    return "\n".join(blocks)


def run(t, script, helm_arguments=(), seconds=300):
    """Runs commands of the page in the root of the working tree, as a reader would."""
    folder = tempfile.mkdtemp()
    try:
        wrapper(folder, "helm", f'case "$1" in install|upgrade) set -- "$@" {" ".join(helm_arguments)};; esac')
        wrapper(folder, "kubectl", f'case " $* " in *" -n "*|*" namespace "*) ;; *) set -- -n {t.namespace} "$@";; esac')
        # The text writes values.yaml beside the reader; this keeps it out of the working tree.
        os.symlink(os.path.join(ROOT, "charts"), os.path.join(folder, "charts"))
        os.symlink(os.path.join(ROOT, "manifests"), os.path.join(folder, "manifests"))
        prologue = f"set -euo pipefail; cd {folder}; export PATH={folder}:$PATH\n"
        return kube.run(["bash", "-c", prologue + script], seconds=seconds)
    finally:
        shutil.rmtree(folder)


def wrapper(folder, program, more):
    path = os.path.join(folder, program)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/bash\n{more}\nexec {shutil.which(program)} "$@"\n')
    os.chmod(path, 0o755)


@scenario(33, seconds=500)
def documented_commands(t):
    """The commands of docs/kubernetes.md, from installation to uninstallation, are run as they stand there."""
    install, rest = commands("Install"), commands("Upgrade and uninstall")
    upgrade, uninstall = (next(line for line in rest.splitlines() if line.startswith(f"helm {verb}")) for verb in ("upgrade", "uninstall"))
    replaced = {
        "redis://redis.example:6379/1": f"redis://redis.{SERVICES}.svc:6379/1",
        "meta-password=...": f"meta-password={PASSWORD}", "access-key=...": "access-key=carafe", "secret-key=...": f"secret-key={SECRET_KEY}",
        'bucket: "s3://my-bucket/main", region: eu-west-1': f'bucket: "s3://carafe/documented", endpoint: "http://s3.{SERVICES}.svc:8333"',
    }
    for there, here in replaced.items():
        t.check(f"the page has {there.split('=')[0][:40]!r}", there in install)
        install = install.replace(there, here)
    # One script, since the page's upgrade uses the values file of its installation.
    values = install[install.index("cat > values.yaml"):install.index("helm install")]
    t.bed.uninstall_release()
    kube.kubectl("delete", "namespace", SYSTEM, "--ignore-not-found", "--timeout=90s", seconds=100)
    try:
        run(t, install, t.bed.image_arguments())
        t.check("the commands of `Install` install", kube.exists("storageclass", "carafe"))
        t.claim("data")
        t.bound("data")
        t.pod("user", ["data"])
        t.check("a pod writes to a volume of that installation", t.run("user", "echo x > /data/f && cat /data/f") == "x\n")
        t.delete("pod", "user"), t.delete("pvc", "data")
        run(t, values + upgrade, t.bed.image_arguments())
        t.check("the command of `helm upgrade` upgrades", "\t2\t" in kube.run(["helm", "list", "-n", SYSTEM]).replace(" ", ""))
        run(t, uninstall)
        t.check("the command of `helm uninstall` uninstalls", not kube.exists("daemonset", "carafe-node", SYSTEM))
    finally:
        t.bed.uninstall_release()
        t.bed.redis("-n", "1", "FLUSHDB")
        t.bed.install()
