"""Tells the triggers which episodes are over, for tables that hand over whole ones."""

from __future__ import annotations

from artos.buffer.episode_ends import EpisodeEnds
from artos.buffer.version_runs import made_by
from artos.errors import EpisodesDoNotFit
from head.run.coordination.concern import Concern
from head.run.run import Run
from triggers.events import Arrived, Ended, Event, Resumed, Rewound
from triggers.table import Table


class EpisodesOver(Concern[Run]):
    """Looks through new rows, once they are there in all keys, for ends of episodes.

    An episode is in its block until it was learned from, however long that takes. So a run ends
    where an actor waits for room that nobody will ever make.
    """

    def __init__(self, run: Run, table: Table) -> None:
        super().__init__(run)
        triggers = [trigger for trigger in table.values() if trigger.hands_over_episodes]
        self._keys = tuple({key: None for trigger in triggers for key in trigger.keys_read()})
        self._arrived: dict[int, dict[str, int]] = {}
        self._ends: dict[int, EpisodeEnds] = {}

    def happened(self, event: Event) -> None:
        """Rows have arrived, were there before, or are void."""
        match event:
            case Arrived(actor=actor, written=written):
                ends, arrived = self._of(actor), self._arrived[actor]
                arrived.update((key, rows) for key, rows in written.items() if key in arrived)
                self._look(actor, ends)
            case Resumed(actor=actor, rows=rows):
                self._begin(actor, rows)
            case Rewound(actor=actor, rows=rows):
                self._of(actor).rewind(rows)
                arrived = self._arrived[actor]
                arrived.update((key, min(there, rows)) for key, there in arrived.items())

    def _look(self, actor: int, ends: EpisodeEnds) -> None:
        run, block = self.run, self.run.ports.blocks[actor]
        # Without a transfer rows arrive as they are written, with one in the keys that it ships.
        there = min(run.rounds.written_by(actor), *self._arrived[actor].values())
        for env, start, stop, whole in ends.look(block, there):
            version, versions = made_by(block, start)  # an actor's versions never go back
            run.feed(Ended(actor, env, start, stop, version, whole, versions))

    def _of(self, actor: int) -> EpisodeEnds:
        return self._ends.get(actor) or self._begin(actor, 0)

    def _begin(self, actor: int, row: int) -> EpisodeEnds:
        self._arrived[actor] = dict.fromkeys(self._keys, row)
        self._ends[actor] = EpisodeEnds(self.run.plan.envs, row)
        return self._ends[actor]

    def tick(self) -> None:
        """See whether actors wait for room in vain.

        Raises:
            EpisodesDoNotFit: an episode is too long for a block, or too many are wanted at once.
        """
        run = self.run
        waiting = [*filter(self._waits, run.actors)]
        for actor in waiting:
            env, row = self._of(actor).longest()
            written = run.rounds.written_by(actor)
            if self._beyond(actor) > row + self._usable(actor):
                raise EpisodesDoNotFit(
                    run.plan.capacity, f"after {written - row} rows an episode of actor {actor} "
                    f"(environment {env}) is not over"
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
