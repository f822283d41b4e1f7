"""The actor of games of several agents, each of which acts by the policy that it is given to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.actors.casting import Casting, Past, Player
from artos.actors.context import ActorContext
from artos.actors.rollout import WHOLE_GAMES, RolloutActor
from artos.buffer.actor_block import ActorBlock
from artos.buffer.part_of_block import Part, part_of_block, stored_name
from artos.envs.games import GameRows, Games
from artos.envs.known import KNOWN
from artos.envs.make import ONLY, accepted, factory_of, games_of
from artos.envs.spec import EnvSpec
from artos.errors import Refused
from artos.policies.acting import BoundPolicy, Declared, Seen
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.address import address
from artos.specs.bound import Bound
from artos.specs.contracts import Actor
from artos.specs.keys import MODEL_PARAM, VERSION_KEY, DataKey
from artos.system.random_streams import Purpose, seed_of
from artos.system.snapshot import put_back, taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from artos.policies.build import Policy


class AgentsActor(Actor):
    """Plays games of several agents, in the parallel form of PettingZoo, by several policies.

    ``agents`` says who plays whom: names of agents, or patterns of them (``"adversary_*"``), with
    the names of the policies. The first pattern that fits holds. The policies are called like the
    learners that have their weights, and the first one is that of the first learner. ``policy`` is
    as for a ``RolloutActor``, or one for each policy by name. Agents of one policy must be of the
    same spaces; those of two need not be.

    A row has ``POLICY/KEY`` for each data key of each policy, (rows, *shape) with a row for each of
    the policy's agents of each game: its learner finds it as ``KEY``. ``envs`` counts agents of all
    games, so it is a multiple of their number.

    Who plays as ``Past("self")`` acts by a past version of that policy: ``opponent`` says which one
    in each round, of the last ``history`` that are multiples of ``every``. Its rows are not stored,
    and its episodes are not told. With ``swap`` the policies change places from game to game: in
    the second game the first agent is played by whoever plays the second in the first one.
    """

    kept: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        env: str,
        agents: Mapping[str, Player],
        policy: Policy | Callable[[EnvSpec], Any] | Mapping[str, Any] | None = None,
        envs: int = 4,
        *,
        clip_rewards: bool | None = None,
        env_args: Mapping[str, Any] | None = None,
        reads: Sequence[str] = (),
        history: int = 0,
        every: int = 1,
        swap: bool = False,
    ) -> None:
        self.env = self.asked = address(env, env_args or {})
        self.agents, self.policy, self.envs = agents, policy, envs
        self.clip_rewards, self.swap = clip_rewards, swap
        self.history, self.every = history, every
        names = [each for each in agents.values() if isinstance(each, str)]
        self.policies = tuple(dict.fromkeys(names))
        """The policies that are learned, by the names of their learners."""
        self.reads = (*(f"{name}/{MODEL_PARAM}" for name in self.policies[1:]), *reads)
        past = [each.policy for each in agents.values() if isinstance(each, Past)]
        self.past_of = tuple(name for name in self.policies[1:] if name in past)
        self._spec: EnvSpec | None = None
        self._made: dict[Player, Seat] | None = None
        self._ahead: Games | None = None
        self.rows_ended: tuple[int, ...] = ()
        """In which row of the games each of the episodes last told was."""
        self._resumed: dict[str, int] = {}
        """The past versions of a snapshot, which the next ``bind`` is to go on with, by policy."""

    # -- registration --------------------------------------------------------------------------

    @property
    def spec(self) -> EnvSpec:  # type: ignore[override]  # found out when it is asked for
        """Facts about the game as the first policy sees it, and in ``seats`` as each does.

        Raises:
            Refused: there is no such game, or an agent that no policy plays; lists all faults.
        """
        if self._spec is not None:
            return self._spec
        names = agents_of(self.env)  # also if it is known: whether it is a game
        if self.env in KNOWN:
            self.adopt(KNOWN[self.env])
        else:
            cast = Casting(names, self.agents, self.swap)
            if faults := [*cast.faults(self.policies, self.history)]:
                raise Refused([f"environment {self.env}: {fault}" for fault in faults])
            seats = {name: Seat(self, name, cast.played_by(name)).spec for name in self.policies}
            if self.swap:
                _require_alike(self.env, len(names))
            self._spec = msgspec.structs.replace(
                seats[self.policies[0]], name=self.env, agents=len(names), agent_names=names,
                unlike=next((each.unlike for each in seats.values() if each.unlike), ""),
                seats=seats,
            )  # fmt: skip
        assert self._spec is not None
        return self._spec

    def adopt(self, facts: Any) -> None:
        """Take the game's facts from a plan instead of making a game."""
        self._spec = msgspec.convert(facts, EnvSpec, strict=False)

    def seat(self, learner: str) -> Actor:
        """The part of it that acts by the policy of this learner; all of it for other learners."""
        return self._seats[learner] if learner in self.policies else self

    @property
    def cast(self) -> Casting:
        """Who plays which agents."""
        return Casting(self.spec.agent_names, self.agents, self.swap)

    @property
    def _seats(self) -> dict[Player, Seat]:
        """Everyone who plays, from the first policy on."""
        if self._made is None:
            cast = self.cast
            self._made = {who: Seat(self, who, cast.played_by(who)) for who in cast.players}
        return self._made

    @property
    def games(self) -> int:
        """How many are played side by side."""
        return self.envs // len(self.spec.agent_names)

    @property
    def declared(self) -> Declared:  # type: ignore[override]  # as above
        """What the first policy adds to its rows."""
        return self._seats[self.policies[0]].declared

    def data_keys(self) -> Sequence[DataKey]:
        """``POLICY/KEY`` for every key of every policy."""
        return [key for part in self.parts.values() for key in part.stored]

    @property
    def parts(self) -> dict[str, Part]:  # type: ignore[override]  # found out when asked for
        """The rows of each policy, by its name.

        Raises:
            Refused: ``envs`` is no multiple of the agents.
        """
        count = len(self.spec.agent_names)
        if self.envs % count:
            raise Refused([WHOLE_GAMES.format(self.env, count, self.envs)])
        return {
            name: Part.of(
                name,
                tuple(self._seats[name].data_keys()),
                self._seats[name].envs,
                tuple(key.name for key in self._seats[name].declared.state),
                first=name == self.policies[0],
            )
            for name in self.policies
        }

    def keys(self, policy: str) -> tuple[str, ...]:
        """What a table calls the data keys of a policy's rows, e.g. for its ``DataKeyTrigger``."""
        part = self.parts[policy]
        return tuple(stored_name(policy, key.name) for key in part.keys)

    def build_module(self, seed: int) -> Any:
        """The network of the first policy."""
        return self._seats[self.policies[0]].build_module(seed)

    def make_policy(self, module: Any, seed: int) -> BoundPolicy:
        """The first policy."""
        return self._seats[self.policies[0]].make_policy(module, seed)

    def faults(self, module: Any) -> list[str]:
        """Everything that is wrong with the networks of all policies."""
        first, *others = self.policies
        found = self._seats[first].faults(module)
        for name in others:
            found += self._seats[name].faults(self._seats[name].build_module(0))
        return found

    def seen(self, module: Any) -> Seen:
        """How the network of the first policy takes observations."""
        return self._seats[self.policies[0]].seen(module)

    # -- running -------------------------------------------------------------------------------

    def prepare(self, plan: Plan, *, environments: bool = True) -> None:
        """Do early what is the same for every actor: imports, the networks, the games."""
        for seat in self._seats.values():
            seat.build_ahead(plan.seed)
        takes_seed = accepted(factory_of(self.env), {"seed": 0})
        if environments and not self.spec.unlike and not takes_seed:
            self._ahead = games_of(self.env, self.games)
        else:
            games_of(self.env, 1, plan.seed).close()

    def setup(self, context: ActorContext) -> None:
        """Become the actor of ``context``: each policy has its agents' rows."""
        self._block: ActorBlock = context.block
        self._random = np.random.default_rng(seed_of(context.seed, Purpose.CHOICES))
        games, self._ahead = self._ahead or games_of(self.env, self.games, context.seed), None
        self.version, parts, cast = -1, self.parts, self.cast
        for number, (who, seat) in enumerate(self._seats.items()):
            block = part_of_block(context.block, parts[who]) if who in parts else context.block
            at = cast.places(who, self.games)
            seat.sit(GameRows(seat.env, games, seat.names, at=at, leads=not number), at)
            seat.setup(replace(context, block=block, seed=context.seed + number))
        self._versions = context.block.arrays[VERSION_KEY]

    def bind(self, params: NDArray[np.float32], version: int) -> None:
        """Have all policies act with these versions, and choose the past ones that are played."""
        self.version, bound = version, self.bound
        resumed, self._resumed = self._resumed, {}
        for who, seat in self._seats.items():
            if isinstance(who, Past):
                first = who.policy == self.policies[0]
                pasts = bound.versions_of("" if first else who.policy)
                met = (past for past in pasts if past.version == resumed.get(who.policy))
                seat.bound = next(met, None) or self.opponent(who.policy, pasts)
                assert seat.bound.params is not None  # in a run they are there
                seat.bind(seat.bound.params, seat.bound.version)
            elif who == self.policies[0]:
                seat.bound = bound
                seat.bind(params, version)
            else:
                seat.bound = bound
                seat.bind(bound.objects[f"{who}/{MODEL_PARAM}"], bound.versions[who])

    def opponent(self, policy: str, pasts: Sequence[Bound]) -> Bound:
        """The version that plays as ``Past(policy)`` in a round: any of the ``pasts``.

        They are from the newest on; while there is none, the version that is learned is the only
        one. Called with each ``bind``; override it for a league of your own.
        """
        return pasts[int(self._random.integers(len(pasts)))]

    @property
    def step_number(self) -> int:  # type: ignore[override]  # games that raise tell it, too
        """The step being sampled."""
        return self._seats[self.policies[0]].step_number

    def sample(self, start: int, rows: int, call: Invoke) -> dict[str, float]:
        """Write ``rows`` rows from step ``start`` in place; returns seconds spent by kind."""
        clock, capacity, seats = time.perf_counter, self._block.spec.capacity, self._seats.values()
        inference = environment = 0.0
        for seat in seats:
            seat.begin(call)
        for step in range(start, start + rows):
            row, begun = step % capacity, clock()
            acts = [seat.act(row) for seat in seats]
            decided = clock()
            for seat, actions in zip(seats, acts, strict=True):
                seat.offer(actions)
            for seat, actions in zip(seats, acts, strict=True):
                seat.advance(step, row, actions)
            self._versions[row] = self.version
            environment += clock() - decided
            inference += decided - begun
        for seat in seats:
            seat.end_round(row)
        return {"environment": environment, "inference": inference}

    def episodes(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Returns and lengths of the episodes of agents that are learned from."""
        told, seats = [seat.episodes() for seat in self._seats.values()], [*self._seats.values()]
        of = len(self.policies)  # a past version's are drained and left out
        numbers = (seat.begun or (0,) * len(seat.rows_ended) for seat in seats[:of])
        self.begun = tuple(chain(*numbers))
        self.rows_ended = tuple(chain(*(seat.rows_ended for seat in seats[:of])))
        self.agents_ended = tuple(row % len(self.spec.agent_names) for row in self.rows_ended)
        returns, lengths = zip(*told[:of], strict=True)
        return tuple(chain(*returns)), tuple(chain(*lengths))

    def close(self) -> None:
        """Close the games."""
        for seat in self._seats.values():
            seat.close()

    def snapshot(self) -> dict[str, Any]:
        """What the policies hold, the games that they share, and what a subclass has ``kept``."""
        own = {name: taken(getattr(self, name)) for name in self.kept}
        seats = [taken(seat) for seat in self._seats.values()]
        met = {who.policy: self._seats[who].bound.version for who in self.cast.pasts}
        return {"seats": seats, "random": self._random, "own": own, "met": met}

    def go_on(self, found: dict[str, Any]) -> None:
        """Go on from a ``snapshot``."""
        self._random = found["random"]
        self._resumed = found.get("met", {})
        for name, held in found["own"].items():
            setattr(self, name, held)
        for seat, held in zip(self._seats.values(), found["seats"], strict=True):
            put_back(seat, held)


def agents_of(env: str) -> tuple[str, ...]:
    """The names of a game's agents, in its order.

    Raises:
        Refused: there is no such game.
    """
    known = msgspec.convert(KNOWN[env], EnvSpec, strict=False) if env in KNOWN else None
    if known is not None and known.agent_names:
        return tuple(known.agent_names)
    games = games_of(env, 1)
    games.close()
    return tuple(map(str, games.agents))


class Seat(RolloutActor):
    """The agents of one policy, which step together with those of the others."""

    def __init__(self, whole: AgentsActor, who: Player, names: Sequence[str]) -> None:
        policy, name = whole.policy, who.policy if isinstance(who, Past) else who
        if isinstance(policy, Mapping):
            policy = policy.get(name)
        self._whole_actor, self.names, self._who = whole, tuple(names), who
        env = address(whole.env, {ONLY: list(names)})
        super().__init__(env, policy, 1, clip_rewards=whole.clip_rewards)
        if isinstance(who, str) and whole._spec is not None:
            self._spec = whole._spec.seats[name]

    @property
    def spec(self) -> EnvSpec:  # type: ignore[override]  # as that of the policy that it plays
        """Facts about the game as its agents see it."""
        if isinstance(self._who, Past):
            return self._whole_actor._seats[self._who.policy].spec
        return super().spec

    @property
    def envs(self) -> int:  # follows that of the whole
        """Its agents, of all games."""
        whole = self._whole_actor
        known = whole._spec.agent_names if whole._spec is not None else ()
        return whole.envs // len(known) * len(self.names) if known else len(self.names)

    @envs.setter
    def envs(self, value: int) -> None:
        """It follows from those of the whole."""

    @property
    def final_observations(self) -> bool:  # as the whole
        """Whether an episode's last observation is to have a row."""
        return self._whole_actor.final_observations

    @final_observations.setter
    def final_observations(self, value: bool) -> None:
        """It is set of the whole."""

    @property
    def stores_ages(self) -> bool:  # type: ignore[override]  # as the whole
        """Whether rows are to have ``ages``."""
        return self._whole_actor.stores_ages

    def build_ahead(self, seed: int) -> None:
        """Build the network before it is known which actor this is."""
        self._module = self.build_module(seed)

    def sit(self, rows: GameRows, at: NDArray[np.int64]) -> None:
        """Take these rows of the games."""
        self._vector = rows
        self._rows, self._at = rows, at

    def _arrays(self, block: ActorBlock) -> Mapping[str, NDArray[Any]]:
        if isinstance(self._who, Past):  # nobody learns of what it does
            return {VERSION_KEY: block.arrays[VERSION_KEY]}
        return block.arrays

    @property
    def rows_ended(self) -> tuple[int, ...]:
        """In which row of the games each of the episodes last told was."""
        return tuple(int(self._at[row]) for row in self._stepper.rows)

    def begin(self, call: Invoke) -> None:
        """A round begins."""
        self._info.progress, self._info.steps = call.progress, call.steps
        if call.configuration != self._configured:
            self._configure(call)

    def act(self, row: int) -> NDArray[Any]:
        """Write what is seen and chosen; returns the actions."""
        self._show(row)
        output = self._policy.act(self._observations, self._info)
        self._choose(row, output)
        return output["actions"]

    def offer(self, actions: NDArray[Any]) -> None:
        """Say what its agents do, before the games are stepped."""
        self._rows.offer(self._stepper.to_env(actions))

    def advance(self, step: int, row: int, actions: NDArray[Any]) -> None:
        """Step the games, or take over what came of it."""
        self._stepper.step_number = step
        self._advance(row, actions)

    def end_round(self, row: int) -> None:
        """Bootstrap what goes on."""
        self._end_round(row)


def _require_alike(env: str, agents: int) -> None:
    try:
        RolloutActor(env, envs=agents).spec  # noqa: B018  # refused if their spaces differ
    except Refused as refused:
        fault = refused.faults[0]
        raise Refused([f"swap has every agent played by every policy: {fault}"]) from refused
