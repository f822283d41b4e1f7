"""Only the actors' side of a run: a node and its process manager, without a learner.

Actors are started, invoked, parked and ended one step at a time, so that each step can be timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import numpy as np

from artos.clock import Deadline, SystemClock
from artos.errors import ArtosError, DeadlineExceeded
from artos.protocol.invocations import Done, Failed, FromMember, Invoke, Ready
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory, check_space
from artos.specs.members import ACTORS, TEMPLATE, Member
from artos.system.logging_setup import logging_to
from artos.system.signals import child_deaths
from head.run.request import reference_of
from triggers.passers import Mailboxes
from triggers.registration import prepare
from workers.actors.actor_record import State
from workers.executor.build import build

PATIENCE = 60.0
"""Seconds after which a wait gives up."""
_TICK = 0.25
_STOP_SECONDS = 5.0


class ActorLost(ArtosError):
    """An actor or the template failed. ``why`` is the end of its output."""

    def __init__(self, member: Member, why: str) -> None:
        self.member, self.why = member, why
        super().__init__(f"{member} ended: {why or 'it said nothing'}")


def pong(actors: int, envs: int, steps: int) -> Plan:
    """A verified plan of PPO on Pong with the Nature network."""
    settings = {
        "env": "PongNoFrameskip-v4",
        "actors": str(actors),
        "envs": str(envs),
        "steps": str(steps),
    }
    return prepare(reference_of("ppo", settings, Path.cwd()), seed=1).plan


class Workplace:
    """A node for the plan with weights published, and its process manager; a context manager.

    ``elastic`` are settings of ``Elastic``. Actors are named by their numbers. ``on_answer`` is
    called when an actor has answered, before it is parked.
    """

    def __init__(self, plan: Plan, folder: Path, **elastic: Any) -> None:
        self._plan = msgspec.structs.replace(plan, elastic=plan.elastic.changed(elastic))
        self._folder, self._stack = folder, ExitStack()
        self._firing, self._ended = 0, False
        self._warnings: list[str] = []
        self._ready: dict[Member, float] = {}
        self._done: dict[int, float] = {}
        self.on_answer: Callable[[], None] = lambda: None

    def __enter__(self) -> Workplace:
        with ExitStack() as stack:
            check_space(self._plan)
            stack.enter_context(logging_to(self._warnings.append))
            self.node = stack.enter_context(RunMemory(self._plan, "bench", self._folder / "logs"))
            arrays = self._plan.objects[0].arrays
            self.node.restore(
                self._plan.learner,
                {spec.name: np.zeros(spec.shape, spec.dtype) for spec in arrays},
                0,
            )
            images, clock = self._folder / "images", SystemClock()
            self.manager = build(self.node, images, Mailboxes(self.node.board), clock)
            stack.enter_context(child_deaths(self._child_ended))
            stack.callback(self._stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _stop(self) -> None:
        for member in self.manager.pids():
            self.manager.end(member)
        self.manager.stop(_STOP_SECONDS)

    def _child_ended(self) -> None:
        self._ended = True
        self.node.board.doorbell.ring()

    # -- steps ---------------------------------------------------------------------------------

    def start(self, *actors: int) -> float:
        """Start actors at once; seconds until all are ready, with environments reset.

        Raises:
            ActorLost: an actor failed.
            DeadlineExceeded: some were not ready in time.
        """
        members, began = [*(Member(ACTORS, a) for a in actors)], time.perf_counter()
        self._ready.clear()
        for member in members:
            self.manager.start(member)
        self.until(f"{len(members)} new actors", lambda: self._ready.keys() >= {*members})
        return max(self._ready.values()) - began

    def end(self, *actors: int) -> None:
        """End actors; their processes are gone when this returns."""
        for actor in actors:
            self.manager.end(Member(ACTORS, actor))

    def invoke(self, actor: int, rows: int = 0) -> float:
        """Have an actor bind the weights and sample ``rows``; seconds until its answer."""
        member, call = Member(ACTORS, actor), self.call(actor, rows)
        began = time.perf_counter()
        self.manager.send(member, call)
        return self.answered(call) - began

    def call(self, actor: int, rows: int = 0) -> Invoke:
        """An invocation to bind the weights and sample ``rows`` rows."""
        self._firing += 1
        stop = self.node.blocks[actor].written + rows if rows else 0
        return Invoke(self._firing, "actors.sample", "sample", (), stop, True)

    def answered(self, call: Invoke) -> float:
        """Wait for the answer to an invocation; returns its time (``time.perf_counter``)."""
        self.until(f"the answer to firing {call.firing}", lambda: call.firing in self._done)
        return self._done[call.firing]

    def rests(self, actor: int, state: State) -> float:
        """Wait until an actor is in a state; seconds since the newest answer of any actor."""
        member = Member(ACTORS, actor)
        self.until(f"actor {actor} {state}", lambda: self.manager.states()[member] is state)
        return time.perf_counter() - self._done[self._firing]

    def pid(self, actor: int) -> int:
        """The process id of a live actor."""
        return self.manager.pids()[Member(ACTORS, actor)]

    # -- the loop ------------------------------------------------------------------------------

    def until(self, what: str, true: Callable[[], bool]) -> None:
        """Serve the board until ``true()`` holds, as the supervisor of a run does.

        Raises:
            ActorLost: an actor or the template failed.
            DeadlineExceeded: it did not hold in time; the message names ``what``.
        """
        deadline = Deadline(PATIENCE)
        while not true():
            if deadline.passed:
                raise DeadlineExceeded(what, PATIENCE)
            self._ended |= not self.node.board.doorbell.wait(min(_TICK, deadline.left))
            self._serve()

    def _serve(self) -> None:
        for member in self.node.board.changed():
            for message in self.manager.reports(member):
                self._heard(member, message)
        if self._ended:
            self._ended = False
            for member, death in self.manager.deaths():
                raise ActorLost(member, death.why)
        if self._warnings:  # a fallback to another way to start would falsify the measurement
            raise ActorLost(Member(TEMPLATE), self._warnings[0])

    def _heard(self, member: Member, message: FromMember) -> None:
        if isinstance(message, Failed):
            raise ActorLost(member, message.trace)
        # Before the process manager handles the message, as it then parks the actor.
        if isinstance(message, Ready):
            self._ready[member] = time.perf_counter()
        elif isinstance(message, Done):
            self._done[message.firing] = time.perf_counter()
            self.on_answer()
