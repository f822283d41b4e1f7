"""Evaluates a trained policy: from the environments made to the evaluation."""

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
from artos.spec import DataKey
from artos.trained.evaluation import Act, Evaluation, Note, See, misfits, play

if TYPE_CHECKING:
    from artos.envs.film import Studio


class Player(Protocol):
    """Who plays: ``Trained``, or the evaluator of a run."""

    spec: EnvSpec

    @property
    def environments(self) -> int:
        """How many environments are played side by side."""

    @property
    def memory(self) -> tuple[DataKey, ...]:
        """See ``Trained.memory``."""

    @property
    def progress(self) -> float:
        """See ``Trained.progress``."""

    @property
    def steps(self) -> int:
        """See ``Trained.steps``."""

    def policy(self, seed: int) -> BoundPolicy:
        """See ``Trained.policy``."""


@dataclass(frozen=True)
class Wanted:
    """What is to be played, see ``Trained.evaluate``."""

    episodes: int
    greedy: bool
    seed: int
    env: str
    video: Path | None
    deadline: float

    def faults(self) -> Iterator[str]:
        """Everything that is wrong with it, in words."""
        if self.episodes < 1:
            yield f"episodes must be at least 1, not {self.episodes}"
        if self.seed < 0:
            yield f"seed must not be negative, but is {self.seed}"
        if not self.deadline > 0:
            yield f"deadline must be positive, not {self.deadline:g}"


def evaluate(player: Player, wanted: Wanted, note: Note) -> Evaluation:
    """See ``Trained.evaluate``."""
    if faults := list(wanted.faults()):
        raise Refused(faults)
    envs, studio = player.environments, _studio(wanted, player.environments)
    with _stage(player, wanted, studio) as (stepper, see):
        returns, lengths = play(
            stepper,
            _acting(player, wanted, stepper),
            wanted.episodes,
            wanted.seed,
            deadline=wanted.deadline,
            note=note,
            see=see,
        )
    return Evaluation(
        env=wanted.env,
        seed=wanted.seed,
        greedy=wanted.greedy,
        returns=tuple(returns),
        lengths=tuple(lengths),
        environments=envs,
        videos=tuple(sorted(studio.written)) if studio else (),
    )


def _acting(player: Player, wanted: Wanted, stepper: Stepper) -> Act:
    policy, memory = player.policy(wanted.seed), RecurrentState(player.memory, stepper.envs)
    info = ActInfo(
        progress=player.progress,
        steps=player.steps,
        greedy=wanted.greedy,
        state=memory.arrays,
    )

    def act(obs: Parts) -> NDArray[Any]:
        memory.begin(stepper.ages)
        acted = policy.act(obs, info)
        memory.take(acted)
        return np.asarray(acted["actions"])

    return act


def _studio(wanted: Wanted, envs: int) -> Studio | None:
    if wanted.video is None:
        return None
    from artos.envs.film import Studio  # noqa: PLC0415

    try:
        wanted.video.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused([f"video folder {wanted.video}: {error.strerror}"]) from error
    return Studio(wanted.video, wanted.episodes, envs)


@contextmanager
def _stage(player: Player, wanted: Wanted, studio: Studio | None) -> Iterator[tuple[Stepper, See]]:
    """The environments, as actors step them; they are closed at the end."""
    vector, see = _made(player, wanted, studio)
    try:
        stepper = Stepper(vector, wanted.env, masked=player.spec.masked == "info")
        if faults := list(misfits(player.spec, stepper.spec)):
            raise Refused(faults)
        yield stepper, see
    finally:
        vector.close()


def _made(player: Player, wanted: Wanted, studio: Studio | None) -> tuple[AnyVectorEnv, See]:
    if studio is None:
        return make_vector(wanted.env, player.environments, wanted.seed), lambda seen: None
    from artos.envs.film import filmed  # noqa: PLC0415

    return filmed(wanted.env, wanted.seed, player.spec, studio, player.environments)
