"""What triggers ask of their arguments; each fault says what to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from artos.specs.keys import EPISODES, VERSION_KEY, episodes_of
from artos.specs.members import ACTORS, EVALUATOR
from artos.system.closest import closest

if TYPE_CHECKING:
    from artos.runs.plan import Plan


WITHOUT_ROWS = {
    ACTORS: "a DataKeyTrigger hands over rows, and actors take none: let a learner method consume "
    "them",
    EVALUATOR: "a DataKeyTrigger hands over rows, and the evaluator takes none: let an "
    "ObjectKeyTrigger or a TimeTrigger say when it plays",
}
"""Why roles cannot be handed rows."""


def unknown_data(keys: Sequence[str], plan: Plan) -> Iterator[str]:
    """Data keys that actors do not write."""
    return _unknown("data key", keys, [*(key.name for key in plan.data_keys), VERSION_KEY])


def unknown_object(name: str, plan: Plan) -> Iterator[str]:
    """An object key that has no region in the model block."""
    return _unknown("object key", (plan.object_name(name),), [*plan.every_object])


def unpublished(name: str, plan: Plan) -> Iterator[str]:
    """An object key that no learner publishes."""
    known, role = [*plan.every_object], name.rpartition("/")[0] or plan.learner
    if role not in plan.learners:
        near = closest(role, plan.learners)
        have = ", ".join(plan.learners)
        yield f"unknown object key {name!r}: there is no learner {role!r}{near} (have {have})"
    elif plan.object_name(name) not in known and not (name == EPISODES or episodes_of(name)):
        yield (
            f"unknown object key {name!r}{closest(name, known)} (have {', '.join(known)}): the "
            f"{role} does not publish it; name it in the {role}'s objects, and call self.publish"
        )


def _unknown(kind: str, names: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    if not names:
        yield f"names no {kind}: name one of {', '.join(known)}"
    for name in names:
        if name not in known:
            have = f"(have {', '.join(known)})"
            yield f"unknown {kind} {name!r}{closest(str(name), known)} {have}"


def counts(least: int, **numbers: Any) -> Iterator[str]:
    """Numbers that are not whole, or too small; None is no number and no fault."""
    for name, value in numbers.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and value >= least):
            yield f"{name} must be a whole number of at least {least}, not {value!r}"


def is_within(value: Any, above: float, most: float) -> bool:
    """Whether it is a number above one and up to another."""
    return isinstance(value, int | float) and above < value <= most


def short(keys: Sequence[str]) -> str:
    """The names of keys, or how many they are."""
    shown = ", ".join(keys if len(keys) <= 4 else keys[:3])
    return shown if len(keys) <= 4 else f"{shown} and {len(keys) - 3} more keys"


def plural(count: int, noun: str) -> str:
    """``2 actors``, ``1 actor``."""
    return f"{count} {noun}{'s' * (count != 1)}"
