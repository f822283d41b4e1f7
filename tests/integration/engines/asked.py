"""What a cluster's head says, asked by the test's process: a command costs half a CPU second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from artos.errors import DeadlineExceeded, NoHead, Refused
from artos.protocol.views import ClusterView, RunView
from artos.transport.address import endpoint_of
from deploy.client.head_client import HeadClient

V = TypeVar("V", ClusterView, RunView)


class Asked:
    """The head of a cluster that `artos up` has started; it may be away for a while."""

    def __init__(self, started: Mapping[str, Any]) -> None:
        self._head, self._keys = started["address"], Path(started["keys"])

    def run(self, name: str) -> dict[str, Any]:
        """What it says of a run; nothing while it is away."""
        found = self._asked(lambda client: client.status(name))
        return found.plain if found else {}

    def updates(self, name: str) -> int:
        return int((self.run(name).get("facts") or {}).get("updates", 0))

    def nodes(self) -> list[dict[str, Any]]:
        """Those that are alive; none while it is away."""
        found = self._asked(HeadClient.cluster)
        return [node for node in found.plain["nodes"] if node["alive"]] if found else []

    def names(self) -> set[str]:
        """Workers that may have actors."""
        return {node["name"] for node in self.nodes() if not node["leaves"]}

    def _asked(self, question: Callable[[HeadClient], V]) -> V | None:
        try:
            with HeadClient(endpoint_of(self._head), self._keys, patient=False) as client:
                return question(client)
        except (DeadlineExceeded, NoHead, Refused):
            return None
