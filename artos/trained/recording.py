"""Records a data set: whole episodes that a run's policy plays, row by row as its actors write."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.actors.agents import AgentsActor
from artos.buffer.part_of_block import stored_name
from artos.buffer.shm_folder import ShmFolder
from artos.errors import DeadlineExceeded, Refused
from artos.runs.data_sets import see_free, write
from artos.specs.contracts import Actor
from artos.specs.keys import AGES_KEY, VALID_KEY, DataKey
from artos.trained.alone import Alone
from artos.trained.evaluation import Note, endless, mean_by_agent
from artos.trained.playing import playing_faults
from artos.trained.record import Record

if TYPE_CHECKING:
    from artos.trained.trained import Trained

REWARDS = "rewards"
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Asked:
    """The arguments of ``Trained.record``."""

    path: Path
    episodes: int
    greedy: bool
    seed: int
    deadline: float

    def faults(self) -> Iterator[str]:
        """Everything that is wrong with it, but for the path."""
        return playing_faults(self.episodes, self.seed, self.deadline)


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A data set that was written."""

    path: str
    rows: int
    """With those that only hold last observations."""
    episodes: int
    """Whole ones; where several policies play, whole games."""
    returns: tuple[float, ...]
    """Sums of rewards as they are stored: one for each episode, or for each agent of a game."""
    agents: tuple[str, ...] = ()
    """Where several policies play, which agent each return is of."""
    keys: tuple[str, ...]

    @property
    def mean_return(self) -> float:
        """Mean of the returns."""
        return float(np.mean(self.returns))

    @property
    def by_agent(self) -> dict[str, float]:
        """Mean return of each agent, where several policies play."""
        return mean_by_agent(self.agents, self.returns)


class Side:
    """What plays beside others in a block, an environment or a game: rows of whole episodes.

    Args:
        at: where its values are in a row, in the first axis of each of these data keys.
        valid: the data keys that say whether rows are transitions, one for each policy that plays.
        agents: those that have rows, policy by policy; none where one policy plays.
    """

    def __init__(
        self, at: Mapping[str, int | slice], valid: Sequence[str], agents: Sequence[str] = ()
    ) -> None:
        self._at, self._valid, self.agents = at, valid, tuple(agents)
        self.episodes: list[Arrays] = []
        """What has been played to its end."""
        self._parts: list[Arrays] = []
        self._plays = False

    def add(self, rows: Arrays) -> None:
        """Cut rows, which follow those before, after the last observation of each episode.

        An agent that is out while others play has rows that are no transitions. Those in which it
        is so for all of its agents, but for their last observation, are left out.
        """
        own = {
            name: array[:, self._at[name]] if name in self._at else array
            for name, array in rows.items()
        }
        plays = np.any([np.atleast_2d(own[key].T).any(0) for key in self._valid], axis=0)
        ages = (own[key.removesuffix(VALID_KEY) + AGES_KEY][0][own[key][0]] for key in self._valid)
        if self._plays and plays[0] and not any(age.any() for age in ages):
            # An actor that begins each round anew, as of groups, has cut what it played before.
            self._parts, self._plays = [], False
        played = np.append(self._plays, plays[:-1])
        self._plays = bool(plays[-1])
        at, ends = 0, np.flatnonzero(played & ~plays) + 1
        for end in ends.tolist():
            self._keep(own, at, played | plays, end)
            self.episodes.append(_joined(self._parts))
            at, self._parts = end, []
        self._keep(own, at, played | plays, len(plays))

    def _keep(self, own: Arrays, at: int, kept: NDArray[np.bool_], end: int) -> None:
        rows = np.flatnonzero(kept[at:end]) + at
        self._parts.append({name: array[rows] for name, array in own.items()})

    def returns(self, episode: Arrays) -> Iterator[tuple[str, float]]:
        """The sum of the rewards of each agent that was there; its name is empty if it has none."""
        names = iter(self.agents)
        for key in self._valid:
            valid = np.atleast_2d(episode[key].T)
            rewards = np.atleast_2d(episode[key.removesuffix(VALID_KEY) + REWARDS].T)
            for there, paid in zip(valid, rewards, strict=True):
                name = next(names, "")
                if there.any():
                    yield name, float(paid[there].sum())


def _sides(actor: Actor, keys: Sequence[DataKey]) -> list[Side]:
    """Each environment of an actor, or each game where several policies play."""
    if not actor.policies:
        each = [key.name for key in keys if key.per_env]
        return [Side(dict.fromkeys(each, env), (VALID_KEY,)) for env in range(actor.envs)]
    assert isinstance(actor, AgentsActor)  # who else has several policies
    valid = [stored_name(policy, VALID_KEY) for policy in actor.policies]
    found, names = [], actor.spec.agent_names
    places = {policy: actor.cast.places(policy, actor.games) for policy in actor.policies}
    for game in range(actor.games):
        at, agents = dict[str, int | slice](), list[str]()
        for policy, part in actor.parts.items():
            count = part.envs // actor.games
            own = slice(game * count, (game + 1) * count)
            at |= {stored_name(policy, key.name): own for key in part.keys if key.per_env}
            agents += [names[row % len(names)] for row in places[policy][own].tolist()]
        found.append(Side(at, valid, agents))
    return found


def record(trained: Trained, found: Record, asked: Asked, note: Note) -> Recorded:
    """Play and write, as ``Trained.record`` describes, and raises, it."""
    if faults := list(asked.faults()):
        raise Refused(faults)
    see_free(asked.path)
    actor: Actor = found.workload().actor
    actor.final_observations = True  # also where the run's learner needed none
    keys = (*actor.data_keys(),)
    fronts = [stored_name(policy, "") for policy in actor.policies] or [""]
    needed = {front + key for front in fronts for key in (REWARDS, VALID_KEY, AGES_KEY)}
    if lacks := needed.difference(key.name for key in keys):
        who, what = type(actor).__name__, ", ".join(sorted(lacks))
        raise Refused([f"{who} does not write {what}: no trigger draws from rows without"])
    sides, bound = _sides(actor, keys), replace(trained.bound, params=trained.params)
    folder = ShmFolder.create("record")
    try:
        at, greedy = folder.path / "actor-0", asked.greedy
        with closing(
            Alone(actor, bound, trained.during, asked.seed, greedy=greedy, at=at)
        ) as alone:
            _play(alone, actor, sides, asked, note)
    finally:
        folder.remove()
    # Episode k is the (k // n)-th of environment k % n, as in an ``Evaluation``.
    order = [divmod(k, len(sides)) for k in range(asked.episodes)]
    episodes = [(sides[side], sides[side].episodes[number]) for number, side in order]
    rows = _joined([episode for _, episode in episodes])
    write(asked.path, rows)
    returns = [each for side, episode in episodes for each in side.returns(episode)]
    return Recorded(
        path=str(asked.path),
        rows=sum(len(episode[fronts[0] + VALID_KEY]) for _, episode in episodes),
        episodes=len(episodes),
        returns=tuple(value for _, value in returns),
        agents=tuple(name for name, _ in returns if name),
        keys=tuple(rows),
    )


def _play(alone: Alone, actor: Actor, sides: Sequence[Side], asked: Asked, note: Note) -> None:
    """Have each play as many episodes as are wanted of it, or more."""
    wanted = [len(range(side, asked.episodes, len(sides))) for side in range(len(sides))]
    over, steps, since = 0, 0, time.monotonic()
    while over < asked.episodes:
        rows = alone.sample()
        played = {key.name: alone.newest(key.name, rows) for key in alone.keys}
        actor.episodes()  # or it keeps count of all
        for side, most in zip(sides, wanted, strict=True):
            if len(side.episodes) < most:
                side.add(played)
        steps += rows * actor.envs
        now = sum(min(len(side.episodes), most) for side, most in zip(sides, wanted, strict=True))
        if now > over:
            over, since = now, time.monotonic()
        elif time.monotonic() - since > asked.deadline:
            raise DeadlineExceeded(endless(actor.env), asked.deadline)
        note(over, steps)


def _joined(parts: Sequence[Arrays]) -> Arrays:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
