"""How the desk learns which kinds of objects a Kubernetes has; a real one is asked elsewhere."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from http_here import answering
from kubernetes.client import (
    ApiClient,
    Configuration,
    V1ObjectMeta,
    V1Pod,
    V1PodSpec,
    V1PodStatus,
)

from artos.transport.keys import make_keys
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.engines import kubernetes
from deploy.launchers.engines.kubernetes import Engine
from deploy.launchers.launcher import EngineFailed

KINDS = {
    "v1": ("ConfigMap", "Secret", "Service", "ServiceAccount"),
    "apps/v1": ("StatefulSet",),
    "rbac.authorization.k8s.io/v1": ("Role", "RoleBinding"),
}


def paths() -> Iterator[tuple[str, object]]:
    """What it answers about itself; all else it does not have."""
    groups = []
    for version, kinds in KINDS.items():
        resources = [
            {"name": f"{kind.lower()}s", "kind": kind, "namespaced": True, "verbs": ["get"]}
            for kind in kinds
        ]
        yield f"/{'apis' if '/' in version else 'api'}/{version}", {
            "kind": "APIResourceList", "resources": resources,
        }  # fmt: skip
        name, _, tail = version.rpartition("/")
        if name:
            of_group = {"groupVersion": version, "version": tail}
            groups.append({"name": name, "versions": [of_group], "preferredVersion": of_group})
    yield "/apis", {"kind": "APIGroupList", "groups": groups}
    yield "/version", {"major": "1"}


class Server(BaseHTTPRequestHandler):
    """A Kubernetes in which there is no object."""

    answers: ClassVar = dict(paths())
    asked: ClassVar[list[str]]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(path)
        answer = self.answers.get(path)
        body = json.dumps(answer or {"message": "there is none"}).encode()
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def host() -> Iterator[str]:
    Server.asked = []
    with answering(Server) as address:
        yield address


def test_what_others_may_put_into_the_folder_of_temporary_files_is_not_gone_by(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, lab = tmp_path / "tmp", tmp_path / "lab"
    shared.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    planted = shared / f"osrcp-{hashlib.md5(host.encode()).hexdigest()}.json"
    planted.write_text("{}")
    cluster = Cluster(name="lab", engine="kubernetes", folder=str(lab), least=1, most=1)
    cluster.save()
    make_keys(cluster.keys)
    with ApiClient(Configuration(host=host)) as client:
        monkeypatch.setattr(kubernetes, "_api", lambda: (None, client, "default"))
        Engine(cluster).clear()
        client.rest_client.pool_manager.clear()
    assert [*shared.iterdir()] == [planted]
    assert planted.read_text() == "{}"
    own = [path for path in Server.asked if path in Server.answers]
    assert len(own) == len({*own}), "it is asked once for each"
    assert "/api/v1/namespaces/default/secrets/lab-head" in " ".join(Server.asked)


def test_what_has_no_mark_is_not_taken_for_that_of_a_cluster_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was being forgotten when its desk was switched off has no mark either."""
    deleted: list[object] = []
    resource = SimpleNamespace(delete=lambda *what, **_: deleted.append(what))
    for name, does in (
        ("_api", lambda: (None, None, "default")), ("_kinds", nullcontext),
        ("_resource", lambda *_: resource), ("_mark_of", lambda *_: ""),
    ):  # fmt: skip
        monkeypatch.setattr(kubernetes, name, does)
    lab = Cluster(name="lab", engine="kubernetes", folder=str(tmp_path), least=1, most=1)
    with pytest.raises(EngineFailed, match="has no label artos-mark"):
        Engine(lab).clear()
    assert deleted == []


def test_a_pod_that_somebody_has_copied_is_no_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its labels, as `kubectl debug --copy-to` can: its name has no number."""
    pods = [
        V1Pod(
            metadata=V1ObjectMeta(name=name, labels={"artos-unit": name.split("-")[1]}),
            spec=V1PodSpec(containers=[]), status=V1PodStatus(phase="Running"),
        )
        for name in ("lab-head-0", "lab-worker-3", "lab-worker-3-copy", "lab-head-debug")
    ]  # fmt: skip
    core = SimpleNamespace(list_namespaced_pod=lambda *_, **__: SimpleNamespace(items=pods))
    monkeypatch.setattr(kubernetes, "_api", lambda: (core, None, "default"))
    lab = Cluster(name="lab", engine="kubernetes", folder=str(tmp_path), least=1, most=1)
    assert [unit.index for unit in Engine(lab).units()] == [HEAD, 3]
