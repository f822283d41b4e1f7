"""Quotas of users and workloads, as they stand in ``head.toml``. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from artos.specs.fields import NAME
from artos.system.closest import closest

EACH = "*"
"""The name of the quota of everyone who has none of their own."""


class Quota(msgspec.Struct, frozen=True):
    """What the runs of one user, or of one workload, may hold; None: without a limit."""

    slots: int | None = None
    """CPU slots held at once."""
    devices: int | None = None
    """Devices held at once."""
    cpu_seconds: float | None = None
    """Seconds of slots, in all."""
    device_seconds: float | None = None
    """Seconds of devices, in all."""


class Quotas(msgspec.Struct, frozen=True):
    """The quotas by name; the one called ``EACH`` is that of everyone who is not named."""

    users: dict[str, Quota] = {}
    workloads: dict[str, Quota] = {}

    def __bool__(self) -> bool:
        return bool(self.users or self.workloads)

    def of(self, user: str, workload: str) -> Iterator[tuple[str, Quota]]:
        """The quotas that a run is under, each with its owner (``user NAME``)."""
        for kind, name, quotas in (
            ("user", user, self.users),
            ("workload", workload, self.workloads),
        ):
            if quota := quotas.get(name, quotas.get(EACH)):
                yield f"{kind} {name}", quota

    @property
    def limit_seconds(self) -> bool:
        """Whether a quota limits the seconds held in all."""
        quotas = [*self.users.values(), *self.workloads.values()]
        return any(each.cpu_seconds or each.device_seconds for each in quotas)

    def beyond(self, slots: int, devices: int) -> list[str]:
        """Faults: quotas larger than a cluster of so many slots and devices; 0: not known."""
        there = {"slots": slots, "devices": devices}
        return [
            f"quotas.{kind}.{whose}: {name} = {wanted}, but the cluster has {there[name]}"
            for kind in _KINDS
            for whose, quota in getattr(self, kind).items()
            for name in there
            if there[name] and (wanted := getattr(quota, name) or 0) > there[name]
        ]


WORDS = {
    "slots": "slots",
    "devices": "devices",
    "cpu_seconds": "CPU-seconds",
    "device_seconds": "device-seconds",
}
"""What each limit of a quota counts, for users."""
_KINDS, _LIMITS = Quotas.__struct_fields__, Quota.__struct_fields__
_COUNTS = ("slots", "devices")


def quotas_of(table: Any, faults: list[str]) -> Quotas:
    """The quotas in a table of ``head.toml``; what is wrong with it is added to ``faults``."""
    if not isinstance(table, Mapping):
        faults.append("quotas: write tables [quotas.users] and [quotas.workloads]")
        return Quotas()
    for kind in table.keys() - {*_KINDS}:
        faults.append(f"unknown quotas.{kind}{closest(kind, _KINDS)}: use {', '.join(_KINDS)}")
    found: dict[str, dict[str, Quota]] = {kind: {} for kind in _KINDS}
    for kind in _KINDS:
        named = table.get(kind, {})
        if not isinstance(named, Mapping):
            faults.append(f"quotas.{kind}: write a table, NAME = {{ slots = 4 }}")
            continue
        for name in named:
            if kind == "users" and name != EACH and not NAME.fullmatch(name):
                how = 'write the name of a key (artos keys DIR --user NAME), or "*" for all others'
                faults.append(f"quotas.users.{name!r} is no user: {how}")
        for name, limits in named.items():
            found[kind][name] = _quota(f"quotas.{kind}.{name}", limits, faults)
    return Quotas(**found)


def _quota(where: str, limits: Any, faults: list[str]) -> Quota:
    if not isinstance(limits, Mapping) or not limits:
        faults.append(f"{where}: write one or more of {', '.join(_LIMITS)}, as in {{ slots = 4 }}")
        return Quota()
    found = {}
    for name, value in limits.items():
        if name not in _LIMITS:
            hint = closest(name, _LIMITS) or f": use {', '.join(_LIMITS)}"
            faults.append(f"{where} has no {name!r}{hint}")
        elif fault := _fault(name, value):
            faults.append(f"{where}: {name} must be {fault}, not {value!r}")
        else:
            found[name] = value
    return Quota(**found)


def _fault(name: str, value: Any) -> str:
    whole = name in _COUNTS
    number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and value > 0:
        return ""
    return "a whole number of 1 or more" if whole else "a number of seconds above 0"
