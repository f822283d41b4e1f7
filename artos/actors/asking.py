"""The actor of central inference: a server has the network, and the actor steps meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from numpy.typing import NDArray

from artos.actors.context import ActorContext
from artos.actors.rollout import RolloutActor
from artos.buffer.actor_block import ActorBlock
from artos.envs.ahead import make_ahead
from artos.envs.make import open_vector
from artos.policies.acting import BoundPolicy
from artos.policies.asked import AskedPolicy
from artos.policies.inference import Inference
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.keys import VERSION_KEY
from artos.specs.servers import Server
from artos.system.snapshot import put_back, taken

INFERENCE = "inference"


class AskingActor(RolloutActor):
    """A ``RolloutActor`` whose policy a server of the run evaluates for many actors at once.

    ``splits`` divides its environments into so many parts, each with a seat at the server: while
    one waits for its answer another one steps (double-buffered sampling, Petrenko et al. 2020). A
    row holds all parts, and the oldest version that acted in it. The environments and their seeds
    are those of an actor that acts by itself.

    The server is ``server``, or the one named ``inference`` in the workload's ``servers``. Where
    there is none, as where a data set is recorded, it acts by itself. Rows that are answered by no
    weights (``reads_weights``) have the version of the round.
    """

    shares_slots = True
    _parts: Sequence[_Part] = ()

    def __init__(
        self, *given: Any, splits: int = 1, server: Server | None = None, **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self.splits = splits
        self._server = server
        self._ahead: list[Any] = []

    @property
    def servers(self) -> Mapping[str, Server]:  # type: ignore[override]  # made when asked for
        """The one that answers."""
        return {INFERENCE: self._server or Inference()}

    def prepare(self, plan: Plan, *, environments: bool = True) -> None:
        """Do early what is the same for every actor; see ``RolloutActor``."""
        self._module = self.build_module(plan.seed)
        if environments and not self.spec.unlike:
            share = self.envs // self.splits
            self._ahead = [make_ahead(self.env, share, self._autoreset) for _ in range(self.splits)]
        else:
            open_vector(self.env, 1, plan.seed, self._autoreset).close()

    def setup(self, context: ActorContext) -> None:
        """Become the actor of ``context``: each part has its share of the environments."""
        if INFERENCE not in context.desks:
            super().setup(context)
            return
        self._block: ActorBlock = context.block
        share = self.envs // self.splits
        self.version = -1
        self._parts = [_Part(self, number, share) for number in range(self.splits)]
        for part in self._parts:
            part.setup(replace(context, seed=context.seed + part.first))
        self._versions = context.block.arrays[VERSION_KEY]

    def bind(self, params: NDArray[Any], version: int) -> None:
        """Answers will be of this version, or of a later one."""
        if self._parts:
            self.version = version
        else:
            super().bind(params, version)

    @property
    def step_number(self) -> int:  # type: ignore[override]  # environments that raise tell it, too
        """The step being sampled."""
        return self._parts[0].step_number if self._parts else super().step_number

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Write ``rows`` rows from step ``start`` in place; returns seconds spent by kind.

        Time waited for answers counts as ``inference``.
        """
        if not self._parts:
            return super().sample(start, rows, call)
        clock, capacity, stop = time.perf_counter, self._block.spec.capacity, start + rows
        inference = environment = 0.0
        parts = self._parts
        for part in parts:
            part.begin(call)
            part.ask(start % capacity)
        for step in range(start, stop):
            row = step % capacity
            for part in parts:
                begun = clock()
                actions = part.take(row)
                decided = clock()
                part.advance(step, row, actions)
                if step + 1 < stop:
                    part.ask((step + 1) % capacity)
                environment += clock() - decided
                inference += decided - begun
                if step + 1 == stop:  # before another one steps: it may write into what was seen
                    part.end_round(row)
            self._versions[row] = self.version = min(part.version for part in parts)
        return {"environment": environment, "inference": inference}

    def episodes(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Returns and lengths of the episodes that ended since the last call."""
        if not self._parts:
            return super().episodes()
        returns, lengths = zip(*(part.episodes() for part in self._parts), strict=True)
        self.begun = tuple(chain(*(part.begun for part in self._parts)))
        self.agents_ended = tuple(chain(*(part.agents_ended for part in self._parts)))
        return tuple(chain(*returns)), tuple(chain(*lengths))

    def close(self) -> None:
        """Close the environments."""
        for part in self._parts:
            part.close()
        if not self._parts:
            super().close()

    def snapshot(self) -> dict[str, Any]:
        """What its parts hold."""
        return {"parts": [taken(part) for part in self._parts]}

    def go_on(self, found: dict[str, Any]) -> None:
        """Go on from a ``snapshot``."""
        for part, held in zip(self._parts, found["parts"], strict=True):
            put_back(part, held)


class _Part(RolloutActor):
    """Some of an actor's environments, from ``first`` on, which are asked for together."""

    def __init__(self, whole: AskingActor, number: int, envs: int) -> None:
        super().__init__(
            whole.env, whole.policy, envs, clip_rewards=whole.clip_rewards,
            terminal_lives=whole.terminal_lives, final_observations=whole.final_observations,
        )  # fmt: skip
        self._whole_actor, self._number, self.first = whole, number, number * envs
        self.stores_ages = whole.stores_ages
        self._spec, self._declared = whole.spec, whole.declared
        if whole._ahead:
            self._vector = whole._ahead[number]

    def build_module(self, seed: int) -> Any:
        """As the actor does: each part draws with a module of its own."""
        return self._whole_actor.build_module(seed)

    def make_policy(self, module: Any, seed: int) -> BoundPolicy:
        """As the actor does, and with the answers of its server."""
        own: Any = self._whole_actor.make_policy(module, seed)
        return AskedPolicy(self._desk, own)

    def setup(self, context: ActorContext) -> None:
        """Become this part of the actor of ``context``."""
        self._desk = context.desks[INFERENCE][self._number]
        super().setup(context)
        self._asked: AskedPolicy = self._policy  # type: ignore[assignment]  # made above

    def _arrays(self, block: ActorBlock) -> Mapping[str, NDArray[Any]]:
        at = slice(self.first, self.first + self.envs)
        each = {key.name for key in block.spec.all_keys if key.per_env}
        return {
            name: array[:, at] if name in each else array for name, array in block.arrays.items()
        }

    def begin(self, call: Invoke) -> None:
        """A round begins."""
        self._info.progress, self._info.steps = call.progress, call.steps
        if call.configuration != self._configured:
            self._configure(call)

    def ask(self, row: int) -> None:
        """Write what is seen, and send it off."""
        self._show(row)
        self._asked.ask(self._observations, self._info)

    def take(self, row: int) -> NDArray[Any]:
        """Write what was chosen by the answer; returns the actions."""
        output = self._asked.take(self._info)
        # Who answers by no weights says no version: it is that with which the round began.
        by = self._desk.version
        self.version = by if by >= 0 else self._whole_actor.version
        self._choose(row, output)
        return output["actions"]

    def advance(self, step: int, row: int, actions: NDArray[Any]) -> None:
        """Step the environments."""
        self._stepper.step_number = step
        self._advance(row, actions)

    def end_round(self, row: int) -> None:
        """Bootstrap what goes on."""
        self._end_round(row)
