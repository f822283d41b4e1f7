"""What users are told about the environment that an address leads to."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym

from artos.envs import hints
from artos.envs.make import is_atari, is_factory
from artos.specs.address import parted


def address_notes(asked: str, full: str) -> Iterator[str]:
    """Which version is meant by an address without one, and that some are bare emulators.

    ``full`` is ``full_address(asked)``.
    """
    name = parted(full)[0]
    if full != asked:
        yield f"{parted(asked)[0]} is {name}, its newest version"
    if is_factory(full) or is_atari(full):
        return
    spec = gym.registry.get(name.rpartition(":")[2])
    if spec is None or hints.package_that_registers(spec) != "ale_py":
        return
    if spec.kwargs.get("obs_type") != "ram":
        yield (
            f"{name} is the bare emulator, whole frames in colour that no preprocessing has seen: "
            f"--env {hints.usual(name)} for the usual one"
        )
