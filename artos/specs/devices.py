"""Where learners compute: a device for all of them, or one for each by its name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from artos.errors import Refused
from artos.specs.unreadable import UNREADABLE
from artos.system.closest import closest

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
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = msgspec.json.decode(value)
        except UNREADABLE as error:
            raise Refused([f"device={value!r}: {error}: {_WORDS}"]) from None
    elif isinstance(value, str) and "=" in value:
        pairs = [part.partition("=") for part in value.split(",")]
        names = [name.strip() for name, _, _ in pairs]
        if twice := {name for name in names if names.count(name) > 1}:
            raise Refused([f"device={value!r} names {', '.join(sorted(twice))} twice: {_WORDS}"])
        value = dict(zip(names, (device.strip() for *_, device in pairs), strict=True))
    try:
        return msgspec.convert(value, str | dict[str, str])
    except msgspec.ValidationError as error:
        raise Refused([f"device={value!r}: {str(error).lower()}: {_WORDS}"]) from None


def by_learner(setting: DeviceSetting, learners: Collection[str]) -> dict[str, str]:
    """The device of each learner: the CPU for those that a mapping does not name."""
    each = setting if isinstance(setting, Mapping) else dict.fromkeys(learners, setting)
    return {name: each.get(name, CPU) for name in learners}


def unknown(setting: DeviceSetting, learners: Collection[str]) -> Iterator[str]:
    """Names in a setting that are no learner's."""
    for name in setting if isinstance(setting, Mapping) else ():
        if name not in learners:
            near = closest(name, [*learners])
            yield f"device names {name!r}, which is no learner{near} (have {', '.join(learners)})"


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
