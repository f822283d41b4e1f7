"""Evaluates a trained policy: makes the environments, plays, and sums up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from artos.actors.recurrent_state import RecurrentState
from artos.envs.make import AnyVectorEnv, make_vector
from artos.envs.spec import EnvSpec
from artos.envs.stepper import Parts, Stepper
from artos.errors import Refused
from artos.policies.acting import ActInfo, BoundPolicy
from artos.specs.bound import Bound
from artos.specs.keys import DataKey
from artos.trained.evaluation import Evaluation, Note, See, misfits, play

if TYPE_CHECKING:
    from artos.envs.film import Studio


class Player(Protocol):
    """A policy to play with: ``Trained``, or the evaluator of a run."""

    spec: EnvSpec

    @property
    def environments(self) -> int:
        """How many environments are played side by side."""

    @property
    def memory(self) -> tuple[DataKey, ...]:
        """The recurrent state that the policy keeps of each environment; empty if it has none."""

    @property
    def progress(self) -> float:
        """The share of the run's budget that was used, 0 to 1."""

    @property
    def steps(self) -> int:
        """Environment steps that its weights are made of."""

    @property
    def bound(self) -> Bound:
        """Its weights, and the objects that actors read with them."""

    def policy(self, seed: int) -> BoundPolicy:
        """The policy with these weights; ``seed`` is for sampling."""


@dataclass(frozen=True)
class Wanted:
    """The arguments of ``Trained.evaluate``: which episodes are to be played."""

    episodes: int
    greedy: bool
    seed: int
    env: str
    video: Path | None
    deadline: float

    def faults(self) -> Iterator[str]:
        """Everything that is wrong with it."""
        return playing_faults(self.episodes, self.seed, self.deadline)


def playing_faults(episodes: int, seed: int, deadline: float) -> Iterator[str]:
    """What is wrong with how many episodes are to be played, and how."""
    if episodes < 1:
        yield f"episodes must be at least 1, not {episodes}"
    if seed < 0:
        yield f"seed must not be negative, but is {seed}"
    if not deadline > 0:
        yield f"deadline must be positive, not {deadline:g}"


def evaluate(player: Player, wanted: Wanted, note: Note) -> Evaluation:
    """Play whole episodes, as ``Trained.evaluate`` describes, and raises, it."""
    if faults := list(wanted.faults()):
        raise Refused(faults)
    envs = player.environments
    studio: Studio | None = None
    if wanted.video is not None:
        from artos.envs import film  # noqa: PLC0415

        try:
            wanted.video.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused([f"video folder {wanted.video}: {error.strerror}"]) from error
        studio = film.Studio(wanted.video, wanted.episodes, envs)
    with _stage(player, wanted, studio) as (stepper, see):
        policy, memory = player.policy(wanted.seed), RecurrentState(player.memory, stepper.envs)
        info = ActInfo(
            progress=player.progress,
            steps=player.steps,
            greedy=wanted.greedy,
            state=memory.arrays,
            bound=player.bound,
            learned_from=False,
        )

        def act(obs: Parts) -> NDArray[Any]:
            memory.begin(stepper.ages)
            acted = policy.act(obs, info)
            memory.take(acted)
            return np.asarray(acted["actions"])

        names = stepper.spec.agent_names
        agents = tuple(names[k % envs % len(names)] for k in range(wanted.episodes) if names)
        deadline = wanted.deadline
        returns, lengths = play(
            stepper, act, wanted.episodes, wanted.seed, deadline=deadline, note=note, see=see
        )
    return Evaluation(
        env=wanted.env,
        seed=wanted.seed,
        greedy=wanted.greedy,
        returns=tuple(returns),
        lengths=tuple(lengths),
        environments=envs,
        agents=agents,
        videos=tuple(sorted(studio.written)) if studio else (),
    )


@contextmanager
def _stage(player: Player, wanted: Wanted, studio: Studio | None) -> Iterator[tuple[Stepper, See]]:
    """The environments, as actors step them, and filmed if there is a studio; closed at the end."""
    vector: AnyVectorEnv
    if studio is None:
        vector = make_vector(wanted.env, player.environments, wanted.seed)
        see: See = lambda seen: None  # noqa: E731
    else:
        from artos.envs.film import filmed  # noqa: PLC0415

        vector, see = filmed(wanted.env, wanted.seed, player.spec, studio, player.environments)
    try:
        stepper = Stepper(vector, wanted.env, masked=player.spec.masked == "info")
        if faults := list(misfits(player.spec, stepper.spec)):
            raise Refused(faults)
        yield stepper, see
    finally:
        vector.close()
