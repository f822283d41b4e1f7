"""Actors whose user code holds what images have trouble with."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from counted import Counting, assemble

from artos import Workload
from artos.specs.actor_count import ActorsSetting

PORT = Path("port")
"""Where the port of a server to connect to is written."""


class Connected(Counting):
    """Has a connection to somewhere, made before it knows which actor it is."""

    def prepare(self, plan: Any, *, environments: bool = True) -> None:
        del plan, environments
        self.connection = socket.create_connection(("127.0.0.1", int(PORT.read_text())))


class Threaded(Counting):
    """Does its sampling in a pool of threads that has been started before."""

    def prepare(self, plan: Any, *, environments: bool = True) -> None:
        del plan, environments
        self.pool = ThreadPoolExecutor(2)
        list(self.pool.map(abs, range(8)))

    def setup(self, context: Any) -> None:
        super().setup(context)
        if not hasattr(self, "pool"):
            self.prepare(context.plan)

    def sample(self, start: int, rows: int, call: Any) -> dict[str, float]:
        return self.pool.submit(super().sample, start, rows, call).result(20)


def connected(actors: ActorsSetting = 2, total_steps: int = 128) -> Workload:
    return assemble(Connected(), actors, total_steps, 0)


def threaded(actors: ActorsSetting = 2, total_steps: int = 192) -> Workload:
    return assemble(Threaded(), actors, total_steps, 0)
