"""Tells the triggers which episodes are over, for tables that hand over whole ones."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

from artos.buffer.episode_ends import EpisodeEnds
from artos.buffer.part_of_block import part_of_block, stored_name
from artos.buffer.version_runs import made_by
from artos.errors import EpisodesDoNotFit
from artos.protocol.invocations import Ready
from artos.specs.keys import AGES_KEY
from artos.specs.members import ACTORS, Member
from head.run.coordination.concern import Concern
from head.run.run import Run
from triggers.events import Arrived, Ended, Event, Resumed, Rewound
from triggers.table import Table
from triggers.targets import parsed

_NOT_ENDED = (
    "actor %d begins an episode in row %d, by the key %s, and the one before has no end: such "
    "episodes are given up. Write 0 only in an episode's first row and 1 more in each after it, "
    "and say by terminations or truncations which row is its last one"
)
_log = logging.getLogger(__name__)


class EpisodesOver(Concern[Run]):
    """Looks through new rows, once they are there in all keys, for ends of episodes.

    An episode is in its block until it was learned from, however long that takes. So a run ends
    where an actor waits for room that nobody will ever make.
    """

    def __init__(self, run: Run, table: Table) -> None:
        super().__init__(run)
        rows = {target: each for target, each in table.items() if each.hands_over_episodes}
        self._keys = tuple({key: None for trigger in rows.values() for key in trigger.keys_read()})
        self._policies = {run.plan.policy_of(parsed(target).role): None for target in rows}
        """Whose episodes are handed over; all of an actor's are that of ""."""
        self._arrived: dict[int, dict[str, int]] = {}
        self._ends: dict[int, dict[str, EpisodeEnds]] = {}
        self._begun, self._cut = Counter[int](), Counter[int]()
        """How often each actor's process began, and how many of its episodes had no end."""
        self._told = False

    def ready(self, member: Member, ready: Ready, seconds: float | None) -> None:
        """An actor's process begins: what the one before had begun has no end."""
        if member.role == ACTORS:
            self._begun[member.rank] += 1

    def happened(self, event: Event) -> None:
        """Rows have arrived, were there before, or are void."""
        match event:
            case Arrived(actor=actor, written=written):
                followed, arrived = self._of(actor), self._arrived[actor]
                arrived.update((key, rows) for key, rows in written.items() if key in arrived)
                self._look(actor, followed)
            case Resumed(actor=actor, rows=rows):
                self._begin(actor, rows)
            case Rewound(actor=actor, rows=rows):
                for ends in self._of(actor).values():
                    ends.rewind(rows)
                arrived = self._arrived[actor]
                arrived.update((key, min(there, rows)) for key, there in arrived.items())

    def _look(self, actor: int, followed: Mapping[str, EpisodeEnds]) -> None:
        run, block = self.run, self.run.ports.blocks[actor]
        # Without a transfer rows arrive as they are written, with one in the keys that it ships.
        there = min(run.rounds.written_by(actor), *self._arrived[actor].values())
        for policy, ends in followed.items():
            rows = part_of_block(block, run.plan.parts[policy]) if policy else block
            for env, start, stop, whole in ends.look(rows, there):
                self._cut[actor] += not whole
                if self._cut[actor] > block.spec.envs * self._begun[actor] and not self._told:
                    self._told = True
                    ages = repr(stored_name(policy, AGES_KEY) if policy else AGES_KEY)
                    _log.warning(_NOT_ENDED, actor, stop, ages)
                version, versions = made_by(block, start)  # an actor's versions never go back
                run.feed(Ended(actor, env, start, stop, version, whole, versions, policy))

    def _of(self, actor: int) -> dict[str, EpisodeEnds]:
        return self._ends.get(actor) or self._begin(actor, 0)

    def _begin(self, actor: int, row: int) -> dict[str, EpisodeEnds]:
        self._arrived[actor] = dict.fromkeys(self._keys, row)
        self._ends[actor] = {
            policy: EpisodeEnds(self.run.plan.rows_of(policy).envs, row)
            for policy in self._policies
        }
        return self._ends[actor]

    def tick(self) -> None:
        """See whether actors wait for room in vain.

        Raises:
            EpisodesDoNotFit: an episode is too long for a block, or too many are wanted at once.
        """
        run = self.run
        waiting = [*filter(self._waits, run.actors)]
        for actor in waiting:
            (env, row), policy = min(
                ((ends.longest(), policy) for policy, ends in self._of(actor).items()),
                key=lambda each: each[0][1],
            )
            written = run.rounds.written_by(actor)
            if self._beyond(actor) > row + self._usable(actor):
                raise EpisodesDoNotFit(
                    run.plan.capacity, f"after {written - row} rows an episode of actor {actor} "
                    f"({policy or 'environment'} {env}) is not over"
                )  # fmt: skip
        learners = (learner.member for learner in run.learners.values())
        if len(waiting) == len(run.actors) > 0 and not any(map(run.invocations.of, learners)):
            raise EpisodesDoNotFit(
                run.plan.capacity, "all actors wait for room, and there are fewer whole episodes "
                "than a trigger waits for"
            )  # fmt: skip

    def _waits(self, actor: int) -> bool:
        """Whether the actor has rows to sample and no room for them."""
        rounds = self.run.rounds
        if rounds.granted_to(actor) <= rounds.written_by(actor):
            return False
        released = min(h.released for h in self.run.ports.blocks[actor].headers.values())
        return self._beyond(actor) > released + self._usable(actor)

    def _beyond(self, actor: int) -> int:
        """The row below which there must be room: where actors write, a whole round's."""
        more = self.run.plan.steps if self.run.ports.row_source.in_place else 1
        return self.run.rounds.written_by(actor) + more

    def _usable(self, actor: int) -> int:
        spec = self.run.ports.blocks[actor].spec
        return spec.capacity - spec.history
