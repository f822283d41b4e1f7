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
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import msgspec

from artos.errors import Refused
from artos.system.memory_limit import memory_limit
from artos.system.regular_file import contents
from artos.system.shm import named_root
from artos.transport.roles import ANY
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.launcher import EngineFailed, Here, Launcher, State, Unit, last_said

_MANIFESTS = Path(__file__).parents[1] / "kubernetes"
_FILES = ("record.yaml", "keys.yaml", "access.yaml", "head.yaml", "workers.yaml")
_KUSTOMIZE = (
    "kustomization.yaml", "images/kustomization.yaml", "images/worker.yaml",
    "priorities/kustomization.yaml", "priorities/classes.yaml", "priorities/head.yaml",
    "priorities/worker.yaml",
)  # fmt: skip
"""A base of these files, and two components: workers may use CRIU; the head goes before them."""
_PORT = 7700
_JOINED = "/cluster/joined"
"""In a worker's pod: the readiness probe looks for it."""
_SECONDS = 30.0
_DEFAULTS = {
    "image": "artos", "cpu": "2", "memory": "4Gi", "gpu": "", "shm": "1Gi", "storage": "20Gi",
    "priority": "",
}  # fmt: skip
"""What ``--head-options`` and ``--worker-options`` may set, as ``cpu=8 memory=16Gi``."""
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")
_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(|k|M|G|T|Ki|Mi|Gi|Ti)")
_SHM_ROOM = 1.25
"""How many times as large the limit of /dev/shm is as what may be taken of it: a pod that goes
beyond its limit is evicted."""
_STATES: Mapping[str, State] = {"Pending": "waits", "Running": "runs", "Unknown": "lost"}
_FIRST_KEYS = (
    "head.key", "head.key_secret", "users/owner.key", "users/owner.key_secret", "nodes/any.key",
    "nodes/any.key_secret",
)  # fmt: skip
"""What ``artos keys`` makes for a cluster."""
_TAKEN_OVER = ("Secret", "ConfigMap")
"""Kinds of which one of this cluster that is there already gets what it has now."""
_MARK = "artos-mark"
"""The label of all that ``artos up`` makes: which cluster of that name it is of."""
_KEYS_WITHIN = 120.0
"""Seconds within which a kubelet brings a changed Secret to its pods, by its own defaults."""


class Engine(Launcher):
    """The Kubernetes of the current context or, in a pod, the one that runs it."""

    inside = True
    in_order = replaces = True
    ignores: ClassVar[Mapping[str, str]] = {
        **Launcher.ignores, "python": "it is that of the image",
    }  # fmt: skip

    @property
    def volume(self) -> str:
        """What Kubernetes calls the claim of the head's pod; ``clear`` leaves it."""
        return f"runs-{self._cluster.name}-head-0"

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
        """A base for Kustomize, and components: workers with images, and priorities."""
        words = {"name": self._cluster.name}
        return {name: _filled(name, words) for name in _KUSTOMIZE}

    def start(self, indexes: Sequence[int]) -> None:
        """Create everything for the head; more workers are a larger number of replicas.

        Raises:
            Refused: another cluster of the namespace has the name, or something of it is left.
        """
        if HEAD in indexes:
            self._create(self._objects())
            self._scale(1, head=True)  # an `artos down` that was broken off had ended it
            return
        have = 1 + max((unit.index for unit in self.units()), default=HEAD)
        self._scale(max(have, 1 + max(indexes)))

    def units(self) -> list[Unit]:
        """Its pods, without copies that somebody has made of them."""
        core, _, namespace = _api()
        own = re.compile(rf"{re.escape(self._cluster.name)}-(head|worker)-\d+")
        selector = f"artos-cluster={self._cluster.name}"
        pods = _asked("list its pods", core.list_namespaced_pod, namespace, label_selector=selector)
        return [
            _unit(pod)
            for pod in pods.items
            if pod.status.phase not in ("Succeeded", "Failed") and own.fullmatch(pod.metadata.name)
        ]

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

    def refusal(self, workers: Sequence[int]) -> str:
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
        cluster, of_worker = self._cluster, "POD" in os.environ
        gpus = _options(cluster.worker_options if of_worker else cluster.head_options)["gpu"]
        devices = ",".join(f"cuda:{n}" for n in range(int(gpus or 0)))
        joined = _JOINED if of_worker else ""
        taken = _may_take(shutil.disk_usage(named_root()).total, memory_limit())
        return Here(cluster.slots, devices, shm_bytes=taken, joined=joined)

    def clear(self) -> None:
        """Delete what ``start`` created; the volume with the runs stays."""
        _, client, namespace = _api()
        failed = []
        with _kinds(client) as kinds:
            for each in reversed(self._objects()):  # the name is given up last
                name, what = each["metadata"]["name"], _named(each)
                try:
                    resource = _resource(kinds, each)
                    mark = _mark_of(resource, name, what, namespace)
                    if mark and mark == self._cluster.mark:
                        _asked(f"delete {what}", resource.delete, name, namespace, but=(404,))
                    elif mark == "":
                        failed.append(
                            f"{what} has no label {_MARK}: an earlier ARTOS made it, or not "
                            "`artos up`"
                        )
                except EngineFailed as fault:
                    failed.append(str(fault))
        if failed:
            raise EngineFailed("Kubernetes", "delete all of it", "; ".join(failed))

    # -- objects -----------------------------------------------------------------------------------

    def _create(self, objects: Sequence[Mapping[str, Any]]) -> None:
        _, client, namespace = _api()
        name = self._cluster.name
        with _kinds(client) as kinds:
            for each in objects:
                resource, what = _resource(kinds, each), _named(each)
                created = _asked(f"create {what}", resource.create, each, namespace, but=(409,))
                if created is not None:
                    continue
                mark = _mark_of(resource, each["metadata"]["name"], what, namespace)
                if mark != self._cluster.mark:
                    own = ",".join(sorted({kind["kind"].lower() for kind in self._objects()}))
                    raise Refused(
                        [f"kubernetes: namespace {namespace} has a cluster {name} that was not "
                         f"started from {self._cluster.folder}, as it has {what} (end it where it "
                         f"was, or `kubectl delete {own} -l artos-cluster={name}` what is left of "
                         "it): take another --name"]
                    )  # fmt: skip
                if each["kind"] in _TAKEN_OVER:
                    _asked(f"replace {what}", resource.replace, each, namespace=namespace)

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
        objects = [each for _, text in manifests for each in yaml.safe_load_all(text)]
        for each in objects:
            each["metadata"]["labels"][_MARK] = self._cluster.mark
        return objects

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
            "head_seconds": round(cluster.head_seconds), "joined": _JOINED,
            "record": json.dumps(msgspec.json.encode(record).decode()),
            **{name: json.dumps(secret) for name, secret in _secrets(keys, self._cluster).items()},
        }  # fmt: skip
        for unit, options in (("head", head), ("worker", worker)):
            words |= {f"{unit}_{name}": json.dumps(value) for name, value in options.items()}
            words[f"{unit}_shm_bytes"] = json.dumps(str(int(_bytes(options["shm"]) / _SHM_ROOM)))
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
            elif name == "shm" and not _bytes(value):
                yield f"--{flag}-options {word!r}: write an amount such as 8Gi"
            elif (flag, name) == ("worker", "storage"):
                yield f"--{flag}-options {word!r}: only the head has a volume, for the runs"


def _bytes(amount: str) -> float:
    """Those of an amount as Kubernetes writes it; 0 if it is none."""
    if not (found := _QUANTITY.fullmatch(amount)):
        return 0.0
    number, unit = found.groups()
    base = 1024 if unit.endswith("i") else 1000
    return float(number) * float(base ** " KMGT".index(unit[:1].upper() or " "))


def _may_take(mount: int, limit: int | None) -> int:
    """Bytes of /dev/shm that runs of a pod may take; 0: as its manifest says.

    A kubelet mounts it with the size that the volume has for a limit, whatever overlay has set it.
    One larger than the pod's memory was not: kubelets before 1.22, and podman, give it half of the
    machine's.
    """
    return int(mount / _SHM_ROOM) if limit and mount <= limit else 0


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
    conditions = pod.status.conditions or ()
    whys = [each.message for each in conditions if each.status == "False"]
    began = pod.metadata.creation_timestamp
    return Unit(
        index, pod.metadata.name, state, pod.spec.node_name or "",
        next((why for why in (held_up, *whys) if why), "") if state == "waits" else "",
        began.timestamp() if began else 0.0,
        any(each.type == "Ready" and each.status == "True" for each in conditions),
    )  # fmt: skip


def _held_up(pod: Any) -> str:
    """Why a container of it does not run, in Kubernetes' words: its image is not to be had, ...

    With the last that it said if it has ended, which the pod's status has of its log.
    """
    status = pod.status
    for each in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        waiting = each.state and each.state.waiting
        if waiting and waiting.message:
            ended = each.last_state and each.last_state.terminated
            last = last_said((ended and ended.message) or "")
            return f"{waiting.reason}: {waiting.message}{last and f' ({last})'}"
    return ""


def _api() -> tuple[Any, Any, str]:
    """The core API, its client, and the namespace.

    Raises:
        EngineFailed: there is no context.
    """
    from kubernetes import client, config  # noqa: PLC0415
    from urllib3 import Retry  # noqa: PLC0415

    inside = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
    try:
        if inside.exists():
            config.load_incluster_config()
            namespace = contents(inside).decode().strip()
        else:
            # By itself the library looks where the variable pointed when it was imported.
            place = os.environ.get("KUBECONFIG")
            _, active = config.list_kube_config_contexts(place)
            config.load_kube_config(place)
            namespace = active["context"].get("namespace") or "default"
    except config.ConfigException as error:
        raise EngineFailed("kubernetes", "tell where it is", str(error)) from error
    # By default a request is repeated three times, after as many seconds as the server says.
    how = client.Configuration.get_default_copy()
    how.retries = Retry(1, respect_retry_after_header=False)
    api = client.ApiClient(how)
    return client.CoreV1Api(api), api, namespace


def _mark_of(resource: Any, name: str, what: str, namespace: str) -> str | None:
    """Which cluster an object is of; "" if it does not say, None if there is none.

    Raises:
        EngineFailed: it may not be looked at, or nobody answered.
    """
    found = _asked(f"look at {what}", resource.get, name, namespace, but=(404,))
    return None if found is None else str((found.metadata.labels or {}).get(_MARK) or "")


def _named(each: Mapping[str, Any]) -> str:
    return f"{each['kind']} {each['metadata']['name']}"


@contextmanager
def _kinds(client: Any) -> Iterator[Any]:
    """The kinds of objects that it has.

    Raises:
        EngineFailed: nobody answered.
    """
    from kubernetes import dynamic  # noqa: PLC0415
    from kubernetes.client import ApiException  # noqa: PLC0415
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    class Client(dynamic.DynamicClient):  # type: ignore[misc]
        """One whose first questions, about kinds, have a deadline too."""

        def request(self, method: str, path: str, body: Any = None, **given: Any) -> Any:
            return super().request(method, path, body, **{"_request_timeout": _SECONDS, **given})

    # By default it goes by a file in /tmp under a name that anyone can tell, and put there.
    with TemporaryDirectory(prefix="artos-") as folder:
        try:
            kinds = Client(client, cache_file=f"{folder}/kinds.json").resources
        except (ApiException, HTTPError, ValueError) as error:
            # Of a connection that is cut it says that the host's address should be another one.
            why = error.__context__ if isinstance(error, ValueError) else error
            raise EngineFailed("kubernetes", "say what kinds it has", str(why or error)) from error
        yield kinds


def _resource(kinds: Any, each: Mapping[str, Any]) -> Any:
    """The API of an object's kind.

    Raises:
        EngineFailed: it has no such kind, or nobody answered.
    """
    from kubernetes.client import ApiException  # noqa: PLC0415
    from kubernetes.dynamic.exceptions import ResourceNotFoundError  # noqa: PLC0415
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    version, kind = each["apiVersion"], each["kind"]
    prefix = "apis" if "/" in version else "api"  # else all groups are asked for a v1
    try:
        return kinds.get(prefix=prefix, api_version=version, kind=kind)
    except (ApiException, HTTPError, ResourceNotFoundError) as error:
        raise EngineFailed("kubernetes", f"know {kind}", str(error)) from error


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
