"""Learners of a replay: each carries out what its tapes say, one invocation after the other."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from artos.buffer.model_block import ModelBlock
from artos.buffer.past_versions import pinned
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan, Site
from artos.runs.run_memory import RunMemory
from artos.runs.tape import Begun, Called, Peer, Recorded
from artos.runtime.held import hand_over, take_up
from artos.runtime.member import LearnerRole
from artos.runtime.serving import learner_role
from artos.runtime.taping import share
from artos.specs.configuration import MAX_LAG
from artos.specs.keys import MODEL_PARAM, VALUE
from artos.specs.members import Member
from artos.system.random_streams import own_streams
from artos.system.snapshot import Streams, global_streams, set_global_streams
from deploy.replay.difference import Differs, JournalEnds, Killed, Over, Raised
from deploy.replay.learner_tape import Following, Played
from deploy.replay.own_block import OwnBlock
from deploy.replay.reads import Reads
from deploy.replay.replicas import Replicas
from deploy.replay.script import Script
from deploy.replay.versions import Versions
from triggers.setting import lags_set
from triggers.targets import parsed

Learned = Callable[[str, int, int, Mapping[str, float]], None]
"""Is told of each invocation of a learner: its name, if there are several, the version after it,
steps, metrics."""
Reach = Callable[[int, int], None]
"""Has an actor come to so many rows."""


class Kept(NamedTuple):
    """A version of a learner with all that belongs to it, from which a run went on.

    ``objects`` are those that it had published beside, each with its own version; ``past`` has the
    public arrays of the versions before that were kept.
    """

    version: int
    arrays: dict[str, NDArray[Any]]
    objects: dict[str, tuple[NDArray[Any], int]]
    past: dict[int, dict[str, NDArray[Any]]]

    @classmethod
    def of(cls, model: ModelBlock, reader: int) -> Kept:
        """The newest of a learner; ``reader`` is whose pin may be used."""
        weights = model[MODEL_PARAM]
        public = [each.name for each in weights.spec.public]
        newest, *pasts = pinned(weights, reader)
        try:
            return cls(
                newest.version,
                {name: array.copy() for name, array in newest.arrays.items()},
                {name: (of.newest.arrays[VALUE].copy(), of.version)
                 for name, of in model.objects.items() if name != MODEL_PARAM and of.version >= 0},
                {past.version: {name: past.arrays[name].copy() for name in public}
                 for past in pasts},
            )  # fmt: skip
        finally:
            weights.unpin(reader)

    def restore(self, node: RunMemory, learner: str, past: Iterable[int]) -> None:
        """Have a learner go on from it, with these ``past`` versions."""
        pasts = {each: self.past[each] for each in past}
        node.restore(learner, self.arrays, self.version, pasts)
        for name, (value, version) in self.objects.items():
            node.restore_object(learner, name, value, version)


class _Apart(Site, frozen=True):
    """A learner that reads ``own`` blocks: one that is behind finds what it found in the run."""

    own: frozenset[int] = frozenset()
    """Those of these actors."""

    def block_path(self, actor: int) -> Path:
        if actor in self.own:
            return Path(self.folder) / f"{self.member.role}-actor-{actor}"
        return super().block_path(actor)


class ReplayedLearner:
    """One learner: what its processes did, ``tapes``, in the order of these.

    Of version ``keep`` all is ``kept``. Where there are several, each has blocks of its own for the
    rows that it ``reads``.
    """

    def __init__(
        self,
        node: RunMemory,
        name: str,
        script: Script,
        tapes: Sequence[Recorded],
        versions: Mapping[str, Versions],
        reach: Reach,
        *,
        reads: Reads | None = None,
        until: int | None = None,
        stop: int | None = None,
        learned: Learned = lambda learner, version, steps, metrics: None,
        keep: int | None = None,
    ) -> None:
        self.name, self.kept, self.firing = name, None, 0
        self._node, self._plan, self._model = node, node.plan.of(name), node.model_of(name)
        self._script, self._tapes, self._versions = script, tapes, versions
        self._reach_rows, self._learned, self._keep = reach, learned, keep
        self._site, self._blocks = node.site, dict[int, OwnBlock]()
        self._apart = reads is not None
        if reads is not None:
            own = frozenset(actor for actor in node.blocks if reads.any_of(actor))
            values = msgspec.structs.asdict(node.site) | {"member": Member(name), "own": own}
            self._site = _Apart(**values)
            for actor in own:
                path = self._site.block_path(actor)
                self._blocks[actor] = OwnBlock(node.blocks[actor], path, reads)
        self.following = Following(self._published, self._reach, self._state, until, stop)
        self._replicas = Replicas(node) if node.plan.replicas > 1 else None
        self._streams: Streams = {}
        self._threads = 0
        self._role: LearnerRole | None = None
        """That of a process that did all it was asked for."""
        self._work = self._processes()
        versions[name].make = self.make
        if self._weights.version >= 0:
            versions[name].add(*pinned(self._weights, node.plan.actors)[1:])
            self._weights.unpin(node.plan.actors)
            self._published(self._weights.version)

    kept: Kept | None
    firing: int
    """The one that it carries out next, or carried out last."""

    @property
    def _weights(self) -> Any:
        return self._model[MODEL_PARAM]

    def go_on(self) -> bool:
        """Carry out its next invocation, and come to the one after that; False if there is none.

        At first, it only comes to its first invocation.

        Raises:
            Differs: it does something else than in the run.
            Over: it cannot go on, or was to end there.
        """
        with self._alone():
            return next(self._work, None) is not None

    def make(self, version: int) -> None:
        """Go on until there is this version.

        Raises:
            Differs, Over: as ``go_on``; or it is in the midst of an invocation.
        """
        while self._weights.version < version:
            if inspect.getgeneratorstate(self._work) == inspect.GEN_RUNNING:
                raise Over(
                    f"version {version} of {self.name} was looked at in the midst of the invocation"
                    " that made it, which itself looked at what came of that"
                )
            if not self.go_on() and self._weights.version < version:
                raise Over(f"{self.name} has not recorded how it came to version {version}")

    @property
    def missing(self) -> str:
        """What its tapes end before, though the run came to it; "" if there is nothing."""
        made, version = self._script.made.get(self.name, -1), self._weights.version
        if version >= made:
            return ""
        end = f"end at version {version:,}" if version >= 0 else "have none of its versions"
        return (
            f"the tapes of {self.name} {end}, and the run made {made:,}: one was cut off or "
            "removed, or its disk was full"
        )

    def read(self, actor: int) -> Iterator[OwnBlock]:
        """The block of an actor that it reads, if that is its own."""
        if actor in self._blocks:
            yield self._blocks[actor]

    def hand_over(self, path: Path) -> None:
        """Write down what it holds at the end of all that it did.

        Raises:
            Over: it has not come to that end.
        """
        if self._role is None:
            raise Over(f"{self.name} did not come to where the run was saved")
        with self._alone():
            hand_over(self._role, path)

    def close(self) -> None:
        """Leave what it was doing."""
        self._work.close()
        if self._replicas:
            self._replicas.close()

    def _processes(self) -> Generator[int]:
        for number, tape in enumerate(self._tapes):
            if any(isinstance(record, Begun) for record in tape.records):
                yield from self._process(tape, number)  # else it was killed before it had begun

    def _process(self, tape: Recorded, number: int) -> Generator[int]:
        later = (record for each in self._tapes[number + 1 :] for record in each.records)
        then = next((record for record in later if isinstance(record, Begun)), None)
        played = Played(self.name, tape, then, self.following)
        own_streams(self._node.plan.seed)
        self._role = None
        term, gathering = self._replicas.begin() if self._replicas else (0, None)
        site = msgspec.structs.replace(self._site, starts=term)
        try:
            role = learner_role(
                self._plan,
                site,
                self._model,
                gathering=gathering,
                record=lambda plan, site: played,
            )
            take_up(role, site.held_path(site.member))
            while (called := played.next_call(self._weights.version)) is not None:
                self.firing = called.firing
                yield called.firing
                self._call(role, called)
            self._role = role
        except Killed:
            return
        except (Differs, Over):
            raise
        except Exception as error:  # whatever the learner raises
            if then is not None and self._weights.version == then.version:
                return  # it did in the run, and was started again
            if self._replicas and (why := self._replicas.lost()):
                raise Over(why) from error
            what = f"raised {type(error).__name__}: {error}"
            if played.more:
                raise played.differs(what) from error
            raise Raised(f"{self.name} {what}") from error

    def _call(self, role: LearnerRole, called: Called) -> None:
        call = self._invocation(called)
        for claim in call.claims:
            self._reach({claim.actor: claim.stop})
        if self._replicas:
            self._replicas.call(call)
        done = role.run(call)
        if done.version == self._keep:  # a checkpoint has what came after the weights, too
            self._keep_it()
        self._learned(self.name if self._apart else "", done.version, called.steps, done.metrics)

    def _invocation(self, called: Called) -> Invoke:
        firings, configurations = self._script.firings, self._script.configurations
        fired = firings.get(called.firing)
        configuration = configurations.get(called.configuration)
        if fired is None or configuration is None:
            if called.firing < max(firings, default=0):
                raise Over(f"the journal does not have firing {called.firing:,}, but later ones")
            raise JournalEnds(f"the journal ends before firing {called.firing:,}")
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
        self._versions[self.name].published()
        if version == self._keep:
            self._keep_it()

    def _keep_it(self) -> None:
        self.kept = Kept.of(self._model, self._node.plan.actors)

    def _reach(self, rows: Mapping[int, int]) -> None:
        for actor, count in rows.items():
            self._reach_rows(actor, count)
            for own in self.read(actor):
                own.reach(count)

    def _state(self, name: str, version: int) -> dict[str, NDArray[Any]]:
        return self._versions[name].state(version)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """As in a process of its own, also in the midst of another learner's invocation."""
        outer, torch = global_streams(), sys.modules.get("torch")
        threads = torch.get_num_threads() if torch else 0
        if self._streams:
            set_global_streams(self._streams)
        try:
            with ExitStack() as stack:
                if self._apart:  # there are others, which may have had more or fewer
                    stack.enter_context(threadpool_limits(self._plan.threads))
                if torch is not None:
                    torch.set_num_threads(self._threads or threads)
                    stack.enter_context(torch.inference_mode(False))
                yield
            self._streams, torch = global_streams(), sys.modules.get("torch")
            self._threads = torch.get_num_threads() if torch else 0
        finally:
            set_global_streams(outer)
            if torch is not None and threads:
                torch.set_num_threads(threads)


def copied_of(name: str, tapes: Iterable[Recorded]) -> Iterator[int]:
    """The versions of a learner that others copied, once for each time."""
    for tape in tapes:
        for record in tape.records:
            if isinstance(record, Peer) and record.learner == name and record.version >= 0:
                yield record.version


def plan_as_recorded(plan: Plan, tapes: Mapping[str, Sequence[Recorded]]) -> Plan:
    """The plan with as many threads of each learner as it had in the run."""
    threads = {name: each[0].header.threads for name, each in tapes.items() if each}
    beside = tuple(
        msgspec.structs.replace(each, threads=threads.get(each.learner, 1)) for each in plan.beside
    )
    return msgspec.structs.replace(plan, threads=threads.get(plan.learner, 1), beside=beside)
