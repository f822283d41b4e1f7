"""Dumps actors into images and restores them (paper §3.3, §4.3)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from artos.errors import CheckpointRefused
from artos.runs.plan import Site
from workers.checkpoint import template_memory
from workers.checkpoint.bundle import Home, belongings, pack, unpack
from workers.checkpoint.criu.driver import Criu, Operation
from workers.checkpoint.criu.unavailable import NoCriu
from workers.checkpoint.facts import Facts
from workers.checkpoint.foreign_memory import unused
from workers.checkpoint.images import Image, ImageStore, estimate
from workers.checkpoint.proc_folder import is_collision, remove_left
from workers.host.pinning import Prefix
from workers.host.slots import Slot


class Progress(NamedTuple):
    """How far an actor is: the rows it committed, and the policy version it sampled with."""

    step: int
    version: int


_TRIES = 5
_HERE = Path()
"""The working directory, also of members. It may be removed meanwhile: then it has no name."""


@dataclass
class Shot:
    """A dump under way."""

    image: Image
    operation: Operation
    facts: Facts
    """The facts of its process."""
    stays: bool = False
    """Whether its process goes on."""
    tries: int = 1
    """How often the dump was begun."""


class Checkpointer:
    """Dumps processes into an image store and restores them; both run in the background."""

    def __init__(
        self,
        site: Site,
        criu: Criu | NoCriu,
        store: ImageStore,
        prefix: Prefix,
        progress: Callable[[int], Progress],
        *,
        gives_back: bool,
    ) -> None:
        self._site, self._criu, self._store = site, criu, store
        self._prefix, self._progress = prefix, progress
        self.gives_back = gives_back  # whether images free memory, as they are not on a tmpfs
        self.awaited = set[str]()
        """Names of template memory that is kept though no clone here needs it (yet)."""
        self.may_free = False
        """Whether there is memory that was awaited, and may not be needed."""
        remove_left(_HERE)

    def take(self, pid: int, name: str, actor: int = -1, *, stays: bool = False) -> Shot:
        """Begin to dump a process that is asleep; it ends with that, or goes on if it ``stays``.

        Raises:
            CriuUnavailable: this host cannot make images.
            ImageBudget: there is no room for the image.
            OSError: the process is gone.
        """
        image = self._store.begin(name, estimate(pid))
        try:
            if actor < 0:
                facts = Facts.of(pid, self._criu.version)
            else:
                step, version = self._progress(actor)
                block = str(self._site.block_path(actor))
                facts = Facts.of(
                    pid,
                    self._criu.version,
                    block=block,
                    actor=actor,
                    step=step,
                    policy_version=version,
                )
            return Shot(image, self._criu.dump(pid, image, stays=stays), facts, stays)
        except BaseException:
            image.abandon()
            raise

    def is_done(self, shot: Shot) -> bool:
        """Whether the dump is over; if so, its image is sealed.

        Raises:
            CheckpointRefused: the dump failed; the process runs on, nothing is left of the image.
        """
        try:
            if shot.operation.poll() is None:
                return False
        except CheckpointRefused as refused:
            remove_left(_HERE)
            if shot.tries == _TRIES or not is_collision(refused.log):
                raise
            new = self.take(refused.pid, shot.image.name, shot.facts.actor, stays=shot.stays)
            shot.image, shot.operation, shot.facts = new.image, new.operation, new.facts
            shot.tries += 1
            return False
        shot.image.seal(shot.facts)
        return True

    def revive(
        self, image: Image, log: Path, slot: Slot | None, *, gently: bool = False
    ) -> Operation:
        """Begin to restore an image on a slot's CPU, with its output going to ``log``.

        ``gently``: with a low priority and on any CPU, as nothing waits for it yet;
        ``Operation.hurry`` ends that. The process itself has the priority that is in its image.

        Raises:
            ImageUnusable: the image is damaged or does not fit this host.
        """
        with belongings(image, Home(self._site, str(log))) as inherit:
            prefix = self._prefix(slot, any_cpu=gently)
            operation = self._criu.restore(image, inherit, prefix)
        if gently:
            operation.lower_priority()
        return operation

    def copy(self, image: Image, log: Path, files: Mapping[str, int]) -> Operation:
        """Begin to make one more process of an image, gently and on any CPU.

        ``files`` are open descriptors by the paths that the image has for what they replace. All
        processes of the image have the ``log``.

        Raises:
            ImageUnusable: the image is damaged or does not fit this host.
        """
        with belongings(image, Home(self._site, str(log))) as inherit:
            prefix = self._prefix(None, any_cpu=True)
            everything, log_of_all = {**inherit, **files}, os.path.realpath(log)
            return self._criu.restore(image, everything, prefix, {log_of_all})

    # -- from one node to another; these take long and may be called from another thread -------

    @property
    def criu(self) -> str:
        """CRIU's version, "" without it."""
        return self._criu.version

    def bundle(self, number: int) -> Path:
        """The path of the bundle with that number, next to the images."""
        return self._store.folder / f"{number}.bundle"

    def pack(self, image: Image, home: Home, number: int, without: str = "") -> str:
        """Write the bundle with that number, without the actor's rows; as ``bundle.pack`` does."""
        return pack(image, home, self.bundle(number), rows=False, without=without)

    def unpack(self, number: int, home: Home) -> Image:
        """Unpack the bundle with that number and remove it; raises as ``bundle.unpack``."""
        bundle = self.bundle(number)
        try:
            return unpack(bundle, self._store, home, self._criu.version)
        finally:
            bundle.unlink(missing_ok=True)

    def pack_memory(self, memory: Path, number: int) -> str:
        """Write the bundle with that number of a template's memory; as ``template_memory.pack``."""
        return template_memory.pack(memory, self.bundle(number))

    def unpack_memory(self, number: int) -> str:
        """Unpack that bundle and remove it; raises as ``template_memory.unpack``."""
        bundle = self.bundle(number)
        try:
            return template_memory.unpack(bundle, Path(self._site.folder))
        finally:
            bundle.unlink(missing_ok=True)

    def await_no_longer(self, name: str) -> None:
        """Remove template memory of that name soon, unless a clone here needs it."""
        if name in self.awaited:
            self.awaited.discard(name)
            self.may_free = True

    def has_memory(self, name: str) -> bool:
        """Whether template memory of that name is here."""
        return template_memory.path_of(name, Path(self._site.folder)).exists()

    # ------------------------------------------------------------------------------------------

    def drop(self, image: Image) -> None:
        """Remove an image that is not needed any more."""
        self._store.drop(image.name)

    def free_memory(self, pids: Iterable[int]) -> None:
        """Remove memory that came with clones from other nodes and that nothing here needs.

        Images and the processes ``pids`` may need it. No dump or restore may be under way.
        """
        self.may_free = False
        for path in unused(Path(self._site.folder), self._store.images, pids):
            if path.stem not in self.awaited:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove every image."""
        self._store.close()
        remove_left(_HERE, moment=0.0)
