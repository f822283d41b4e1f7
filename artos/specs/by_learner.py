"""Settings of learners: a value for all of them, or one for each by its name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from artos.errors import Refused
from artos.specs.unreadable import UNREADABLE
from artos.system.closest import closest

T = TypeVar("T")


def named(setting: str, value: Any, words: str) -> Any:
    """``value`` as it is, but as a mapping if it is text like ``"NAME=VALUE,..."`` or JSON.

    ``words`` say how to write it.

    Raises:
        Refused: a name is there twice, or it is no JSON.
    """
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(value)
        except UNREADABLE as error:
            raise Refused([f"{setting}={value!r}: {error}: {words}"]) from None
    if "=" not in value:
        return value
    pairs = [part.partition("=") for part in value.split(",")]
    names = [name.strip() for name, _, _ in pairs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Refused([f"{setting}={value!r} names {', '.join(sorted(twice))} twice: {words}"])
    return dict(zip(names, (each.strip() for *_, each in pairs), strict=True))


def by_learner(value: T | Mapping[str, T], learners: Collection[str], otherwise: T) -> dict[str, T]:
    """The value of each learner: ``otherwise`` for those that a mapping does not name."""
    each = value if isinstance(value, Mapping) else dict.fromkeys(learners, value)
    return {name: each.get(name, otherwise) for name in learners}


def unknown(setting: str, value: Any, learners: Collection[str]) -> Iterator[str]:
    """Names in a value that are no learner's."""
    for name in value if isinstance(value, Mapping) else ():
        if name not in learners:
            near, known = closest(name, [*learners]), ", ".join(learners)
            yield f"{setting} names {name!r}, which is no learner{near} (have {known})"
