"""A run's shared memory on this machine: created and removed as one."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.buffer.actor_block import ActorBlock
from artos.buffer.gathering import Gathering, gathering_bytes
from artos.buffer.layout import Layout
from artos.buffer.mailbox import Board, board_bytes
from artos.buffer.model_block import ModelBlock, block_bytes
from artos.buffer.object_region import ObjectRegion, ObjectSlot
from artos.buffer.past_versions import KeepingRegion, past_of, pinned
from artos.buffer.request_block import RequestBlock
from artos.buffer.request_block import block_bytes as request_bytes
from artos.buffer.samplers.patterns import Sequences, Uniform
from artos.buffer.samplers.priority_memory import PriorityMemory, memory_bytes
from artos.buffer.segment import Segment
from artos.buffer.shm_folder import (
    IMAGE_ROOM,
    IMAGES,
    PREFIX,
    PRIORITIES,
    ShmFolder,
    reap_orphans,
)
from artos.errors import LayoutMismatch, MemoryTooSmall, ShmTooSmall
from artos.runs.checkpoint import Manifest, restore_priorities
from artos.runs.data_sets import choices_of, filled
from artos.runs.plan import Plan, Site
from artos.specs.keys import MODEL_PARAM, VALUE
from artos.system.closing import Closing
from artos.system.memory_limit import memory_left
from artos.system.regular_file import contents
from artos.system.shm import free_bytes, shm_root

_CACHED = re.compile(r"board|model(-.+)?|actor-\d+|requests-.+")
_log = logging.getLogger(__name__)


class RunMemory(Closing):
    """Owns every segment of a run; leaving the context removes them all.

    The blocks of data sets are filled here.

    With the run's own folder ``run``, rows that learners draw are kept if this process is killed,
    until ``LeftRows`` finds them. The blocks that it found (``left``, by actor) are taken over.

    Raises:
        Refused: a data set cannot be read; nothing is left behind.
        ShmTooSmall: there is not enough shared memory; nothing is left behind.
    """

    def __init__(
        self,
        plan: Plan,
        name: str,
        logs: Path,
        run: Path | None = None,
        left: Mapping[int, Path] | None = None,
    ) -> None:
        self.plan, self._left = plan, left or {}
        self._folder, members = ShmFolder.create(name), plan.members
        self.site = Site(str(self._folder.path), members.publisher, members, str(logs))
        try:
            if run is not None and plan.keeps_rows:
                self._folder.keep_for(run)
            self.board = Board.create(self.site.board_path, self.site.members)
            self.model = ModelBlock.create(self.site.model_path, plan.objects)
            self.beside = {
                each.learner: ModelBlock.create(self.site.model_of(each.learner), each.objects)
                for each in plan.beside
            }
            """The model blocks of the learners beside the first."""
            self._fill_data()
            for server, spec in plan.requests().items():
                RequestBlock.create(self.site.requests_path(server), spec)
            for learner, count in plan.replica_counts.items():
                if count > 1:
                    Gathering.create(self.site.gathering_of(learner), count)
            if plan.evaluated:
                self._evaluated = ModelBlock.create(self.site.evaluated_path, plan.evaluated)
            self.plan_file = self._folder.path / "plan.json"
            self.plan_file.write_bytes(msgspec.json.encode(plan))
            # Last: what was left is lost if this folder is removed.
            self.blocks = self._blocks()
        except BaseException:
            self._folder.remove()
            raise

    def _blocks(self) -> dict[int, ActorBlock]:
        new = {
            actor: ActorBlock.create(self.site.block_path(actor), self.plan.block(actor))
            for actor in range(self.plan.actors)
            if actor not in self._left
        }
        for folder in {path.parent for path in self._left.values()}:
            for path in folder.glob(f"{PRIORITIES}*"):
                path.rename(self._folder.path / path.name)
        for actor, path in self._left.items():
            path.rename(self.site.block_path(actor))
        left = {actor: ActorBlock.attach(self.site.block_path(actor)) for actor in self._left}
        return dict(sorted((new | left).items()))

    def _fill_data(self) -> None:
        for each, spec in zip(self.plan.data, self.plan.data_blocks().values(), strict=True):
            choices = choices_of(self.plan.env_spec, each.policy)
            filled(self.site.data_path(each.name), spec, each, choices)

    @property
    def version(self) -> int:
        """The newest version of the weights that an actor here can act with.

        -1 while there is none, of them or of another learner that they or their servers read.
        """
        read = (self.beside[name][MODEL_PARAM] for name in self.plan.sent_learners[1:])
        return -1 if any(each.version < 0 for each in read) else self.weights.version

    @property
    def versions_beside(self) -> dict[str, int]:
        """The newest version of each other learner of which actors here read something."""
        return {name: self.beside[name][MODEL_PARAM].version for name in self.plan.read_learners}

    def model_of(self, learner: str) -> ModelBlock:
        """The model block of a learner."""
        return self.beside.get(learner, self.model)

    @property
    def priorities(self) -> list[Path]:
        """The files of priorities by which rows are drawn; learners make them."""
        return sorted(self._folder.path.glob(f"{PRIORITIES}*"))

    @property
    def lock(self) -> int:
        """The descriptor of the lock that shows that this memory is in use."""
        return self._folder.lock

    def unpin(self, actor: int) -> None:
        """Let go of what a process of an actor that is gone had pinned."""
        for block in (self.model, *self.beside.values()):
            block[MODEL_PARAM].unpin(actor)

    @property
    def weights(self) -> ObjectRegion:
        """The region of the policy's weights and the learner's state."""
        return self.model[MODEL_PARAM]

    @property
    def objects(self) -> dict[str, ObjectRegion]:
        """The regions of the other objects that the learner publishes."""
        return {name: region for name, region in self.model.objects.items() if name != MODEL_PARAM}

    @property
    def evaluated(self) -> ObjectRegion | None:
        """The region of the weights that are handed to the evaluator; None if there is none."""
        return self._evaluated[MODEL_PARAM] if self.plan.evaluated else None

    @contextmanager
    def newest(self) -> Iterator[list[ObjectSlot]]:
        """The newest version and the past ones that are kept, pinned.

        They do not change while the learner keeps publishing.
        """
        reader = self.plan.actors  # the one pin that belongs to no actor
        try:
            yield pinned(self.weights, reader)
        finally:
            self.weights.unpin(reader)

    def restore(
        self,
        learner: str,
        arrays: Mapping[str, NDArray[Any]],
        version: int,
        past: Mapping[int, Mapping[str, NDArray[Any]]] = MappingProxyType({}),
    ) -> None:
        """Publish saved arrays as the newest version of a learner, before it starts.

        ``past`` has the public arrays of past versions, of which those are kept that the plan says.
        """
        weights = self.model_of(learner)[MODEL_PARAM]
        if isinstance(weights, KeepingRegion):
            spec = weights.spec
            for kept in sorted(past.keys() & {*past_of(version, spec.history, spec.every)}):
                slot = weights.allocate()
                for part in spec.public:
                    np.copyto(slot.arrays[part.name], past[kept][part.name])
                weights.keep(slot, kept)
        slot = weights.allocate()
        for name, array in slot.arrays.items():
            np.copyto(array, arrays[name])
        weights.commit(slot, version)

    def restore_object(self, learner: str, name: str, value: NDArray[Any], version: int) -> None:
        """Publish an object that was saved beside a learner's weights, before it starts."""
        region = self.model_of(learner)[name]
        slot = region.allocate()
        np.copyto(slot.arrays[VALUE], value)
        region.commit(slot, version)

    def restore_priorities(self, checkpoint: Path, manifest: Manifest) -> None:
        """Have the saved ones, or those that were left with rows, before the learner starts.

        Raises:
            CheckpointFault: the file is missing or damaged, or holds something else.
        """
        restore_priorities(checkpoint, manifest, self._folder.path)
        written = {actor: block.written for actor, block in self.blocks.items()}
        for path in self.priorities:
            try:
                PriorityMemory(Segment.attach(path)).forget(written)
            except LayoutMismatch:  # somebody has changed the checkpoint
                path.unlink()

    def leave(self) -> None:
        """Leave every segment as if this process were killed."""
        self._folder.leave()

    def close(self) -> None:
        """Remove every segment, unless they were left. Doing it twice is fine."""
        self._folder.remove()


class CacheMemory(RunMemory):
    """A worker's part of a run's memory: an actor gets its block when it is placed there."""

    def _blocks(self) -> dict[int, ActorBlock]:
        return {}

    def open(self, actor: int, term: int, base: int) -> None:
        """Give an actor a block whose rows begin with ``base``; its earlier block is removed.

        Raises:
            ShmTooSmall: there is no room for the block.
        """
        path = self.site.block_path(actor)
        self.blocks.pop(actor, None)
        path.unlink(missing_ok=True)
        _check_room(Layout(self.plan.block(actor)).size)
        block = ActorBlock.create(path, self.plan.block(actor), base=base, term=term)
        self.blocks[actor] = block

    def shut(self, actor: int) -> None:
        """Remove the block of an actor that has moved elsewhere together with its rows."""
        self.blocks.pop(actor, None)
        self.site.block_path(actor).unlink(missing_ok=True)


def needed_bytes(plan: Plan) -> int:
    """Bytes of shared memory that a run of this plan takes."""
    blocks = sum(Layout(plan.block(actor)).size for actor in range(plan.actors))
    blocks += sum(Layout(spec).size for spec in plan.data_blocks().values())
    blocks += sum(request_bytes(spec) for spec in plan.requests().values())
    blocks += _priorities_bytes(plan)
    models = block_bytes(plan.objects) + (block_bytes(plan.evaluated) if plan.evaluated else 0)
    models += sum(block_bytes(each.objects) for each in plan.beside)
    together = sum(gathering_bytes(n) for n in plan.replica_counts.values() if n > 1)
    return blocks + models + together + board_bytes(plan.members)


def _priorities_bytes(plan: Plan) -> int:
    """Those of live rows, and of each data set."""
    found, data = 0, {each.name: memory_bytes(1, each.rows * each.envs) for each in plan.data}
    for draw in plan.draws:
        match draw.pattern:
            case Uniform() | Sequences(alpha=0):
                continue
        if draw.live:
            part = plan.parts.get(draw.target.partition(".")[0])
            envs = part.envs if part else plan.envs
            found += memory_bytes(plan.actors, plan.capacity * envs)
        found += sum(data[name] for name in draw.data)
    return found


def cached_bytes(plan: Plan) -> tuple[int, int]:
    """Bytes of shared memory on a worker node, where ``plan`` is that of the workers.

    Those of the node's ``CacheMemory`` without actors, with the room for images there, and those
    that each actor there adds.
    """
    actor = max((Layout(plan.block(each)).size for each in range(plan.actors)), default=0)
    models = [plan.objects, *(each.objects for each in plan.beside)]
    requests = sum(map(request_bytes, plan.requests().values()))
    models_bytes = sum(map(block_bytes, models))
    shared = models_bytes + requests + board_bytes(plan.members) + plan.elastic.image_bytes
    return shared, actor


def check_space(plan: Plan, left: Iterable[Path] = (), beside: int = 0) -> None:
    """Check that the machine can hold the run before anything is made; orphans are reaped first.

    So many bytes are needed ``beside`` it. The blocks that are ``left`` need no more room. Rows
    kept for other runs that were killed are given up where there is none without that.

    Raises:
        ShmTooSmall: says how much is needed and how much is free.
    """
    reap_orphans()
    needed = needed_bytes(plan) + beside - sum(path.stat().st_size for path in left)
    try:
        _check_room(needed)
    except ShmTooSmall:
        if not (given_up := reap_orphans(kept=True)):
            raise
        names = ", ".join(path.name for path in given_up)
        _log.warning("rows kept for runs that were killed are given up for room: %s", names)
        _check_room(needed)


def held_bytes(owner: str) -> int:
    """Bytes that the ``CacheMemory`` of executors of this worker takes on this machine.

    With images there, as far as they have been given room: of others nobody reckoned with.
    """
    held = 0
    for folder in shm_root().glob(f"{PREFIX}*.{owner}.*"):
        with suppress(OSError):  # it has just been removed
            held += _sizes(path for path in folder.iterdir() if _CACHED.fullmatch(path.name))
        with suppress(OSError):
            room = int(contents(folder / IMAGE_ROOM) or 0)
            held += min(room, _sizes((folder / IMAGES).glob("*/*")))
    return held


def _sizes(paths: Iterable[Path]) -> int:
    held = 0
    for path in paths:
        with suppress(OSError):
            held += path.lstat().st_size
    return held


def shm_left() -> int:
    """Bytes of shared memory that may still be taken on this machine."""
    free, left = free_bytes(shm_root()), memory_left()
    return free if left is None else min(free, left)


def _check_room(needed: int) -> None:
    if needed > (available := free_bytes(shm_root())):
        raise ShmTooSmall(needed, available, str(shm_root()))
    left = memory_left()
    if left is not None and needed > left:
        raise MemoryTooSmall(needed, left)
