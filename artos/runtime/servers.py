"""Registers servers: what each is asked and answers, or why it cannot."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from artos.specs.contracts import Actor, own
from artos.specs.members import ACTORS, CONTROL, EVALUATOR, LEARNER, TEMPLATE
from artos.specs.servers import Server, ServerSpec
from artos.specs.workload import Workload

_TAKEN = (ACTORS, LEARNER, EVALUATOR, TEMPLATE, CONTROL, "transfer")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_WRITTEN = ("asks", "answers", "answer")


def servers_of(workload: Workload, faults: list[str]) -> tuple[ServerSpec, ...]:
    """All servers of a workload as plain data, without those that have ``faults``, which grow.

    Raises:
        Refused: the environment cannot be made.
    """
    found = []
    for name, server in workload.answering.items():
        amiss = [f"servers[{name!r}]: {fault}" for fault in _faults(name, server, workload.actor)]
        faults += amiss
        if not amiss:
            found.append(_spec(name, server, workload.actor))
            keys = (*found[-1].asks, *found[-1].answers)
            faults += [f"servers[{name!r}]: {each}" for key in keys for each in key.faults()]
    return tuple(found)


def _spec(name: str, server: Server, actor: Actor) -> ServerSpec:
    return ServerSpec(
        name, tuple(server.asks(actor)), tuple(server.answers(actor)), server.rows(actor),
        server.seats(actor), server.reads_weights, server.threads, server.device, server.batch,
        server.wait,
    )  # fmt: skip


def _faults(name: str, server: object, actor: Actor) -> Iterator[str]:
    if not _NAME.fullmatch(name) or name in _TAKEN:
        yield (
            f"a role cannot have this name: use letters, digits, - and _, and none of "
            f"{', '.join(_TAKEN)}"
        )
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
    if server.device != "cpu":
        yield f"device={server.device!r}: servers compute on the CPU, so leave it out"
    yield from server.faults(actor)
