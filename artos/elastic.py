"""How a workload's actors live on their node: plain data that travels in a plan (design §7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from artos.errors import Refused

Park = Literal["auto", "memory", "freeze", "checkpoint", "never"]
"""Where actors wait that have nothing to do."""

Start = Literal["auto", "clone", "fork", "cold"]
"""How processes of actors come to be: restored copies of a warm template, its forks, anew."""

WireDtype = Literal["float32", "bfloat16"]
"""How float32 weights travel to other nodes: as they are, or rounded to half the bytes."""


class Elastic(msgspec.Struct, frozen=True):
    """What may be set for the actors of a run, each with ``--set NAME=VALUE``.

    ``park`` and ``start`` choose a way, ``auto`` the best this host has. ``pin`` keeps a running
    actor on the CPU of its slot. ``slots`` is how many actors may run at once (0: one a usable
    CPU). ``images`` is where those of actors are kept: ``disk`` (the run's folder), ``tmpfs`` or a
    folder; ``image_mb`` is the room they may take (0: half of what is free there). ``wire_dtype``
    is how weights travel to actors on other nodes.
    """

    park: Park = "auto"
    start: Start = "auto"
    pin: bool = True
    slots: int = 0
    images: str = "disk"
    image_mb: int = 0
    wire_dtype: WireDtype = "float32"

    def changed(self, settings: Mapping[str, Any]) -> Elastic:
        """The same with settings of a user's, numbers and words as they were typed.

        Raises:
            Refused: values that mean nothing; all faults.
        """
        values = msgspec.structs.asdict(self)
        faults: list[str] = []
        for name, value in settings.items():
            values[name] = _fitted(name, value, faults)
        if faults:
            raise Refused(faults)
        return Elastic(**values)


NAMES = frozenset(Elastic.__struct_fields__)
"""Settings that concern every workload's actors, whatever its own settings are."""


_CHOICES = {"Park": Park, "Start": Start, "WireDtype": WireDtype}


def _fitted(name: str, value: Any, faults: list[str]) -> Any:
    kind = Elastic.__annotations__[name]
    choices = get_args(_CHOICES.get(kind))
    if choices and value not in choices:
        faults.append(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    if kind == "int" and (not str(value).isdecimal()):
        faults.append(f"{name} must be a number of at least 0, not {value!r}")
        return 0
    if kind == "bool" and str(value).lower() not in ("true", "false"):
        faults.append(f"{name} must be true or false, not {value!r}")
    if kind == "str" and (not isinstance(value, str) or not value.strip() or "\0" in value):
        faults.append(f"{name} must be disk, tmpfs or a folder, not {value!r}")
    if kind == "int":
        return int(value)
    return str(value).lower() == "true" if kind == "bool" else value
