"""A stand-in for an API server of Kubernetes: objects are kept, StatefulSets get pods; a script.

It prints its URL, then answers each line on standard input, which is JSON, with a line:
``{"room": N}``: so many pods run, others wait; ``{"forbid": METHOD}``: 403 for such requests on
StatefulSets and Secrets; ``{"conflict": METHOD}``: 409 for them; ``{"held": STATUS}``: pods of
workers that come have that status, such as of a container that waits; ``{"quota": N}``: so many
pods may be made; ``{"trouble": [HOW, N]}``: after N more requests each is answered with that status
and told to be repeated in an hour, or by a cut connection (0), until ``[]``; ``{"secret": NAME}``:
the names in it; ``{"objects": 0}``: what there is, as ``KIND/NAME``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import aiohttp.web
import kmock

PODS, SETS = kmock.resource("", "v1", "pods"), kmock.resource("apps", "v1", "statefulsets")
EVENTS, SECRETS = kmock.resource("", "v1", "events"), kmock.resource("", "v1", "secrets")
RECORDS = kmock.resource("", "v1", "configmaps")
_TICK, _ENDING = 0.25, 0.3


class Api(kmock.KubernetesEmulator):
    """The server; its attributes as the script says."""

    room = quota = 100
    forbidden = conflicting = ""
    held: Mapping[str, Any] = MappingProxyType({})
    trouble: Sequence[int] = ()

    async def __call__(self, raw_request: Any) -> Any:
        if self.trouble:
            how, healthy = self.trouble
            self.trouble = (how, max(0, healthy - 1))
            if not healthy and not how:
                raw_request.transport.abort()
            if not healthy:
                said = {"kind": "Status", "message": "it has troubles"}
                later = {"Retry-After": "3600"}
                return aiohttp.web.json_response(said, status=how or 500, headers=later)
        return await super().__call__(raw_request)

    async def _handle(self, request: Any) -> Any:
        method = request.method.value if request.resource in (SETS, SECRETS) else None
        if method == self.forbidden:
            raise kmock.KubernetesError(
                status=403, reason="Forbidden", message="the keeper may not do that"
            )
        if method == self.conflicting:
            raise kmock.KubernetesError(
                status=409, reason="Conflict", message="the object has been modified"
            )
        try:
            return await super()._handle(request)
        finally:
            # It looks for each request among all that ever came, once for each kind of answer.
            self._requests[:] = [each for each in self._requests if each is not request]

    def there(self, wanted: Any) -> dict[tuple[str, str], Any]:
        """Objects of a kind by namespace and name."""
        return {
            (namespace, name): found
            for (resource, namespace, name), found in [*self.objects.items()]
            if resource == wanted and not found.deleted
        }

    def pods(self, request: Any) -> dict[str, Any]:
        """The pods with the labels that are asked for."""
        name, _, value = request.params.get("labelSelector", "=").partition("=")
        pods = [pod.raw for pod in self.there(PODS).values()]
        chosen = [pod for pod in pods if not name or pod["metadata"]["labels"].get(name) == value]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": chosen}

    def replaced(self, request: Any) -> dict[str, Any]:
        """An object, in place of the one of its name."""
        key = (request.resource, request.namespace, request.name)
        self.objects[key] = request.data
        return dict(self.objects[key].raw)

    def events(self, _request: Any) -> dict[str, Any]:
        """All events."""
        items = [event.raw for event in self.there(EVENTS).values()]
        return {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": items}

    def control(self) -> None:
        """Do once what the controller of StatefulSets and the scheduler do."""
        for key, found in [*self.objects.items()]:
            if found.deleted:  # else each request would take longer than the one before
                del self.objects[key]
        sets, pods = self.there(SETS), self.there(PODS)
        wanted = {
            (namespace, f"{name}-{number}"): found.raw["spec"]["template"]["metadata"]["labels"]
            for (namespace, name), found in sets.items()
            for number in range(found.raw["spec"]["replicas"])
        }
        now = datetime.now(UTC)
        for key, pod in pods.items():
            ends = pod.raw["metadata"].get("deletionTimestamp")
            if ends and (now - datetime.fromisoformat(ends)).total_seconds() > _ENDING:
                pod.delete()
            elif key not in wanted and not ends:
                pod.patch({"metadata": {"deletionTimestamp": now.isoformat()}})
        running = sum(pod.raw["status"]["phase"] == "Running" for pod in self.there(PODS).values())
        there = len(pods)
        for key, labels in wanted.items():
            if key not in pods and there >= self.quota:
                self.objects[(EVENTS, key[0], f"{key[1]}.refused")] = _refused(*key, now)
            elif key not in pods:
                there += 1
                self.objects[(PODS, *key)] = _pod(*key, labels, now)
            elif pods[key].raw["status"]["phase"] == "Pending" and running < self.room:
                running += 1
                held = self.held if labels["artos-unit"] == "worker" else {}
                ready = [{"type": "Ready", "status": "True"}]
                status = {"phase": "Running", "conditions": ready, **held}
                pods[key].patch({"status": status})


def _pod(namespace: str, name: str, labels: dict[str, str], now: datetime) -> dict[str, Any]:
    full = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu",
    }  # fmt: skip
    return {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": namespace, "labels": labels,
            "creationTimestamp": now.isoformat(),
        },
        "spec": {"containers": [{"name": "artos"}]},
        "status": {"phase": "Pending", "conditions": [full]},
    }  # fmt: skip


def _refused(namespace: str, name: str, now: datetime) -> dict[str, Any]:
    owner = {"kind": "StatefulSet", "name": name.rpartition("-")[0], "namespace": namespace}
    return {
        "kind": "Event", "apiVersion": "v1", "involvedObject": owner, "reason": "FailedCreate",
        "metadata": {"name": f"{name}.refused", "namespace": namespace},
        "lastTimestamp": now.isoformat(),
        "message": f"create Pod {name} failed: pods is forbidden: exceeded quota: lab, pods=1",
    }  # fmt: skip


def _answer(api: Api, verb: str, value: Any) -> Any:
    if verb == "room":
        api.room = value
    elif verb == "quota":
        api.quota = value
    elif verb == "forbid":
        api.forbidden = value
    elif verb == "conflict":
        api.conflicting = value
    elif verb == "trouble":
        api.trouble = value
    elif verb == "held":
        api.held = value
    elif verb == "secret":
        ((_, found),) = (each for each in api.there(SECRETS).items() if each[0][1] == value)
        return sorted(found.raw["stringData"])
    elif verb == "objects":
        return sorted(
            f"{resource.plural}/{name}"
            for (resource, _, name), found in [*api.objects.items()]
            if not found.deleted
        )
    return None


async def main() -> None:
    """Serve until standard input ends."""
    async with Api() as api, kmock.Server(api) as server:
        api.resources.load_bundled()
        api[kmock.action.LIST, PODS] << api.pods
        api[kmock.action.LIST, EVENTS] << api.events
        for kind in (SECRETS, RECORDS):
            api[kmock.method.PUT, kind] << api.replaced
        print(json.dumps(str(server.url)), flush=True)
        lines: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin, lambda: lines.put_nowait(sys.stdin.readline()))
        while True:
            api.control()
            try:
                line = await asyncio.wait_for(lines.get(), _TICK)
            except TimeoutError:
                continue
            if not line:
                return
            ((verb, value),) = json.loads(line).items()
            print(json.dumps(_answer(api, verb, value)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
