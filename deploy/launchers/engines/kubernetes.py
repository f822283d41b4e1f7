"""Kubernetes: the head is a StatefulSet of one, workers are one of as many pods as there are nodes.

The keeper beside the head changes the number of workers, with a service account that may do just
that. A StatefulSet ends its last pod first, so workers go in that order; a pod that ends for
another reason is replaced by Kubernetes itself, under its name. What is asked of it stands in
``deploy/launchers/kubernetes/*.yaml``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any, ClassVar

import msgspec

from artos.system.regular_file import contents
from artos.transport.roles import ANY
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.launcher import EngineFailed, Here, Launcher, State, Unit

_MANIFESTS = Path(__file__).parents[1] / "kubernetes"
_FILES = ("keys.yaml", "access.yaml", "head.yaml", "workers.yaml")
_KUSTOMIZE = ("kustomization.yaml", "images/kustomization.yaml", "images/worker.yaml")
"""A base of these files, and a component of it that lets workers use CRIU."""
_PORT = 7700
_SECONDS = 30.0
_DEFAULTS = {
    "image": "artos", "cpu": "2", "memory": "4Gi", "gpu": "", "shm": "1Gi", "storage": "20Gi",
    "priority": "",
}  # fmt: skip
"""What ``--head-options`` and ``--worker-options`` may set, as ``cpu=8 memory=16Gi``."""
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_STATES: Mapping[str, State] = {"Pending": "waits", "Running": "runs", "Unknown": "lost"}
_FIRST_KEYS = (
    "head.key", "head.key_secret", "users/owner.key", "users/owner.key_secret", "nodes/any.key",
    "nodes/any.key_secret",
)  # fmt: skip
"""What ``artos keys`` makes for a cluster."""
_TAKEN_OVER = ("Secret", "ConfigMap")
"""Kinds of which one that is there already gets what this cluster has."""
_KEYS_WITHIN = 120.0
"""Seconds within which a kubelet brings a changed Secret to its pods, by its own defaults."""


class Engine(Launcher):
    """The Kubernetes of the current context or, in a pod, the one that runs it."""

    inside = True
    in_order = True
    ignores: ClassVar[Mapping[str, str]] = {
        **Launcher.ignores, "python": "it is that of the image",
    }  # fmt: skip

    @staticmethod
    def misasked(cluster: Cluster) -> list[str]:
        """What is wrong with names and options."""
        return [*_misasked(cluster)]

    @staticmethod
    def faults(cluster: Cluster) -> list[str]:
        """Whether there is a client and a context."""
        if find_spec("kubernetes") is None:
            return ["kubernetes: its client is missing: pip install 'artos[kubernetes]'"]
        try:
            _api()
        except EngineFailed as failed:
            return [f"kubernetes: {failed.why}"]
        return []

    def plan(self) -> Mapping[str, str]:
        """The manifests; without keys, which are made when the cluster is."""
        shown = {name: f"the content of keys/{name}, made by artos keys" for name in _FIRST_KEYS}
        return dict(self._manifests(shown))

    def beside(self) -> Mapping[str, str]:
        """A base for Kustomize, and a component by which workers have images."""
        words = {"name": self._cluster.name}
        return {name: _filled(name, words) for name in _KUSTOMIZE}

    def start(self, indexes: Sequence[int]) -> None:
        """Create everything for the head; more workers are a larger number of replicas."""
        if HEAD in indexes:
            self._create(self._objects())
            self._scale(1, head=True)  # an `artos down` that was broken off had ended it
            return
        have = 1 + max((unit.index for unit in self.units()), default=HEAD)
        self._scale(max(have, 1 + max(indexes)))

    def units(self) -> list[Unit]:
        """Its pods."""
        core, _, namespace = _api()
        selector = f"artos-cluster={self._cluster.name}"
        pods = _asked("list its pods", core.list_namespaced_pod, namespace, label_selector=selector)
        return [_unit(pod) for pod in pods.items if pod.status.phase not in ("Succeeded", "Failed")]

    def stop(self, unit: Unit, *, now: bool = False) -> None:
        """No replica from this one on: the pod gets SIGTERM; with ``now`` it is killed at once."""
        core, _, namespace = _api()
        head = unit.index == HEAD
        self._scale(0 if head else unit.index, head=head, fewer=True)
        if now and unit.state != "waits":  # one that waits goes with its replica
            _asked(
                f"delete {unit.id}", core.delete_namespaced_pod, unit.id, namespace,
                grace_period_seconds=0, but=(404,),
            )  # fmt: skip

    def taken(self) -> str:
        """Another cluster of the namespace has that name: from another machine, or left over."""
        from kubernetes import client as api  # noqa: PLC0415

        _, client, namespace = _api()
        head = f"{self._cluster.name}-head"
        look = api.AppsV1Api(client).read_namespaced_stateful_set
        # Whoever may not look may not create it either, and is told by that.
        if _asked(f"look for {head}", look, head, namespace, but=(403, 404)) is None:
            return ""
        return (
            f"namespace {namespace} has a cluster {self._cluster.name} that was not started from "
            f"{self._cluster.folder} (end it where it was, or `kubectl delete statefulset {head} "
            f"{self._cluster.name}-worker` what is left of it)"
        )

    def refusal(self) -> str:
        """The newest event about pods that could not be made, such as for a quota of the namespace.

        "" also if whoever asks may not read events.
        """
        core, _, namespace = _api()
        reason = "reason=FailedCreate,involvedObject.kind=StatefulSet"
        found = _asked(
            "list events", core.list_namespaced_event, namespace, field_selector=reason, but=(403,)
        )
        own = {f"{self._cluster.name}-{unit}" for unit in ("head", "worker")}
        ours = [each for each in found.items if each.involved_object.name in own] if found else []
        newest = max(ours, key=lambda each: each.last_timestamp.timestamp(), default=None)
        return str(newest.message) if newest else ""

    def way_in(self) -> tuple[str, str]:
        """By the name of the head's Service, and by kubectl."""
        head = f"{self._cluster.name}-head"
        return f"tcp://{head}:{_PORT}", f"kubectl port-forward service/{head} {_PORT}"

    def hand_out_keys(self) -> float:
        """Put them into its Secrets, of which kubelets bring copies to the pods."""
        self._create([each for each in self._objects() if each["kind"] == "Secret"])
        return _KEYS_WITHIN

    def here(self) -> Here:
        """All CPUs of its container; the devices that the container sees."""
        cluster = self._cluster
        own = cluster.worker_options if "POD" in os.environ else cluster.head_options
        gpus = _options(own)["gpu"]
        return Here(self._cluster.slots, ",".join(f"cuda:{n}" for n in range(int(gpus or 0))))

    def clear(self) -> None:
        """Delete what ``start`` created; the volume with the runs stays."""
        _, client, namespace = _api()
        failed = []
        for each in self._objects():
            name = each["metadata"]["name"]
            try:
                resource = _resource(client, each)
                _asked(f"delete {name}", resource.delete, name, namespace, but=(404,))
            except EngineFailed as fault:
                failed.append(str(fault))
        if failed:
            raise EngineFailed("Kubernetes", "delete all of it", "; ".join(failed))

    # -- objects -----------------------------------------------------------------------------------

    def _create(self, objects: Sequence[Mapping[str, Any]]) -> None:
        _, client, namespace = _api()
        for each in objects:
            resource, name = _resource(client, each), f"{each['kind']} {each['metadata']['name']}"
            made = _asked(f"create {name}", resource.create, each, namespace, but=(409,))
            if made is None and each["kind"] in _TAKEN_OVER:
                _asked(f"replace {name}", resource.replace, each, namespace=namespace)

    def _scale(self, replicas: int, *, head: bool = False, fewer: bool = False) -> None:
        from kubernetes import client as api  # noqa: PLC0415

        _, client, namespace = _api()
        apps, name = api.AppsV1Api(client), f"{self._cluster.name}-{'head' if head else 'worker'}"
        what = f"set the number of {'heads' if head else 'workers'} to {replicas}"
        if fewer:
            found = _asked(
                what, apps.read_namespaced_stateful_set_scale, name, namespace, but=(404,)
            )
            if found is None or (found.spec.replicas or 0) <= replicas:
                return
        _asked(
            what, apps.patch_namespaced_stateful_set_scale, name, namespace,
            {"spec": {"replicas": replicas}}, but=(404,),
        )  # fmt: skip

    def _objects(self) -> list[dict[str, Any]]:
        import yaml  # noqa: PLC0415

        folder = self._cluster.keys
        keys = {
            path.relative_to(folder).as_posix(): contents(path).decode().strip()
            for path in folder.rglob("*.key*")
        }
        manifests = self._manifests(keys)
        return [each for _, text in manifests for each in yaml.safe_load_all(text)]

    def _manifests(self, keys: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        cluster = self._cluster
        own = cluster.head_options, cluster.worker_options
        head, worker = _options(*own), _options(*reversed(own))
        record = msgspec.structs.replace(
            cluster, folder="/cluster", python="python", listen=f"tcp://0.0.0.0:{_PORT}",
            head=self.way_in()[0],
        )  # fmt: skip
        words: dict[str, object] = {
            "name": cluster.name, "least": cluster.least, "notice": round(cluster.notice),
            "record": json.dumps(msgspec.json.encode(record).decode()),
            **{name: json.dumps(secret) for name, secret in _secrets(keys, self._cluster).items()},
        }  # fmt: skip
        for unit, options in (("head", head), ("worker", worker)):
            words |= {f"{unit}_{name}": json.dumps(value) for name, value in options.items()}
            resources = {"cpu": options["cpu"], "memory": options["memory"]}
            if options["gpu"]:
                resources["nvidia.com/gpu"] = options["gpu"]
            words[f"{unit}_resources"] = json.dumps(resources)
        for name in _FILES:
            yield name, _filled(name, words)


def _filled(name: str, words: Mapping[str, object]) -> str:
    return Template(contents(_MANIFESTS / name).decode()).substitute(words)


def _misasked(cluster: Cluster) -> Iterator[str]:
    if not _NAME.fullmatch(cluster.name):
        yield f"--name {cluster.name!r}: at most 32 of a-z, 0-9 and - for Kubernetes"
    for flag, words in (("head", cluster.head_options), ("worker", cluster.worker_options)):
        for word in words:
            name, _, value = word.partition("=")
            if name not in _DEFAULTS or not _VALUE.fullmatch(value):
                known = ", ".join(_DEFAULTS)
                yield f"--{flag}-options {word!r}: write NAME=VALUE, with a name of {known}"
            elif name == "gpu" and not value.isdecimal():
                yield f"--{flag}-options {word!r}: write a number"
            elif (flag, name) == ("worker", "storage"):
                yield f"--{flag}-options {word!r}: only the head has a volume, for the runs"


def _options(own: Sequence[str], others: Sequence[str] = ()) -> dict[str, str]:
    """What a unit gets; an image that only the others are given is that of all."""
    words = [*(word for word in others if word.startswith("image=")), *own]
    return _DEFAULTS | dict(word.split("=", 1) for word in words if "=" in word)


def _secrets(keys: Mapping[str, str], cluster: Cluster) -> dict[str, dict[str, str]]:
    """The Secrets of a folder of keys: what the head accepts, and what each unit has of its own.

    Of users' secret keys only the owner's leaves the folder: the keeper, beside the head, has it.
    Of nodes' those that all workers share do, and those of the cluster's own workers.
    """
    found: dict[str, dict[str, str]] = {
        "head_keys": {}, "user_keys": {}, "node_keys": {}, "worker_keys": {},
    }  # fmt: skip
    for path, key in keys.items():
        folder, _, name = path.rpartition("/")
        if not folder:
            found["head_keys"][name] = key
        if folder == "users" and (name.endswith(".key") or path in _FIRST_KEYS):
            found["user_keys"][name] = key
        if folder == "nodes" and name.endswith(".key"):
            found["node_keys"][name] = key
        holder, _, kind = name.rpartition(".")
        own = holder == ANY.name or cluster.index(holder) is not None
        if path == "head.key" or (folder == "nodes" and kind == "key_secret" and own):
            found["worker_keys"][name] = key
    return found


def _unit(pod: Any) -> Unit:
    tail = pod.metadata.name.rpartition("-")[2]
    index = HEAD if pod.metadata.labels.get("artos-unit") == "head" else int(tail)
    held_up = _held_up(pod)  # its phase is Running also while its container ends again and again
    state: State = "waits" if held_up else _STATES[pod.status.phase]
    state = "ends" if pod.metadata.deletion_timestamp else state
    whys = [each.message for each in pod.status.conditions or () if each.status == "False"]
    began = pod.metadata.creation_timestamp
    return Unit(
        index, pod.metadata.name, state, pod.spec.node_name or "",
        next((why for why in (held_up, *whys) if why), "") if state == "waits" else "",
        began.timestamp() if began else 0.0,
    )  # fmt: skip


def _held_up(pod: Any) -> str:
    """Why a container of it does not run, in Kubernetes' words: its image is not to be had, ..."""
    status = pod.status
    every = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    waiting = (each.state.waiting for each in every if each.state and each.state.waiting)
    return next((f"{each.reason}: {each.message}" for each in waiting if each.message), "")


def _api() -> tuple[Any, Any, str]:
    """The core API, its client, and the namespace.

    Raises:
        EngineFailed: there is no context.
    """
    from kubernetes import client, config  # noqa: PLC0415

    inside = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
    try:
        if inside.exists():
            config.load_incluster_config()
            namespace = contents(inside).decode().strip()
        else:
            _, active = config.list_kube_config_contexts()
            config.load_kube_config()
            namespace = active["context"].get("namespace") or "default"
    except config.ConfigException as error:
        raise EngineFailed("kubernetes", "tell where it is", str(error)) from error
    api = client.ApiClient()
    return client.CoreV1Api(api), api, namespace


def _resource(client: Any, each: Mapping[str, Any]) -> Any:
    """The API of an object's kind.

    Raises:
        EngineFailed: it has no such kind, or nobody answered.
    """
    from kubernetes import dynamic  # noqa: PLC0415
    from kubernetes.client import ApiException  # noqa: PLC0415
    from kubernetes.dynamic.exceptions import ResourceNotFoundError  # noqa: PLC0415
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    try:
        kinds = dynamic.DynamicClient(client)
        return kinds.resources.get(api_version=each["apiVersion"], kind=each["kind"])
    except (ApiException, HTTPError, ResourceNotFoundError) as error:
        raise EngineFailed("kubernetes", f"know {each['kind']}", str(error)) from error


def _asked(what: str, call: Any, *arguments: Any, but: Sequence[int] = (), **named: Any) -> Any:
    """The answer to a request; None for a status in ``but``.

    Raises:
        EngineFailed: it was refused, or nobody answered.
    """
    from kubernetes.client import ApiException  # noqa: PLC0415
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    try:
        return call(*arguments, **named, _request_timeout=_SECONDS)
    except ApiException as error:
        if error.status in but:
            return None
        try:
            why = json.loads(error.body or "{}").get("message") or error.reason
        except ValueError:
            why = error.reason
        raise EngineFailed("kubernetes", what, f"{error.status}: {why}") from error
    except HTTPError as error:
        raise EngineFailed("kubernetes", what, str(error)) from error
