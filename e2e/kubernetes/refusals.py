"""Bad input: each mistake ends in an event of the claim or the pod that says what it is, and leaves nothing half-made behind."""

import kube
from bed import PASSWORD, SECRET_KEY, SERVICES, SYSTEM, secret
from harness import scenario
from security import static_volume
from volumes import second_mount

REDIS = f"redis://redis.{SERVICES}.svc:6379"
KEYS = {"access-key": "carafe", "secret-key": SECRET_KEY}
CALLS = ("provisioner", "controller-expand", "node-stage", "node-publish", "node-expand")

# name: (the Secret, what the event must say)
BAD_SECRETS = {
    "no-url": ({"meta-password": PASSWORD} | KEYS, ['no key "meta-url"']),
    "misspelt": ({"meta-url": f"{REDIS}/0", "meta-pasword": PASSWORD, "acces-key": "carafe"}, ['"meta-pasword"', '"acces-key"']),
    "half-keys": ({"meta-url": f"{REDIS}/0", "meta-password": PASSWORD, "access-key": "carafe"}, ["belong together"]),
    "bad-scheme": ({"meta-url": f"reddis://:{PASSWORD}@redis/0"} | KEYS, ["InvalidArgument", 'unknown scheme "reddis"']),
    "wrong-password": ({"meta-url": f"{REDIS}/0", "meta-password": "not-it"} | KEYS, ["Unauthenticated", f"redis.{SERVICES}.svc"]),
    "no-such-host": ({"meta-url": "redis://no-such-host.invalid:6379/0"} | KEYS, ["Unavailable", "no-such-host.invalid"]),
    "no-answer": ({"meta-url": "redis://10.244.0.253:6379/0"} | KEYS, ["Unavailable", "10.244.0.253"]),
    "not-formatted": ({"meta-url": f"{REDIS}/9", "meta-password": PASSWORD} | KEYS, ["FailedPrecondition", "carafe format"]),
    "other-bucket": ({"meta-url": f"{REDIS}/0", "meta-password": PASSWORD, "bucket": "s3://other/e2e"} | KEYS, ["s3://other/e2e"]),
}

# name: (parameters of the class, more of the claim, what the event must say)
BAD_CLAIMS = {
    "unknown-keys": ({"quota": "1Gi", "onwer": "5", "uid": "me"}, {}, ['"quota"', '"onwer"', '"uid" is "me"']),
    "bad-values": ({"mode": "rwx", "cache": "ssd", "onPathExists": "maybe"}, {}, ['"mode"', '"cache"', '"onPathExists"']),
    "leaves-root": ({"pathPattern": "../${pvc.name}"}, {}, ["pathPattern", '".."']),
    "leaves-later": ({"pathPattern": "a/${pvc.name}/../../.."}, {}, ["pathPattern", '".."']),
    "no-labels": ({"pathPattern": "${pvc.labels['team']}/${pvc.labels['app']}"}, {}, ["pvc.labels['team']", "pvc.labels['app']"]),
    "unknown-name": ({"pathPattern": "${pvc.uid}/x"}, {}, ["pvc.uid", "known are"]),
    "evil-value": ({"pathPattern": "e2e-bad/${pvc.annotations['where']}"}, {"annotations": {"where": "../../etc"}}, ["pvc.annotations['where']"]),
    "too-big": ({}, {"size": "5Ei"}, ["OutOfRange"]),
    "block": ({}, {"spec": {"volumeMode": "Block"}}, ["InvalidArgument", "block"]),
    "inside": ({"pathPattern": "e2e-bad/taken/inside"}, {}, ["AlreadyExists", "e2e-bad/taken"]),
    "around": ({"pathPattern": "e2e-bad"}, {}, ["AlreadyExists", "e2e-bad"]),
    "same": ({"pathPattern": "e2e-bad/taken"}, {}, ["AlreadyExists", "e2e-bad/taken"]),
}

# name: (path, more attributes, what the event must say)
BAD_STATIC = {
    "static-escapes": ("../../etc", {}, ["path", '".."']),
    "static-root": ("/", {}, ["path", "root of the file system"]),
    "static-absent": ("e2e-bad/not-there", {}, ["e2e-bad/not-there"]),
    "static-unknown": ("e2e-bad/taken", {"pth": "x", "cache": "ssd"}, ['"pth"', '"cache"']),
}


@scenario(31, own_cluster=True, seconds=600)
def bad_input(t):
    """Mistakes in Secrets, parameters, patterns, sizes and static volumes are told by events and leave nothing behind."""
    try:
        mistakes(t)
    finally:
        forget(t, [*BAD_SECRETS, *BAD_CLAIMS, "no-secret", "taken"])


def mistakes(t):
    second_mount(t)
    storage_class(t, "taken", "carafe-main", {"pathPattern": "e2e-bad/taken"})
    t.claim("taken", storage_class=class_name(t, "taken"))
    t.bound("taken")
    before = everything(t)
    for name, (data, _) in BAD_SECRETS.items():
        kube.apply(secret(class_name(t, name), SYSTEM, data))
        storage_class(t, name, class_name(t, name), {})
        t.claim(name, storage_class=class_name(t, name))
    storage_class(t, "no-secret", class_name(t, "no-secret"), {})
    t.claim("no-secret", storage_class=class_name(t, "no-secret"))
    for name, (parameters, more, _) in BAD_CLAIMS.items():
        storage_class(t, name, "carafe-main", parameters)
        t.claim(name, storage_class=class_name(t, name), **more)
    for name, (path, more, _) in BAD_STATIC.items():
        static_volume(t, name, path, **more)
        t.pod(f"uses-{name}", [name], wait=False)
    expected = {"no-secret": ["secret", class_name(t, "no-secret")]}
    expected |= {name: words for name, (_, words) in BAD_SECRETS.items()} | {name: words for name, (_, _, words) in BAD_CLAIMS.items()}
    for name, words in expected.items():
        told(t, name, words)
        t.check(f"{name}: the claim is not bound", t.get("pvc", name)["status"]["phase"] == "Pending")
    for name, (_, _, words) in BAD_STATIC.items():
        told(t, f"uses-{name}", words)
        t.check(f"{name}: the pod does not run", t.get("pod", f"uses-{name}")["status"]["phase"] == "Pending")
    said = kube.kubectl("-n", t.namespace, "get", "events", "-o", "json")
    t.check("no event shows a secret", PASSWORD not in said and SECRET_KEY not in said and "not-it" not in said)
    for name in BAD_STATIC:
        t.delete("pod", f"uses-{name}"), t.delete("pvc", name), kube.kubectl("delete", "pv", f"{t.namespace}-{name}", "--timeout=30s")
    for name in expected:
        t.delete("pvc", name)
    kube.wait("nothing half-made is left", 30, lambda: everything(t) == before, lambda: f"\nbefore {before}\nafter {everything(t)}")
    t.check("nothing half-made is left: folders, volumes, mounts", True, f"{len(before[0])} folders")


@scenario(32, own_cluster=True, seconds=500)
def bucket_unreachable(t):
    """A bucket with wrong keys or away: events of claim and pod say so, and both heal by themselves when it is back."""
    try:
        bucket_goes_and_comes(t)
    finally:
        forget(t, ["wrong-keys", "fresh", "alone"])


def bucket_goes_and_comes(t):
    good = {"meta-url": f"{REDIS}/0", "meta-password": PASSWORD, "access-key": "carafe", "secret-key": SECRET_KEY}
    # The same file system by a Secret that the driver has not connected with yet.
    for name, data in {"wrong-keys": good | {"secret-key": "not-the-key"}, "fresh": good | {"bucket": "s3://carafe/e2e"}}.items():
        kube.apply(secret(class_name(t, name), SYSTEM, data))
        storage_class(t, name, class_name(t, name), {})
    storage_class(t, "alone", "carafe-main", {"isolation": "volume"})
    t.claim("wrong-keys", storage_class=class_name(t, "wrong-keys"))
    told(t, "wrong-keys", ["Unauthenticated", "s3://carafe/e2e"])
    t.claim("alone", storage_class=class_name(t, "alone"))
    t.bound("alone")
    t.bed.stop_service("s3")
    try:
        t.claim("fresh", storage_class=class_name(t, "fresh"))
        t.pod("uses-alone", ["alone"], wait=False)
        told(t, "fresh", ["Unavailable", f"s3.{SERVICES}.svc"], 180)
        told(t, "uses-alone", ["FailedMount", f"s3.{SERVICES}.svc"], 180)
    finally:
        t.bed.start_service("s3")
    t.bound("fresh", 240)
    t.check("the claim is bound once the bucket is back", True)
    t.ready("uses-alone", 240)
    t.check("the pod runs once the bucket is back", t.run("uses-alone", "echo x > /alone/f && cat /alone/f") == "x\n")
    t.delete("pod", "uses-alone")
    for name in ("wrong-keys", "fresh", "alone"):
        t.delete("pvc", name)


def class_name(t, name):
    return f"{t.namespace}-{name}"


def storage_class(t, name, secret_name, parameters):
    secrets = {}
    for call in CALLS:
        secrets |= {f"csi.storage.k8s.io/{call}-secret-name": secret_name, f"csi.storage.k8s.io/{call}-secret-namespace": SYSTEM}
    kube.apply({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class_name(t, name)},
                "provisioner": "csi.carafe.dev", "allowVolumeExpansion": True, "parameters": secrets | parameters})


def told(t, name, words, seconds=90):
    """Waits until one message about an object has all the words."""

    def one():
        lines = kube.events(t.namespace, name).splitlines()
        return [line for line in lines if all(word.lower() in line.lower() for word in words)]

    kube.wait(f"an event on {name} says {words}", seconds, one, lambda: kube.events(t.namespace, name))
    t.check(f"{name}: an event says what is wrong", True, one()[0].strip()[-170:])


def everything(t):
    """What a half-made volume would be part of: folders of the file system, PersistentVolumes, mounts of the node."""
    folders = sorted(t.run("second", "find /mnt -mindepth 1 -maxdepth 4 -type d").split())
    return folders, sorted(pv["metadata"]["name"] for pv in kube.items("pv")), sorted(line[2] for line in kube.mounts())


def forget(t, names):
    """Takes away what lies outside the scenario's namespace."""
    for name in names:
        kube.kubectl("delete", "storageclass", class_name(t, name), "--ignore-not-found")
        kube.kubectl("-n", SYSTEM, "delete", "secret", class_name(t, name), "--ignore-not-found")
    for name in BAD_STATIC:
        kube.kubectl("delete", "pv", class_name(t, name), "--ignore-not-found", "--wait=false")
