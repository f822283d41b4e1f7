"""Deciders of who gets a slot next: the pool's fair queue, and plain queues for comparison.

One decision: the holder that has held its slot for longest gives it back, queues again, and the
next one gets the slot, as when every actor has an invocation after the other.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable

from artos.pool.fair_queue import FairQueue
from artos.pool.resources import Resource

SLOTS = 8
_ROUND_SECONDS = 0.01
_WARM_UP = 0.1


def fair(actors: int, workloads: int) -> Callable[[], None]:
    """The pool's queue: by weight, priority and held seconds, with a bound on every wait."""
    queue: FairQueue[int] = FairQueue(Resource(f"slot:{n}", "slot") for n in range(SLOTS))
    names = [f"w{n}" for n in range(workloads)]
    last = [""] * actors
    now = 0.0
    held: deque[int] = deque()

    def request(actor: int) -> None:
        queue.request(actor, names[actor % workloads], now, last=last[actor])

    def grant() -> None:
        for actor, slot in queue.grants(now):
            last[actor] = slot
            held.append(actor)

    for actor in range(actors):
        request(actor)
    for n, name in enumerate(names):
        queue.accounts[name].reweigh(1.0 + n % 4, now)
    grant()

    def decide() -> None:
        nonlocal now
        now += _ROUND_SECONDS / SLOTS
        actor = held.popleft()
        queue.release(actor, now)
        request(actor)
        grant()

    return decide


def priority_queue(actors: int) -> Callable[[], None]:
    """``heapq``: by priority, then first come, first served. No shares, no weights, no bound."""
    waiting = [(-(actor % 4), actor, actor) for actor in range(actors)]
    heapq.heapify(waiting)
    held = deque(heapq.heappop(waiting) for _ in range(SLOTS))
    count = actors

    def decide() -> None:
        nonlocal count
        count += 1
        priority, _, actor = held.popleft()
        heapq.heappush(waiting, (priority, count, actor))
        held.append(heapq.heappop(waiting))

    return decide


def least_held(actors: int, workloads: int) -> Callable[[], None]:
    """``min`` over all workloads by held seconds per weight: fair, and linear in their number."""
    waiting = [deque(range(n, actors, workloads)) for n in range(workloads)]
    seconds, weights = [0.0] * workloads, [1.0 + n % 4 for n in range(workloads)]
    held: deque[int] = deque()

    def grant() -> None:
        ready = (n for n in range(workloads) if waiting[n])
        chosen = min(ready, key=lambda n: seconds[n] / weights[n])
        held.append(waiting[chosen].popleft())

    for _ in range(SLOTS):
        grant()

    def decide() -> None:
        actor = held.popleft()
        seconds[actor % workloads] += _ROUND_SECONDS
        waiting[actor % workloads].append(actor)
        grant()

    return decide


def microseconds(
    decide: Callable[[], None], seconds: float, clock: Callable[[], float] = time.process_time
) -> float:
    """Microseconds of one decision, on average over so many seconds after a warm-up.

    They are of CPU time unless ``clock`` counts others, as what only decides never waits, and
    others may use the machine.
    """
    _count(decide, min(_WARM_UP, seconds), clock)
    began = clock()
    count = _count(decide, seconds, clock)
    return (clock() - began) / count * 1e6


def _count(decide: Callable[[], None], seconds: float, clock: Callable[[], float]) -> int:
    count, until = 0, clock() + seconds
    while clock() < until:
        for _ in range(50):
            decide()
        count += 50
    return count
