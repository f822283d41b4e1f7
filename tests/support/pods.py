"""Pods of our manifests as containers, as podman knows neither StatefulSets nor such volumes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation.lab.podman import Podman

_DISK, _MEMORY = 0o2777, 0o3777
"""The rights of an emptyDir once a kubelet has given it to the group of its pod."""
_SHM = "64m"


class Pods:
    """Runs the pods of ``objects``, by kind and name; all have one network and know ``names``."""

    def __init__(
        self, podman: Podman, folder: Path, objects: Mapping[tuple[str, str], Any]
    ) -> None:
        self._podman, self._folder, self._objects = podman, folder, objects
        folder.mkdir()
        self._hosts = folder / "hosts"
        names = " ".join(name for kind, name in objects if kind == "Service")
        self._hosts.write_text(f"127.0.0.1 localhost {names}\n")
        self._network = "none"

    def start(self, name: str, image: str, variables: Mapping[str, str]) -> None:
        """Start the first pod of a StatefulSet; its containers are named after it."""
        wanted = self._objects["StatefulSet", name]["spec"]
        pod = wanted["template"]["spec"]
        claims = [
            {**each["metadata"], "emptyDir": {}} for each in wanted.get("volumeClaimTemplates", ())
        ]
        group = pod["securityContext"]["fsGroup"]
        volumes = {
            each["name"]: self._volume(self._folder / name / each["name"], each, group)
            for each in (*pod["volumes"], *claims)
        }
        user = f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
        for container in pod["containers"]:
            mounts = [
                f"--volume={volumes[each['name']] / each.get('subPath', '')}:{each['mountPath']}"
                for each in container["volumeMounts"]
            ]
            env = {
                each["name"]: each.get("value") or variables[each["name"]]
                for each in container.get("env", ())
            }
            command, *rest = container["command"]
            self._podman.run(
                "run", "--detach", "--name", name, "--network", self._network,
                "--user", user, "--group-add", str(group), *mounts,
                f"--volume={self._hosts}:/etc/hosts:ro",
                *(f"--env={key}={value}" for key, value in env.items()),
                "--entrypoint", command, image, *rest,
            )  # fmt: skip
        self._network = f"container:{name}"

    def desk(self, keys: Path, image: str, *words: str) -> tuple[str, ...]:
        """The words for one more container in their network, of root who has the keys at /keys."""
        return (
            "run", "--rm", "--network", self._network, f"--volume={self._hosts}:/etc/hosts:ro",
            "--user", "root", f"--volume={keys}:/keys", image, *words,
        )  # fmt: skip

    def _volume(self, path: Path, volume: Mapping[str, Any], group: int) -> Path:
        path.mkdir(parents=True)
        if "configMap" in volume:
            data = self._objects["ConfigMap", volume["configMap"]["name"]]["data"]
            for name, text in data.items():
                _write(path / name, text, 0o644, 0)
        elif "secret" in volume:
            secret = volume["secret"]
            data = self._objects["Secret", secret["secretName"]]["stringData"]
            for key, text in data.items():
                _write(path / "..data" / key, text, secret["defaultMode"], group)
                (path / key).symlink_to(f"..data/{key}")
        elif volume["emptyDir"].get("medium") == "Memory":
            options = f"size={_SHM},mode={_MEMORY:o},gid={group}"
            self._podman.there.run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path))
        else:
            os.chown(path, 0, group)
            path.chmod(_DISK)
        return path


def _write(path: Path, text: str, mode: int, group: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.chown(path, 0, group)
    path.chmod(mode)
