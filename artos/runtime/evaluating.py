"""The evaluator of a run: plays whole episodes greedily with the weights that it is handed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from artos.buffer.binding import bound_of
from artos.buffer.object_region import ObjectRegion
from artos.envs.spec import EnvSpec
from artos.policies.acting import BoundPolicy
from artos.protocol.invocations import Done, Invoke
from artos.runs.loader import user_imports
from artos.runs.plan import Plan
from artos.specs.bound import Bound
from artos.specs.contracts import Actor
from artos.specs.keys import PARAMS, DataKey
from artos.system.random_streams import Purpose, seed_of
from artos.trained.evaluation import SEED, During, Evaluation, Note
from artos.trained.playing import Wanted, evaluate

_PATIENCE = 0.9
"""Share of the run's deadline: it says why no episode ends before it is killed for silence."""


class EvaluatorRole:
    """Plays as ``artos eval`` does, with the same seeds each time; a ``Player``.

    ``handed`` holds the weights to be played, ``episode_over`` is called after each episode. The
    environments are made again for each evaluation, so the last one leaves no trace in them.
    """

    def __init__(
        self, actor: Actor, plan: Plan, handed: ObjectRegion, episode_over: Callable[[], None]
    ) -> None:
        self._actor, self._plan, self._handed = actor, plan, handed
        self._episode_over = episode_over
        assert actor.spec is not None  # or registration would have refused to evaluate it
        self.spec: EnvSpec = actor.spec
        self.progress, self.steps, self._told = 0.0, 0, 0
        self._module = actor.build_module(plan.seed)

    @property
    def environments(self) -> int:
        """As many as an actor has."""
        return self._actor.envs

    @property
    def memory(self) -> tuple[DataKey, ...]:
        """The recurrent state that the policy keeps of each environment."""
        declared = self._actor.declared
        return declared.state if declared else ()

    @property
    def bound(self) -> Bound:
        """The weights that were handed over, and the objects that actors read with them.

        These have no past: where it is asked for, they stand for it.
        """
        actor = self._actor
        pasts_of: dict[str, tuple[Bound, ...]] = dict.fromkeys(actor.past_of, ())
        return replace(bound_of(self._handed.newest), history=actor.history, pasts_of=pasts_of)

    def policy(self, seed: int) -> BoundPolicy:
        """What actors act with, with the weights that were handed over."""
        policy = self._actor.make_policy(self._module, seed_of(seed, Purpose.POLICY))
        policy.bind(np.copy(self._handed.newest.arrays[PARAMS]))
        return policy

    def step(self) -> int:
        """The version that was handed over last."""
        return self._handed.version

    def close(self) -> None:
        """Nothing to close: environments live as long as an evaluation."""

    def snapshot(self) -> dict[str, Any]:
        """Nothing: each evaluation begins from nothing."""
        return {}

    def go_on(self, found: dict[str, Any]) -> None:
        """Do nothing: see ``snapshot``."""

    def _played(self, wanted: Wanted, note: Note) -> Evaluation:
        """Episodes; of a game of several policies those of the agents of the first one."""
        if not (policies := self._actor.policies):
            return evaluate(self, wanted, note)
        from artos.trained.agents import play_agents  # noqa: PLC0415  # few runs play games

        plan = self._plan
        during = During(plan.reference, self.progress, self.steps, plan.name, plan.total_steps)
        return play_agents(self._actor, self.bound, during, wanted, note, policies[:1])

    def run(self, call: Invoke) -> Done:
        """Play the episodes.

        Raises:
            DeadlineExceeded: no episode ended for nearly the run's deadline.
        """
        began, version = time.perf_counter(), self._handed.version
        self.progress, self.steps = call.progress, call.steps
        wanted = Wanted(
            self._plan.evaluation_episodes,
            greedy=True,
            seed=SEED,
            env=self.spec.name,
            video=None,
            deadline=_PATIENCE * self._plan.deadline,
        )

        def note(episodes: int, steps: int) -> None:
            del steps
            if episodes != self._told:
                self._told = episodes
                self._episode_over()

        self._told = 0
        with user_imports(self._plan.reference.folder):
            played = self._played(wanted, note)
        seconds = time.perf_counter() - began
        return Done(
            call.firing,
            version,
            times={"play": seconds},
            returns=played.returns,
            lengths=played.lengths,
            seconds=seconds,
        )
