# SPDX-License-Identifier: Apache-2.0
"""pod_as_oci.py POD_YAML IMAGES VOLUMES SECRETS CONTAINER: what a kubelet tells the runtime.

Prints the OCI configuration of one container of the pod, made from the one on stdin (crun spec).
IMAGES is a folder with a root by the last word of each image's name, VOLUMES one for the pod's
volumes, SECRETS one with a folder for each secret. The pod's network is the host's.
"""
import json
import os
import sys

import yaml

pod_yaml, images, volumes, secrets, wanted = sys.argv[1:]
documents = list(yaml.safe_load_all(open(pod_yaml)))
by_kind = {(d["kind"], d["metadata"]["name"]): d for d in documents}
spec = next(d["spec"] for d in documents if d["kind"] == "Pod")
who = spec["securityContext"]
containers = {c["name"]: c for c in spec["initContainers"] + spec["containers"]}
container = containers[wanted]


def write(path, content, mode):
    if not os.path.exists(path):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(content)
    os.chown(path, 0, who["fsGroup"])
    os.chmod(path, mode)


def folder(volume):
    """The volume, made as Kubernetes does: of fsGroup, which may read what root may."""
    path = os.path.join(volumes, volume["name"])
    os.makedirs(path, exist_ok=True)
    if "emptyDir" in volume:
        os.chown(path, 0, who["fsGroup"])
        os.chmod(path, 0o2777)
    elif "configMap" in volume:
        for name, text in by_kind["ConfigMap", volume["configMap"]["name"]]["data"].items():
            write(os.path.join(path, name), text.encode(), 0o644)
    else:
        source = os.path.join(secrets, volume["secret"]["secretName"])
        mode = volume["secret"].get("defaultMode", 0o644)
        for name in os.listdir(source):
            content = open(os.path.join(source, name), "rb").read()
            write(os.path.join(path, name), content, mode | (mode & 0o400) >> 3)
    return path


config = json.load(sys.stdin)
config["root"] = {"path": os.path.join(images, container["image"].split("/")[-1].split(":")[0])}
config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "network"]
rights = container["securityContext"]
assert rights["capabilities"]["drop"] == ["ALL"] and who["runAsNonRoot"]
config["process"].update(
    terminal=False,
    args=container["command"] + container.get("args", []),
    env=["PATH=/usr/bin:/bin"] + [f"{e['name']}={e['value']}" for e in container.get("env", [])],
    user={"uid": who["runAsUser"], "gid": who["runAsGroup"], "additionalGids": [who["fsGroup"]]},
    capabilities={},
    noNewPrivileges=not rights["allowPrivilegeEscalation"],
)
known = {v["name"]: v for v in spec["volumes"]}
for mount in container["volumeMounts"]:
    access = "ro" if mount.get("readOnly") else "rw"
    config["mounts"].append(
        {
            "destination": mount["mountPath"],
            "source": folder(known[mount["name"]]),
            "type": "bind",
            "options": ["bind", access, "nosuid", "nodev"],
        }
    )
json.dump(config, sys.stdout, indent=2)
