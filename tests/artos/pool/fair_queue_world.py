"""A simulated machine whose resources are leased by random contenders."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field

from artos.pool.fair_queue import FairQueue, longest_wait
from artos.pool.resources import Resource, Want


@dataclass(frozen=True)
class Client:
    """One contender: leases last at most ``lease`` seconds, pauses between them ``pause``."""

    name: str
    workload: str
    lease: float = 1.0
    pause: float = 0.0
    priority: int = 0
    want: Want = field(default_factory=Want)


class World:
    """Clients that ask, hold and pause on a simulated clock; checks capacity all the time."""

    def __init__(self, queue: FairQueue[Client], resources: list[Resource], seed: int) -> None:
        self.queue, self.random, self.now = queue, random.Random(seed), 0.0
        self.resources = {each.name: each for each in resources}
        self.held: dict[Client, str] = {}
        self.asked: dict[Client, float] = {}
        self.seconds: Counter[str] = Counter()
        self._events: list[tuple[float, int, str, Client]] = []
        self._count = 0

    def at(self, time: float, what: str, client: Client) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, what, client))

    def run(self, until: float = float("inf")) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, what, client = heapq.heappop(self._events)
            getattr(self, what)(client)
            for chosen, resource in self.queue.grants(self.now):
                self.granted(chosen, resource)
            self.check()

    def ask(self, client: Client) -> None:
        self.asked[client] = self.now
        self.queue.request(
            client, client.workload, self.now, want=client.want, priority=client.priority
        )

    def granted(self, client: Client, resource: str) -> None:
        assert client.want.name in ("", resource)
        self.held[client] = resource
        del self.asked[client]
        length = client.lease * self.random.uniform(0.2, 1.0)
        self.seconds[client.workload] += length * (1 + len(client.want.beside))
        self.at(self.now + length, "done", client)

    def done(self, client: Client) -> None:
        del self.held[client]
        self.queue.release(client, self.now)
        if client.pause >= 0:
            pause = client.pause * self.random.uniform(0.0, 2.0)
            self.at(self.now + pause, "ask", client)

    def check(self) -> None:
        loads, memory = Counter[str](), Counter[str]()
        for client, resource in self.held.items():
            for each in (client.want._replace(name=resource), *client.want.beside):
                loads[each.name] += 1
                memory[each.name] += each.memory_mb
        for name, resource in self.resources.items():
            assert loads[name] <= resource.share
            assert not resource.memory_mb or memory[name] <= resource.memory_mb


class Watched(World):
    """Computes when somebody gets what it waited for how long it might have waited at most."""

    def __init__(
        self, queue: FairQueue[Client], resources: list[Resource], seed: int, lease: float
    ) -> None:
        super().__init__(queue, resources, seed)
        self.lease = lease
        self.ahead: dict[Client, int] = {}
        self.queues: dict[Client, set[object]] = {}
        self.served = self.overdue = 0

    @staticmethod
    def line(client: Client) -> object:
        return (client.workload, client.want, client.priority)

    def ask(self, client: Client) -> None:
        lines = [self.line(other) for other in self.asked]
        self.ahead[client] = lines.count(self.line(client))
        self.queues[client] = {*lines}
        for others in self.queues.values():
            others.add(self.line(client))
        super().ask(client)

    def granted(self, client: Client, resource: str) -> None:
        waited, patience = self.now - self.asked[client], self.queue.patience
        queues = self.queues.pop(client)
        ahead = self.ahead.pop(client)
        assert waited <= longest_wait(self.lease, len(queues), ahead, patience)
        self.served += 1
        self.overdue += waited > 2 * patience
        super().granted(client, resource)
