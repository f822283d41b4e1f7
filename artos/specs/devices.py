"""Where learners compute: a device for all of them, or one for each by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from artos.errors import Refused
from artos.specs.by_learner import named

CPU, POOL = "cpu", "pool"
"""What a device may be called, beside ``auto`` and ``cuda:N``."""
GPU = re.compile(r"cuda(?::(\d{1,3}))?")
"""What a user may call a GPU, with its number; without one it is the first."""
DeviceSetting = str | Mapping[str, str]
_WORDS = "write a device, or one for each learner, as in policy=cuda:0,model=pool"


def read(value: Any) -> DeviceSetting:
    """A setting as users write it: ``"cuda:0"``, ``"policy=cuda:0,model=pool"``, or a mapping.

    Raises:
        Refused: it is none of these.
    """
    value = named("device", value, _WORDS)
    try:
        return msgspec.convert(value, str | dict[str, str])
    except msgspec.ValidationError as error:
        raise Refused([f"device={value!r}: {str(error).lower()}: {_WORDS}"]) from None


def beside_cpu(setting: Any) -> list[str]:
    """The devices of a setting that are not the CPU; one without names counts once.

    There is none in what is no setting of a device: registration refuses it.
    """
    try:
        found = read(setting)
    except Refused:
        return []
    each = found.values() if isinstance(found, Mapping) else (found,)
    return [device for device in each if device != CPU]


def sought(setting: Any) -> str:
    """The first of its devices that is not the CPU, which a machine has to have; else the CPU."""
    return next(iter(beside_cpu(setting)), CPU)
