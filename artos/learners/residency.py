"""Where a learner's memory goes while others have its device, and how it comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from artos.errors import CannotReturn
from artos.learners.device import Device
from artos.learners.network import Network
from artos.specs.levels import Cost, Level

_NEWEST = 0.3
"""The weight of the newest measurement of a cost."""
_TRIM_SECONDS = 0.001
_BYTES_PER_SECOND = 5e9
"""Guesses, until a level was taken for the first time."""


class Residency:
    """Clears a device level by level, and fills it again.

    To ``TRIM`` is to empty torch's caches and gradients that were used. (A library that unmaps
    memory and keeps its addresses would spare compiled learners, which read weights by address, to
    record their CUDA graphs again.)

    A network is a few flat vectors, and its parameters are views of one of them. Each vector's
    storage is copied to pinned memory and resized to nothing, later resized and filled: tensors
    keep their storages, so every view is valid again, wherever its memory lies by then. (Fully
    sharded training in torch frees and refills its flat parameters in this way.)

    While they are parked, networks must not be used. Not safe between threads.
    """

    def __init__(
        self,
        device: Device,
        networks: Callable[[], Iterable[Network]],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.device, self._networks, self._clock = device, networks, clock
        self._parked: list[_Parked] = []
        self._hosts: list[Tensor] = []
        self._freed, self._seconds = 0, 0.0
        self.level = Level.KEEP
        self._measured: dict[Level, Cost] = {}

    @property
    def resident_bytes(self) -> int:
        """Bytes of networks, gradients and optimiser state that are on the device."""
        return sum(storage.nbytes() for storage, _ in self._storages())

    @property
    def _needed_bytes(self) -> int:
        """Those of them whose content is needed again."""
        return sum(storage.nbytes() for storage, needed in self._storages() if needed)

    @property
    def costs(self) -> dict[Level, Cost]:
        """What each level frees and costs: measured, the newest counting most, or else guessed."""
        held = self.resident_bytes
        taken = self.device.taken_bytes(held)
        guessed = {
            Level.TRIM: Cost(max(0, taken - self._needed_bytes), _TRIM_SECONDS),
            Level.PARK: Cost(taken, 2 * held / _BYTES_PER_SECOND),
        }
        return guessed | self._measured

    def leave(self, level: Level) -> None:
        """Clear the device up to a level; no further than it is cleared already.

        Raises:
            ValueError: ``END``, which only the supervising process can do.
        """
        if level is Level.END:
            raise ValueError("a process cannot end itself and come back: its supervisor does that")
        if level <= self.level:
            return
        began, before = self._clock(), self.device.taken_bytes(self.resident_bytes)
        self._park(all_of_it=level is Level.PARK)
        self.device.drop_caches()
        self._freed += before - self.device.taken_bytes(self.resident_bytes)
        self._seconds += self._clock() - began
        self.level = level

    def enter(self) -> None:
        """Have everything on the device again.

        Raises:
            CannotReturn: there is no room for it; it stays parked.
        """
        if self.level is Level.KEEP:
            return
        began = self._clock()
        self._return()
        seconds = self._seconds + self._clock() - began
        if known := self._measured.get(self.level):
            seconds = known.seconds + _NEWEST * (seconds - known.seconds)
        self._measured[self.level] = Cost(self._freed, seconds)
        self.level, self._freed, self._seconds = Level.KEEP, 0, 0.0

    # -- networks ------------------------------------------------------------------------------

    def _storages(self) -> list[tuple[torch.UntypedStorage, bool]]:
        """What is to be cleared, and whether what is in it is needed again."""
        found: dict[int, tuple[torch.UntypedStorage, bool]] = {}
        for network in self._networks():
            for tensor, needed in network.held():
                storage = tensor.untyped_storage()
                if tensor.device == self.device.device and storage.resizable():
                    found[storage._cdata] = storage, needed
        return list(found.values())

    def _park(self, *, all_of_it: bool) -> None:
        """Empty the storages whose content nobody needs, or all of them."""
        for storage, needed in self._storages():
            size = storage.nbytes()
            if not size or (needed and not all_of_it):
                continue
            host: Tensor | None = None
            if needed:  # memory as before, since it takes long to pin some
                at = sum(parked.host is not None for parked in self._parked)
                if at == len(self._hosts) or len(self._hosts[at]) != size:
                    self._hosts[at:] = [self.device.host_memory(size)]
                host = self._hosts[at]
                host.copy_(_bytes_of(storage), non_blocking=True)
            self._parked.append(_Parked(storage, size, host))
        self.device.synchronize()
        for parked in self._parked:
            parked.storage.resize_(0)

    def _return(self) -> None:
        try:
            for parked in self._parked:
                parked.storage.resize_(parked.size)
        except RuntimeError as error:  # of torch's, out of memory
            for parked in self._parked:
                parked.storage.resize_(0)
            size = sum(parked.size for parked in self._parked)
            raise CannotReturn(size, str(self.device.device), str(error)) from error
        for parked in self._parked:
            if parked.host is not None:
                _bytes_of(parked.storage).copy_(parked.host, non_blocking=True)
        self.device.synchronize()
        self._parked = []


class _Parked(NamedTuple):
    """A storage, how many bytes it had, and where these are if they are needed again."""

    storage: torch.UntypedStorage
    size: int
    host: Tensor | None


def _bytes_of(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
