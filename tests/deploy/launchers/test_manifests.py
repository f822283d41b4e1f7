"""What Kubernetes is given: by its own schemas, strictly; and by what each unit may and may not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kubernetes_validate
import pytest
import yaml
from helpers import ROOT

from artos.system.shm import MOST
from artos.transport.keys import make_keys
from artos.transport.roles import Holder, KeyRole
from deploy.cli.__main__ import main
from deploy.launchers.cluster import Cluster
from deploy.launchers.engines import kubernetes
from deploy.launchers.engines.kubernetes import _DEFAULTS, Engine
from deploy.launchers.launcher import Here
from deploy.launchers.unit import given_to, worker_words

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


@pytest.mark.parametrize(("config", "seconds"), [("", 120), ("stop_seconds = 600", 660)])
def test_the_heads_pod_has_the_time_that_its_runs_may_take_to_save(
    config: str, seconds: int
) -> None:
    pod = objects(cluster(config=config))["StatefulSet", "lab-head"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == seconds


@pytest.mark.parametrize(
    ("limit", "most"), [("5Gi", 4 << 30), ("1.25Gi", 1 << 30), ("500M", 400_000_000), ("1000", 800)]
)
def test_a_pod_is_evicted_only_beyond_a_quarter_more_than_runs_may_take(
    limit: str, most: int
) -> None:
    found = objects(cluster(worker_options=(f"shm={limit}",), head_options=(f"shm={limit}",)))
    for unit in ("head", "worker"):
        pod = found["StatefulSet", f"lab-{unit}"]["spec"]["template"]["spec"]
        (shm,) = (each for each in pod["volumes"] if each["name"] == "shm")
        assert shm["emptyDir"]["sizeLimit"] == limit
        env = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        assert env["ARTOS_SHM_BYTES"] == str(most)


@pytest.mark.parametrize(
    ("mount", "limit", "most"),
    [
        (5 << 30, 8 << 30, 4 << 30),  # as an overlay has set it, with more than the manifest's
        (500 << 20, 8 << 30, 400 << 20),
        (8 << 30, 8 << 30, int((8 << 30) / 1.25)),  # a kubelet gives no more than the memory
        (64 << 30, 8 << 30, 123),  # nobody has given it the size of the volume
        (5 << 30, None, 123),
    ],
)
def test_runs_of_a_pod_go_by_the_size_that_its_volume_really_has(
    mount: int, limit: int | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MOST, "123")
    monkeypatch.setattr(kubernetes, "memory_limit", lambda: limit)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=mount))
    given_to(Engine(cluster()))
    assert os.environ[MOST] == str(most)


def test_a_pod_is_ready_once_its_worker_has_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    (head,) = objects(cluster())["StatefulSet", "lab-head"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert "POD" not in {each["name"] for each in head["env"]}
    assert Engine(cluster()).here().joined == ""
    monkeypatch.setenv("POD", "lab-worker-0")
    joined = Engine(cluster()).here().joined
    pod = objects(cluster())["StatefulSet", "lab-worker"]["spec"]["template"]["spec"]
    (worker,) = pod["containers"]
    assert worker["readinessProbe"]["exec"]["command"] == ["test", "-e", joined]
    assert f"rm -f {joined}; exec" in worker["command"][-1], "what an earlier container left"
    words = worker_words(cluster(), 0, Here(joined=joined))
    assert words[words.index("--joined") + 1] == joined


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
    # Environments and commands of pods, which anybody may read who may list them, have none.
    others = json.dumps([each for (kind, _), each in found.items() if kind != "Secret"])
    assert not [f for f in lab.keys.rglob("*.key_secret") if f.read_text().strip() in others]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "Lab"}, "--name 'Lab'"),
        ({"name": "x" * 33}, "at most 32"),
        ({"worker_options": ("cpus=4",)}, "--worker-options 'cpus=4'"),
        ({"head_options": ('image=x", evil: "y',)}, "--head-options"),
        ({"worker_options": ("storage=1Gi",)}, "only the head has a volume"),
        ({"head_options": ("shm=8GiB",)}, "write an amount such as 8Gi"),
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
        "record.yaml", "keys.yaml", "access.yaml", "head.yaml", "workers.yaml",
        "kustomization.yaml", "images", "priorities",
    }  # fmt: skip
    files = [str(path) for path in (tmp_path / "lab").rglob("*") if path.is_file()]
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(files)
    assert main((*words, str(tmp_path / "lab"), "--json")) == 0
    assert sorted(json.loads(capsys.readouterr().out)["files"]) == sorted(files)
    assert main(words) == 0
    printed = [*yaml.safe_load_all(capsys.readouterr().out)]
    assert len(printed) == len(objects(cluster()))


def priority_classes() -> dict[tuple[str, str], dict[str, Any]]:
    return named(yaml.safe_load_all(Engine(cluster()).beside()["priorities/classes.yaml"]))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_head_goes_before_workers_which_go_for_any_pod(version: str) -> None:
    classes = priority_classes()
    for each in classes.values():
        kubernetes_validate.validate(each, version, strict=True)
    head = classes["PriorityClass", "artos-head"]
    worker = classes["PriorityClass", "artos-worker"]
    assert worker["value"] < 0 <= head["value"], "0 is what pods without a class have"
    assert worker["value"] >= -10, "the Cluster Autoscaler adds nodes for them"
    assert "globalDefault" not in {*head, *worker}
    assert worker["preemptionPolicy"] == "Never"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl has Kustomize; none is here")
@pytest.mark.parametrize(
    ("images", "priorities"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_kustomize_makes_the_same_objects_and_components_change_them(
    tmp_path: Path, *, images: bool, priorities: bool
) -> None:
    words = ("up", "--on", "kubernetes", "--nodes", "2", "--name", "lab", "--dry-run")
    assert main((*words, str(tmp_path))) == 0
    wanted = objects(cluster())
    base, components = tmp_path / "kustomization.yaml", []
    if priorities:
        components.append("priorities")
        for unit in ("head", "worker"):
            pod = wanted["StatefulSet", f"lab-{unit}"]["spec"]["template"]["spec"]
            pod["priorityClassName"] = f"artos-{unit}"
        wanted |= priority_classes()
    if images:
        components.append("images")
        pod = wanted["StatefulSet", "lab-worker"]["spec"]["template"]["spec"]
        pod["securityContext"] |= {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0}
        del pod["securityContext"]["fsGroup"]
        (keys,) = (each["secret"] for each in pod["volumes"] if each["name"] == "keys")
        keys["defaultMode"] = 0o400  # for root alone
        pod["containers"][0]["securityContext"] = {"privileged": True}
        pod["volumes"].sort(key=lambda volume: volume["name"] != "keys")  # patched ones come first
    base.write_text(f"{base.read_text()}components: {json.dumps(components)}\n")
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
