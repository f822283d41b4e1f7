"""Whole episodes with a trained policy, and their raw returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.envs.spec import EnvSpec, Part
from artos.envs.stepper import Parts, Step, Stepper
from artos.errors import DeadlineExceeded
from artos.specs.reference import Reference

Act = Callable[[Parts], NDArray[Any]]
"""Observations of all environments, by data key, to actions as they are stored."""
Note = Callable[[int, int], None]
"""Called after every step with the number of episodes that are over, and of steps so far."""
See = Callable[[Step | Parts], None]
"""Called with the first observations, and then with every step."""


SEED = 1
"""The seed of evaluations unless another is given: those of all runs begin in the same states."""


@dataclass(frozen=True)
class During:
    """Of which run the policies are, and how far that was: the share that is over, and steps."""

    reference: Reference
    progress: float
    steps: int
    name: str = ""
    """Of its workload."""
    total_steps: int = 0


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Episodes that were played.

    Episode k is the (k // n)-th of environment k % n, which was seeded once with ``seed + k % n``.
    So each of the n environments plays a number of episodes that was fixed beforehand: taking those
    that end first would favour short ones.
    """

    env: str
    seed: int
    greedy: bool
    returns: tuple[float, ...]
    """Undiscounted sums of raw rewards, one for each episode."""
    lengths: tuple[int, ...]
    """In steps, one for each episode."""
    environments: int
    videos: tuple[str, ...] = ()
    """Files, where episodes were filmed."""
    agents: tuple[str, ...] = ()
    """In a game, which agent each episode was of."""

    @property
    def mean_return(self) -> float:
        """Mean of the returns."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns (of these episodes: divided by their number)."""
        return float(np.std(self.returns))

    @property
    def by_agent(self) -> dict[str, float]:
        """Mean return of each agent of a game; empty if there are none."""
        return mean_by_agent(self.agents, self.returns)

    def plain(self) -> dict[str, Any]:
        """Everything as a dict for JSON."""
        return {
            "mean_return": self.mean_return,
            "std": self.std,
            "episodes": len(self.returns),
            "mean_length": float(np.mean(self.lengths)),
            **msgspec.structs.asdict(self),
            "by_agent": self.by_agent,
        }


def mean_by_agent(agents: Sequence[str], returns: Sequence[float]) -> dict[str, float]:
    """Mean return of each agent of a game; empty if episodes are of none."""
    each: dict[str, list[float]] = {}
    for agent, value in zip(agents, returns, strict=False):
        each.setdefault(agent, []).append(value)
    return {agent: float(np.mean(values)) for agent, values in sorted(each.items())}


def play(
    stepper: Stepper, act: Act, episodes: int, seed: int, *, deadline: float, note: Note, see: See
) -> tuple[list[float], list[int]]:
    """Play ``episodes`` whole episodes; returns raw returns and lengths, in the order of episodes.

    Raises:
        DeadlineExceeded: no episode ended for ``deadline`` seconds.
        BadRow: the environment showed NaN or infinity.
    """
    found: dict[int, tuple[float, int]] = {}
    played, steps, since = [0] * stepper.envs, 0, time.monotonic()
    obs = stepper.reset(seed)
    see(obs)
    while len(found) < episodes:
        step = stepper.step(act(obs))
        see(step)
        obs, steps = step.obs, steps + stepper.envs
        if step.ended is not None:
            ends = zip(step.ended.tolist(), *stepper.drain_episodes(), strict=True)
            for env, total, length in ends:
                episode, played[env] = env + played[env] * stepper.envs, played[env] + 1
                if episode < episodes:
                    found[episode], since = (total, length), time.monotonic()
        elif time.monotonic() - since > deadline:
            raise DeadlineExceeded(endless(stepper.spec.name), deadline)
        note(len(found), steps)
    return [found[k][0] for k in range(episodes)], [found[k][1] for k in range(episodes)]


def endless(env: str) -> str:
    """What was waited for where no episode ends, and what to do."""
    return (
        f"the end of an episode of {env}: if it has no time limit, this policy may never end it "
        "(wrap it in gymnasium.wrappers.TimeLimit); if its episodes just take long, give more time"
    )


def misfits(ours: EnvSpec, theirs: EnvSpec) -> Iterator[str]:
    """Why a policy for one environment cannot play in another."""
    mine, other = ({part.name: part for part in spec.parts} for spec in (ours, theirs))
    for name in sorted(mine.keys() | other.keys()):
        if _form(mine.get(name)) != _form(other.get(name)):
            yield f"{theirs.name} shows {_form(other.get(name))} as {name}, {ours.name} showed " + (
                f"{_form(mine.get(name))}: a policy plays in environments like its own"
            )
    kinds = [(a.kind, a.shape, a.sizes) for a in (ours.actions, theirs.actions)]
    if kinds[0] != kinds[1]:
        yield f"{theirs.name} takes actions {kinds[1]}, {ours.name} took {kinds[0]}"


def _form(part: Part | None) -> str:
    if part is None:
        return "nothing"
    return f"{part.dtype}{list(part.value_shape)}" + f" of {part.sizes}" * bool(part.sizes)
