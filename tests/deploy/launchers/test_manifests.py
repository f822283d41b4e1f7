"""What Kubernetes is given: by its own schemas, strictly; and by what each unit may and may not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from helpers import ROOT

from artos.transport.keys import make_keys
from artos.transport.roles import Holder, KeyRole
from deploy.cli.__main__ import main
from deploy.launchers.cluster import Cluster
from deploy.launchers.engines.kubernetes import _DEFAULTS, Engine

VERSIONS = ("1.28", "1.32")


def cluster(folder: Path = Path("/none"), **more: Any) -> Cluster:
    given = {"name": "lab", "engine": "kubernetes", "folder": str(folder), "least": 2, "most": 8}
    return Cluster(**{**given, **more})


def objects(wanted: Cluster) -> dict[tuple[str, str], dict[str, Any]]:
    texts = Engine(wanted).plan().values()
    return named(each for text in texts for each in yaml.safe_load_all(text))


def objects_of(lab: Cluster) -> dict[tuple[str, str], dict[str, Any]]:
    """With the keys in its folder."""
    return named(Engine(lab)._objects())


def named(found: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "options", [(), ("image=r.example:5000/artos@sha256:00", "cpu=16", "gpu=2", "shm=8Gi")]
)
def test_every_manifest_fits_the_schemas_strictly(version: str, options: tuple[str, ...]) -> None:
    wanted = cluster(worker_options=options, head_options=("storage=100Gi",))
    for each in objects(wanted).values():
        kubernetes_validate.validate(each, version, strict=True)


def mounts(found: dict[tuple[str, str], dict[str, Any]], unit: str) -> dict[str, tuple[str, str]]:
    """Each path of keys in a pod: the Secret that is mounted there, and the file of it, or all."""
    pod = found["StatefulSet", unit]["spec"]["template"]["spec"]
    secrets = {
        volume["name"]: volume["secret"]["secretName"]
        for volume in pod["volumes"]
        if "secret" in volume
    }
    (container,) = pod["containers"]
    return {
        mount["mountPath"]: (secrets[mount["name"]], mount.get("subPath", ""))
        for mount in container["volumeMounts"]
        if mount["name"] in secrets
    }


def test_a_worker_has_no_key_with_which_one_could_submit() -> None:
    found = objects(cluster())
    worker = found["Secret", "lab-worker-keys"]["stringData"]
    assert {*worker} == {"head.key", "any.key_secret"}
    assert mounts(found, "lab-worker") == {
        "/cluster/keys/head.key": ("lab-worker-keys", "head.key"),
        "/cluster/keys/nodes": ("lab-worker-keys", ""),
    }
    pod = found["StatefulSet", "lab-worker"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False


def test_whom_the_head_accepts_is_mounted_whole_so_that_a_change_arrives() -> None:
    """A kubelet never renews a file that is mounted by its name, nor brings a new name of it."""
    found = objects(cluster())
    assert mounts(found, "lab-head") == {
        "/cluster/keys/head.key": ("lab-head-keys", "head.key"),
        "/cluster/keys/head.key_secret": ("lab-head-keys", "head.key_secret"),
        "/cluster/keys/users": ("lab-user-keys", ""),
        "/cluster/keys/nodes": ("lab-node-keys", ""),
    }
    for volume in found["StatefulSet", "lab-head"]["spec"]["template"]["spec"]["volumes"]:
        assert "items" not in volume.get("secret", {})


def test_the_keeper_may_list_pods_and_change_the_number_of_workers_and_nothing_else() -> None:
    (pods, scale) = objects(cluster())["Role", "lab-keeper"]["rules"]
    assert (pods["resources"], pods["verbs"]) == (["pods"], ["list"])
    assert (scale["resources"], scale["resourceNames"]) == (["statefulsets/scale"], ["lab-worker"])


def test_pods_end_in_time_on_nodes_of_their_own_with_memory_that_is_bounded() -> None:
    found = objects(cluster(notice=75.0, worker_options=("shm=5Gi", "gpu=1", "priority=low")))
    pod = found["StatefulSet", "lab-worker"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 75
    assert "podAntiAffinity" in pod["affinity"]
    assert pod["priorityClassName"] == "low"
    shm = {volume["name"]: volume for volume in pod["volumes"]}["shm"]
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "5Gi"}
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "${POD##*-}" in pod["containers"][0]["command"][-1]


@pytest.mark.parametrize(
    ("head", "worker", "images"),
    [
        ((), (), ("artos", "artos")),
        ((), ("image=r/artos:1", "cpu=16"), ("r/artos:1", "r/artos:1")),
        (("image=r/artos:1",), (), ("r/artos:1", "r/artos:1")),
        (("image=r/artos:1",), ("image=r/artos:1-cuda",), ("r/artos:1", "r/artos:1-cuda")),
    ],
)
def test_an_image_is_that_of_all_units_unless_the_others_have_one(
    head: tuple[str, ...], worker: tuple[str, ...], images: tuple[str, str]
) -> None:
    """Else the head of the documented line waits for one that no registry has."""
    found = objects(cluster(head_options=head, worker_options=worker))
    for unit, image in zip(("lab-head", "lab-worker"), images, strict=True):
        pod = found["StatefulSet", unit]["spec"]["template"]["spec"]
        every = [*pod.get("initContainers", ()), *pod["containers"]]
        assert {each["image"] for each in every} == {image}
    cpus = found["StatefulSet", "lab-head"]["spec"]["template"]["spec"]["containers"][0]
    assert cpus["resources"]["limits"]["cpu"] == "2", "all else is each unit's own"


def test_the_page_says_what_a_unit_has_by_default() -> None:
    page = (ROOT / "docs" / "how-to" / "engine-kubernetes.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]*)`? \|", page, re.MULTILINE))
    assert rows == {name: value or "none" for name, value in _DEFAULTS.items()}


def test_the_record_tells_units_where_things_are_in_a_pod() -> None:
    record = json.loads(objects(cluster())["ConfigMap", "lab-record"]["data"]["cluster.json"])
    assert (record["folder"], record["head"]) == ("/cluster", "tcp://lab-head:7700")
    assert record["listen"].endswith(":7700")


def test_keys_come_from_the_clusters_folder_and_a_users_secret_stays_there(tmp_path: Path) -> None:
    lab = cluster(tmp_path)
    make_keys(lab.keys)
    make_keys(lab.keys, Holder(KeyRole.USER, "ann"), Holder(KeyRole.NODE, "lab-0"))
    found = objects_of(lab)
    secrets = {name: each["stringData"] for (kind, name), each in found.items() if kind == "Secret"}
    assert {name: {*secret} for name, secret in secrets.items()} == {
        "lab-head-keys": {"head.key", "head.key_secret"},
        "lab-user-keys": {"owner.key", "owner.key_secret", "ann.key"},
        "lab-node-keys": {"any.key", "lab-0.key"},
        "lab-worker-keys": {"head.key", "any.key_secret", "lab-0.key_secret"},
    }
    secret = (lab.keys / "users" / "owner.key_secret").read_text().strip()
    assert secrets["lab-user-keys"]["owner.key_secret"] == secret
    assert all(key for secret in secrets.values() for key in secret.values())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "Lab"}, "--name 'Lab'"),
        ({"name": "x" * 33}, "at most 32"),
        ({"worker_options": ("cpus=4",)}, "--worker-options 'cpus=4'"),
        ({"head_options": ('image=x", evil: "y',)}, "--head-options"),
        ({"worker_options": ("storage=1Gi",)}, "only the head has a volume"),
    ],
)
def test_what_would_break_a_manifest_is_refused(given: dict[str, Any], said: str) -> None:
    assert any(said in fault for fault in Engine.misasked(cluster(**given)))


def test_manifests_are_written_into_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("up", "--on", "kubernetes", "--nodes", "2", "--name", "lab", "--dry-run")
    assert main((*words, str(tmp_path / "lab"))) == 0
    assert {path.name for path in (tmp_path / "lab").iterdir()} == {
        "keys.yaml", "access.yaml", "head.yaml", "workers.yaml", "kustomization.yaml", "images",
    }  # fmt: skip
    files = [str(path) for path in (tmp_path / "lab").rglob("*") if path.is_file()]
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(files)
    assert main((*words, str(tmp_path / "lab"), "--json")) == 0
    assert sorted(json.loads(capsys.readouterr().out)["files"]) == sorted(files)
    assert main(words) == 0
    printed = [*yaml.safe_load_all(capsys.readouterr().out)]
    assert len(printed) == len(objects(cluster()))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl has Kustomize; none is here")
@pytest.mark.parametrize("images", [False, True])
def test_kustomize_makes_the_same_objects_and_a_component_lets_workers_use_criu(
    tmp_path: Path, *, images: bool
) -> None:
    words = ("up", "--on", "kubernetes", "--nodes", "2", "--name", "lab", "--dry-run")
    assert main((*words, str(tmp_path))) == 0
    wanted = objects(cluster())
    if images:
        base = tmp_path / "kustomization.yaml"
        base.write_text(f"{base.read_text()}components: [images]\n")
        pod = wanted["StatefulSet", "lab-worker"]["spec"]["template"]["spec"]
        pod["securityContext"] |= {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0}
        del pod["securityContext"]["fsGroup"]
        (keys,) = (each["secret"] for each in pod["volumes"] if each["name"] == "keys")
        keys["defaultMode"] = 0o400  # for root alone
        pod["containers"][0]["securityContext"] = {"privileged": True}
        pod["volumes"].sort(key=lambda volume: volume["name"] != "keys")  # patched ones come first
    made = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    found = named(yaml.safe_load_all(made.stdout))
    for each in (found, wanted):  # what was asked for is written there
        del each["ConfigMap", "lab-record"]
    assert found == wanted
    for each in found.values():
        kubernetes_validate.validate(each, VERSIONS[-1], strict=True)
