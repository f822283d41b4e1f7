"""A recorded run once more, in this process: its learner and its actors take turns as rows need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import msgspec
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from artos.protocol.invocations import Invoke
from artos.runs.loader import user_imports
from artos.runs.run_memory import RunMemory
from artos.runs.tape import Begun, Called, Header, Record
from artos.runtime.member import LearnerRole
from artos.runtime.serving import learner_role
from artos.runtime.taping import share
from artos.specs.configuration import MAX_LAG
from artos.specs.keys import VALUE
from artos.system.closing import Closing
from artos.system.random_streams import own_streams
from deploy.replay.actors import ReplayedActor
from deploy.replay.difference import Difference, Differs, Killed, Over
from deploy.replay.learner_tape import Following, Played
from deploy.replay.script import Script
from deploy.replay.versions import Versions
from triggers.setting import lags_set
from triggers.targets import parsed

Learned = Callable[[int, int, Mapping[str, float]], None]
"""Is told of each invocation of the learner: the version after it, steps, metrics."""


class Outcome(msgspec.Struct, frozen=True):
    """How a replay ended. ``versions`` came out bit for bit as they did in the run."""

    equal: bool
    versions: int
    first_difference: Difference | None = None
    ended: str = ""
    """Why it ended before the end of the run, if it did so without a difference."""


class Kept(NamedTuple):
    """A version of a learner with all that belongs to it, from which a run went on.

    ``objects`` are those that it had published beside, each with its own version.
    """

    version: int
    arrays: dict[str, NDArray[Any]]
    objects: dict[str, tuple[NDArray[Any], int]]

    @classmethod
    def of(cls, node: RunMemory) -> Kept:
        """The newest of a run."""
        weights, others = node.weights, node.objects
        return cls(
            weights.version,
            {name: array.copy() for name, array in weights.newest.arrays.items()},
            {name: (of.newest.arrays[VALUE].copy(), of.version)
             for name, of in others.items() if of.version >= 0},
        )  # fmt: skip

    def restore(self, node: RunMemory) -> None:
        """Have a run go on from it."""
        node.restore(self.arrays, self.version)
        for name, (value, version) in self.objects.items():
            node.restore_object(name, value, version)


class Replay(Closing):
    """Repeats a run: ``tapes`` are those of the learner's processes, in the order of these.

    An actor samples a round once the learner needs its rows, as in the run in one way: with the
    same weights, after the same rounds. So the order of what did not depend on each other may be
    another one than in the run. It begins with the version that is in ``node``, if there is any:
    a run that was resumed is repeated in parts. Of version ``keep`` all is kept, and so many
    ``rows`` of each actor.
    """

    def __init__(
        self,
        node: RunMemory,
        script: Script,
        tapes: Sequence[tuple[Header, Sequence[Record]]],
        until: int | None = None,
        stop: int | None = None,
        learned: Learned = lambda version, steps, metrics: None,
        keep: int | None = None,
        rows: Sequence[int] = (),
    ) -> None:
        self.kept: Kept | None = None
        self._keep, self._rows = keep, rows
        self._node, self._script, self._tapes, self._learned = node, script, tapes, learned
        self._versions = Versions(node.weights, script.bound())
        self._actors = {
            actor: ReplayedActor(node, actor, script, self._versions)
            for actor in range(node.plan.actors)
        }
        self._following = Following(self._published, self._reach, until, stop)
        if node.weights.version >= 0:
            self._published(node.weights.version)

    def run(self) -> Outcome:
        """Repeat all of it."""
        first, why = None, ""
        with ExitStack() as stack:
            stack.enter_context(user_imports(self._node.plan.reference.folder))
            stack.enter_context(threadpool_limits(max(1, self._tapes[0][0].threads)))
            try:
                for number in range(len(self._tapes)):
                    self._process(number)
            except Differs as error:
                first = error.difference
            except Over as error:
                why = error.why
            try:
                for actor, count in enumerate(self._rows if first is None else ()):
                    self._actors[actor].keep(count)
            except Differs as error:
                first = error.difference
            except Over as error:
                why, self.kept = error.why, None
        return Outcome(first is None, self._following.verified, first, why)

    def _process(self, number: int) -> None:
        """What one process of the learner did."""
        (_, records), plan = self._tapes[number], self._node.plan
        later = (record for _, tape in self._tapes[number + 1 :] for record in tape)
        then = next((record for record in later if isinstance(record, Begun)), None)
        if not any(isinstance(record, Begun) for record in records):
            return  # it was killed before it had begun
        played = Played(plan.learner, records, then, self._following)
        own_streams(plan.seed)
        try:
            role = learner_role(
                plan.of(plan.learner), self._node.site, self._node.model,
                record=lambda plan, site: played,
            )  # fmt: skip
            while (called := played.next_call(self._node.weights.version)) is not None:
                self._call(role, called)
        except Killed:
            return
        except (Differs, Over):
            raise
        except Exception as error:  # whatever the learner raises
            if then is not None and self._node.weights.version == then.version:
                return  # it did in the run, and was started again
            raise Over(f"{plan.learner} raised {type(error).__name__}: {error}") from error

    def _call(self, role: LearnerRole, called: Called) -> None:
        call = self._invocation(called)
        for claim in call.claims:
            self._actors[claim.actor].reach(claim.stop)
        done = role.run(call)
        if done.version == self._keep:  # a checkpoint has what came after the weights, too
            self.kept = Kept.of(self._node)
        self._learned(done.version, called.steps, done.metrics)

    def _invocation(self, called: Called) -> Invoke:
        fired = self._script.firings.get(called.firing)
        configuration = self._script.configurations.get(called.configuration)
        if fired is None or configuration is None:
            raise Over(f"the journal does not have firing {called.firing}")
        target, steps, plan = fired.trigger, called.steps, self._node.plan
        role, lags = parsed(target).role, lags_set(plan, configuration)
        own = configuration.of(role)
        own.pop(MAX_LAG, None)  # which is one of its triggers
        progress = share(steps, plan.total_steps) if called.progress is None else called.progress
        return Invoke(
            called.firing, target, parsed(target).method, fired.claims, progress=progress,
            steps=steps, settings=own,
            configuration=configuration.number, max_lag=lags.get(role),
        )  # fmt: skip

    def _published(self, version: int) -> None:
        self._versions.published()
        if version == self._keep:
            self.kept = Kept.of(self._node)

    def _reach(self, rows: Mapping[int, int]) -> None:
        for actor, count in rows.items():
            self._actors[actor].reach(count)

    def close(self) -> None:
        """Close the environments."""
        for actor in self._actors.values():
            actor.close()
