"""A recorded run once more, in this process: learners and actors take turns as they need it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from types import MappingProxyType

import msgspec
from threadpoolctl import threadpool_limits

from artos.runs.answers import Answers
from artos.runs.loader import user_imports
from artos.runs.run_memory import RunMemory
from artos.runs.tape import Recorded
from artos.runtime.held import Held
from artos.specs.keys import MODEL_PARAM
from artos.specs.members import Member
from artos.system.closing import Closing
from deploy.replay.actors import ReplayedActor
from deploy.replay.difference import Difference, Differs, JournalEnds, Left, Over, Raised
from deploy.replay.learners import Kept, Learned, ReplayedLearner, copied_of
from deploy.replay.reads import Reads
from deploy.replay.script import Script
from deploy.replay.versions import Versions


class Outcome(msgspec.Struct, frozen=True):
    """How a replay ended. ``versions`` came out bit for bit as they did in the run."""

    equal: bool
    versions: int
    first_difference: Difference | None = None
    ended: str = ""
    """Why it ended before the end of the run, or what was asked for, without a difference."""


class Replay(Closing):
    """Repeats a run: ``tapes`` are those of each learner's processes, in the order of these.

    Learners take turns by the numbers of their firings. One goes on earlier if a version of its is
    needed; an actor samples a round once a learner needs its rows. All of it is as in the run in
    one way: with the same weights, after the same rounds. So the order of what did not depend on
    each other may be another one than in the run. It begins with the versions that are in ``node``,
    if there are any: a run that was resumed is repeated in parts. Of the version of each learner
    in ``keep`` all is kept, and so many ``rows`` of each actor. ``reads`` are those of each learner
    where there are several, ``answers`` those of each server. What the members in ``holding`` hold
    at the end is ``held``.
    """

    def __init__(
        self,
        node: RunMemory,
        script: Script,
        tapes: Mapping[str, Sequence[Recorded]],
        until: int | None = None,
        stop: int | None = None,
        learned: Learned = lambda learner, version, steps, metrics: None,
        keep: Mapping[str, int] | None = None,
        rows: Sequence[int] = (),
        reads: Mapping[str, Reads] = MappingProxyType({}),
        answers: Mapping[str, Answers] = MappingProxyType({}),
        holding: Collection[Member] = (),
    ) -> None:
        self._node, plan, keep = node, node.plan, keep or {}
        self._holding, self.held = holding, dict[Member, Held]()
        self.over: Over | None = None
        """Why it ended, if it did not come to the end of what was recorded."""
        every = [tape for each in tapes.values() for tape in each]
        versions = {
            name: Versions(
                node.model_of(name)[MODEL_PARAM],
                script.bound("" if name == plan.learner else name),
                copied_of(name, every),
                script.sent_as,
            )
            for name in plan.learners
        }
        self._learners = [
            ReplayedLearner(
                node, name, script, tapes.get(name, ()), versions, self._reach,
                reads=reads.get(name), learned=learned, keep=keep.get(name),
                until=until if name == plan.learner else None,
                stop=stop if name == plan.learner else None,
            )
            for name in plan.learners
        ]  # fmt: skip
        self._actors = {
            actor: ReplayedActor(
                node,
                actor,
                script,
                versions,
                [*chain(*(each.read(actor) for each in self._learners))],
                dict(enumerate(rows)).get(actor),
                answers,
            )
            for actor in range(plan.actors)
        }

    @property
    def kept(self) -> dict[str, Kept]:
        """What was to be kept of each learner, as far as it was made."""
        return {each.name: each.kept for each in self._learners if each.kept is not None}

    @property
    def newest(self) -> int:
        """The newest version of the first learner that came out as in the run; -1: there is none"""
        return self._learners[0].following.newest

    @property
    def is_whole(self) -> bool:
        """Whether all was repeated that can be, of a run that went on after this part.

        A run that was killed goes on from what was saved, before its journal ends.
        """
        if isinstance(self.over, JournalEnds | Raised):
            return True
        return not (isinstance(self.over, Left) or self._missing)

    @property
    def _missing(self) -> str:
        return next((why for each in self._learners if (why := each.missing)), "")

    def run(self) -> Outcome:
        """Repeat all of it."""
        first, why, goes_on = None, "", True
        with ExitStack() as stack:
            stack.enter_context(user_imports(self._node.plan.reference.folder))
            stack.enter_context(threadpool_limits(self._node.plan.threads))
            try:
                self._take_turns()
            except Differs as error:
                first = error.difference
            except Over as error:
                self.over, why = error, error.why
                goes_on = bool(why)  # else nobody asked for more
            else:
                why = self._missing
            try:
                if first is None and goes_on:
                    self._end()
            except Differs as error:
                first = error.difference
            except Over as error:
                self.over, why = error, error.why
                for each in self._learners:
                    each.kept = None
        verified = sum(each.following.verified for each in self._learners)
        return Outcome(first is None, verified, first, why)

    def _end(self) -> None:
        parts: dict[Member, ReplayedActor | ReplayedLearner] = {
            **{actor.member: actor for actor in self._actors.values()},
            **{Member(learner.name): learner for learner in self._learners},
        }  # actors first, as in the run
        for member in (each for each in parts if each in self._holding):
            parts[member].hand_over(path := self._node.site.held_path(member))
            held = Held.read(path) or Held(why="there is no room for it")
            if not held.data:
                raise Over(f"{member} cannot say what it holds: {held.why}")
            self.held[member] = held
        for actor in self._actors.values():
            actor.go_back()

    def _take_turns(self) -> None:
        left = self._learners
        while left:
            behind = min(left, key=lambda each: each.firing)
            if not behind.go_on():
                left = [each for each in left if each is not behind]

    def _reach(self, actor: int, rows: int) -> None:
        self._actors[actor].reach(rows)

    def close(self) -> None:
        """Leave what learners were doing, and close the environments."""
        for learner in self._learners:
            learner.close()
        for actor in self._actors.values():
            actor.close()
