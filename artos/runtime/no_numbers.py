"""What a workload has, or its actor or learners have, where a number belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from artos.specs.configuration import Changeable
from artos.specs.contracts import Actor, Learner
from artos.specs.workload import Workload

_OF_WORKLOAD = (
    "steps", "capacity", "total_steps", "total_updates", "evaluate_every", "evaluation_episodes",
    "weight", "priority",
)  # fmt: skip
_OF_ACTOR = ("envs", "history", "every")


def no_numbers(workload: Workload) -> Iterator[str]:
    """What is wrong with each; before this nothing of them can be compared."""
    actor = workload.actor
    yield from _unlike("", workload, _OF_WORKLOAD)
    yield from _unlike(f"{type(actor).__name__}.", actor, _OF_ACTOR)
    roles: tuple[Actor | Learner, ...] = (actor, *workload.every_learner.values())
    for each in roles:
        yield from _not_changeable(f"{type(each).__name__}.changeable", each.changeable)


def _not_changeable(where: str, named: Any) -> Iterator[str]:
    if isinstance(named, str | Changeable) or not isinstance(named, Iterable):
        yield f"{where} is {named!r}: list what is, as (Changeable({'NAME'!r}),)"
        return
    for each in named:
        if isinstance(each, Changeable):
            yield from (f"{where}: {fault}" for fault in each.misfits())
        else:
            yield f"{where} has {each!r}: write Changeable({str(each)!r})"


def _unlike(front: str, owner: Any, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = getattr(owner, name)
        if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
            yield f"{front}{name} must be a number, not {value!r}"
