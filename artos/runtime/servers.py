"""Registers servers: what each is asked and answers, or why it cannot."""

from __future__ import annotations

import math
from collections.abc import Iterator

from artos.runs.plan import Plan
from artos.specs.contracts import own
from artos.specs.devices import CPU, POOL
from artos.specs.members import LEARNER, NOT_LEARNERS, NOT_ROLES, ROLE_NAME
from artos.specs.servers import Server, ServerSpec
from artos.specs.workload import Workload
from artos.system.closest import closest

_WRITTEN = ("asks", "answers", "answer")


def servers_of(workload: Workload, faults: list[str]) -> tuple[ServerSpec, ...]:
    """All servers of a workload as plain data, without those that have ``faults``, which grow.

    Raises:
        Refused: the environment cannot be made.
    """
    found = []
    for name, server in workload.answering.items():
        amiss = [f"servers[{name!r}]: {fault}" for fault in _faults(name, server, workload)]
        faults += amiss
        if not amiss:
            found.append(_spec(name, server, workload))
            keys = (*found[-1].asks, *found[-1].answers)
            faults += [f"servers[{name!r}]: {each}" for key in keys for each in key.faults()]
    return tuple(found)


def device_faults(plan: Plan) -> Iterator[str]:
    """Why servers of this plan cannot compute on this machine, if they are to live here."""
    for server in plan.servers:
        if server.device == CPU:
            continue
        from artos.learners import device  # noqa: PLC0415  # others do without torch
        from artos.runtime.leasable import pool_faults  # noqa: PLC0415

        found = pool_faults() if server.device == POOL else device.faults(server.device)
        yield from (f"servers[{server.name!r}]: {fault}" for fault in found)


def _spec(name: str, server: Server, workload: Workload) -> ServerSpec:
    actor, first = workload.actor, next(iter(workload.every_learner))
    of = (server.of or first) if server.reads_weights else ""
    return ServerSpec(
        name, tuple(server.asks(actor)), tuple(server.answers(actor)), server.rows(actor),
        server.seats(actor), of, server.threads, server.device, server.batch, server.wait,
    )  # fmt: skip


def _faults(name: str, server: object, workload: Workload) -> Iterator[str]:
    taken = (LEARNER, *NOT_LEARNERS, *workload.every_learner)
    if not ROLE_NAME.fullmatch(name) or name in taken:
        yield (
            "a role that answers cannot have this name: use letters, digits, - and _, and none of "
            f"{', '.join(dict.fromkeys(taken))}"
        )
    elif NOT_ROLES.fullmatch(name):
        yield "logs call something else so: choose another name"
    if not isinstance(server, Server):
        yield f"is a {type(server).__name__}: derive it from artos.Server"
        return
    lacks = [each for each in _WRITTEN if not own(server, Server, each)]
    if lacks:
        yield f"{type(server).__name__} has no {', '.join(lacks)}"
    if not (isinstance(server.batch, int) and server.batch >= 1):
        yield f"batch must be a whole number of at least 1, not {server.batch!r}"
    if not (math.isfinite(server.wait) and server.wait >= 0):
        yield f"wait must be a number of seconds, 0 or more, not {server.wait!r}"
    if server.threads < 1:
        yield f"threads must be at least 1, not {server.threads}"
    if server.device != CPU and not server.on_devices:
        yield f"device={server.device!r}: {type(server).__name__} computes on the CPU: leave it out"
    elif server.device not in (CPU, POOL):
        from artos.learners import device  # noqa: PLC0415  # others do without torch

        if not device.names_gpu(server.device):
            yield from device.faults(server.device)
    if server.of and server.of not in (learners := workload.every_learner):
        yield f"of={server.of!r}: there is no such learner{closest(server.of, [*learners])}"
    yield from server.faults(workload.actor)
