"""What ``artos set`` may change while a run goes, and what it has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Annotated, Literal

import msgspec

from artos.errors import Refused
from artos.specs.fields import Finite, Line, Small
from artos.system.closest import closest

MOST_SETTINGS = 100
"""Settings that a message may name; they also travel with the invocations of those they are for."""
Settings = Annotated[dict[Line, Finite], msgspec.Meta(max_length=MOST_SETTINGS)]
"""Values by name, as ``artos set`` takes them: ``learner.lr``."""
Kind = Literal["float", "int", "bool"]
"""Of which kind a number is."""
MAX_LAG = "max_lag"
"""The setting that a learner's triggers with a ``max_lag`` have: how old rows may be, in versions.

It is called so for the first learner, and ``NAME.max_lag`` for another one.
"""


class Changeable(msgspec.Struct, frozen=True):
    """A number among the settings of a learner or an environment that may change in a live run.

    It must be above ``gt``, at least ``ge`` and at most ``le``, as far as these are given. Whole
    numbers are of the kind ``int``, and a ``bool`` is 0 or 1.
    """

    name: str
    gt: float | None = None
    ge: float | None = None
    le: float | None = None
    kind: Kind = "float"

    def misfits(self) -> Iterator[str]:
        """What is wrong with the setting itself: bounds that are no numbers."""
        bounds = (("gt", self.gt), ("ge", self.ge), ("le", self.le))
        for name, bound in bounds:
            if not isinstance(bound, int | float | None):
                yield f"{self.name!r}: {name} must be a number, not {bound!r}"

    def faults(self, shown: str, value: float) -> Iterator[str]:
        """What is wrong with a value of the setting, which users know by the name ``shown``."""
        if self.gt is not None and not value > self.gt:
            yield f"{shown} must be above {self.gt:g}, not {value:g}"
        if self.ge is not None and not value >= self.ge:
            yield f"{shown} must be at least {self.ge:g}, not {value:g}"
        if self.le is not None and not value <= self.le:
            yield f"{shown} must be at most {self.le:g}, not {value:g}"
        if self.kind == "int" and value % 1 != 0:
            yield f"{shown} must be a whole number, not {value:g}"
        if self.kind == "bool" and value not in (0, 1):
            yield f"{shown} must be 0 or 1, not {value:g}"

    @property
    def range(self) -> str:
        """Which values it may have, for people: `` (at least 0, at most 3)``."""
        bounds = (("above", self.gt), ("at least", self.ge), ("at most", self.le))
        said = ", ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)
        return f" ({said})" if said else ""

    def value(self, value: float) -> float | int | bool:
        """A value without faults, in its own type."""
        kinds = {"float": float, "int": int, "bool": bool}
        found: float | int | bool = kinds[self.kind](value)
        return found


class Configuration(msgspec.Struct, frozen=True):
    """The settings of a run that were changed; ``number`` grows with every change."""

    number: Small = 0
    settings: Settings = {}
    by_table: dict[Line, tuple[Small, Finite | None]] = {}
    """The settings that the run's own table has changed: since which number, and what was before
    (None: nothing). What somebody changes by hand afterwards is not among them."""

    def changed(self, settings: Mapping[str, float], *, by_table: bool = False) -> Configuration:
        """With these settings changed, too."""
        now, own = self.number + 1, {**self.by_table}
        for name in settings:
            if by_table:
                own.setdefault(name, (now, self.settings.get(name)))
            else:
                own.pop(name, None)
        return Configuration(now, {**self.settings, **settings}, own)

    def back_to(self, then: Configuration) -> Configuration:
        """As it is by hand, and as the table had changed it ``then``.

        A run that goes on from a checkpoint learns once more what came after, and its table changes
        the same things when it is there. What the checkpoint alone has could not be written down
        when it was set.
        """
        if then.number > self.number:
            return then
        found = {**self.settings}
        for name, (since, before) in self.by_table.items():
            value = before if then.number < since else then.settings.get(name)
            found.pop(name, None)
            found |= {} if value is None else {name: value}
        if found == self.settings:
            return self
        return Configuration(self.number + 1, found, self.by_table)

    def of(self, role: str) -> dict[str, float]:
        """Those of a role, or of the environments, by the names that these know."""
        front = f"{role}."
        found = self.settings.items()
        return {name.removeprefix(front): each for name, each in found if name.startswith(front)}

    def without(self, names: Sequence[str]) -> Configuration:
        """Without the settings of these names."""
        kept = {name: value for name, value in self.settings.items() if name not in names}
        own = {name: since for name, since in self.by_table.items() if name not in names}
        return self if kept == self.settings else Configuration(self.number + 1, kept, own)


def sendable(settings: Mapping[str, float]) -> dict[str, float]:
    """The settings, as they may be part of a message.

    Raises:
        Refused: they may not.
    """
    wrong = [f"{n}={v}: write a finite number" for n, v in settings.items() if not isfinite(v)]
    if len(settings) > MOST_SETTINGS:
        wrong.append(f"{len(settings)} settings are more than {MOST_SETTINGS}: set fewer at once")
    if wrong:
        raise Refused(wrong)
    return {**settings}


def faults(settings: Mapping[str, float], known: Mapping[str, Changeable]) -> Iterator[str]:
    """What is wrong with values by name, where these settings are ``known`` by name."""
    can = ", ".join(known) or "nothing"
    for name, value in settings.items():
        if (setting := known.get(name)) is not None:
            yield from setting.faults(name, value)
        else:
            near = closest(name, [*known])
            yield f"{name} cannot be set while the run goes (what can: {can}){near}"
