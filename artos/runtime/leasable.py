"""The devices of this machine's pool that a learner of this process can compute on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import torch

from artos.errors import ArtosError
from artos.learners import device as devices
from artos.learners.device import uuid_of
from artos.pool.devices import (
    CPU_DEVICE,
    DEVICE,
    VARIABLE,
    device_faults,
    device_resource,
    device_resources,
    own_devices,
)
from artos.pool.faults import PoolRefused
from artos.pool.pool import Pool
from artos.pool.resources import Resource
from artos.pool.view import read_pool
from artos.specs.devices import CPU, GPU, POOL


class Listed(Protocol):
    """A device as the pool lists it."""

    @property
    def name(self) -> str:
        """Its name in the pool: what ``cuda:0`` was for the process that added it."""

    @property
    def uuid(self) -> str:
        """Which GPU it is; "" if that is not known."""


def pool_faults(replicas: int = 1, setting: str = "") -> Iterator[str]:
    """Why a learner of this process can lease none of the pool's devices, or not one for each.

    ``setting`` is what says that there are so many ``replicas``.
    """
    try:
        there: list[Listed] = [each for each in read_pool().resources if each.kind == DEVICE]
    except (ArtosError, OSError) as error:
        yield f"device {POOL!r}: {error}"
        return
    if not there:
        if found := [f"{VARIABLE}: {fault}" for fault in device_faults(own_devices())]:
            yield from found
            return
        there = [*own_resources()]
    if not (names := usable(there)):
        yield unusable(there)
    elif len(names) < replicas:
        yield (
            f"{setting} lease a device each, and the pool of this machine has only "
            f"{', '.join(names)} for them: lower learners, or add devices (`artos worker "
            f"--devices`, {VARIABLE})"
        )


def names_in(pool: Pool) -> list[str]:
    """The names of the devices of a pool that torch can use in this process.

    Raises:
        PoolRefused: there is none.
    """
    there = [each for each in pool.resources if each.kind == DEVICE]
    if not (names := usable(there)):
        raise PoolRefused([unusable(there)])
    return names


def usable(resources: Iterable[Listed]) -> list[str]:
    """The names of those devices that torch can use in this process."""
    return [each.name for each in resources if name_of(each)]


def unusable(resources: Iterable[Listed]) -> str:
    """The fault of a pool that has these devices, none of which torch can use here."""
    names = ", ".join(each.name for each in resources)
    return (
        f"device {POOL!r}: the pool of this machine has {names}, and torch can use none of them "
        "here: see `artos pool` and CUDA_VISIBLE_DEVICES, add one (`artos worker --devices`), or "
        f"use {CPU}"
    )


def own_resources() -> list[Resource]:
    """What is leased on a machine whose pool has no device: all its GPUs, or else one CPU device.

    ``ARTOS_DEVICES`` may name others. On a CPU device learners take turns, each with as many
    threads as it likes.
    """
    if named := own_devices():
        return device_resources(named)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    there = [device_resource(f"cuda:{n}", uuid_of(n)) for n in range(count)]
    return there or [Resource(f"{CPU_DEVICE}0")]


def name_of(resource: Listed) -> str:
    """What torch calls a device of the pool in this process, "" if it cannot use it.

    ``cpu:NAME`` are turns on the CPU. A GPU is known by its UUID, as this process may number GPUs
    in another way.
    """
    if resource.name.startswith(CPU_DEVICE):
        return CPU
    if not resource.uuid:
        known = GPU.fullmatch(resource.name) and not [*devices.faults(resource.name)]
        return resource.name if known else ""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return next((f"cuda:{n}" for n in range(count) if uuid_of(n) == resource.uuid), "")
