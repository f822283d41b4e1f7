"""The learners beside the first in a checkpoint: ``NAME/ARRAY`` of each, all of one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from artos.buffer.past_versions import pinned
from artos.runs.checkpoint import Manifest, SavedLearner, past_arrays, past_in
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from head.run.run import Run

OBJECT = "object."
"""Prefix of a checkpoint's arrays that were published beside the weights."""
Arrays = Mapping[str, NDArray[Any]]


class Taken(NamedTuple):
    """Copies of the newest versions, and what the manifest is to say of them."""

    arrays: dict[str, NDArray[Any]]
    learners: dict[str, SavedLearner]
    untold: list[str]
    """Those of these versions that triggers do not know yet."""


def versions(run: Run) -> tuple[int, ...]:
    """The newest version of each, whether or not triggers were told of it."""
    return tuple(run.learners[name].model.version for name in run.plan.learners[1:])


def taken(run: Run) -> Taken | None:
    """What is to be saved; None while one has published a version that it has not reported.

    One without a version yet is left out, as there is nothing to go on from.
    """
    found = Taken({}, {}, [])
    for name in run.plan.learners[1:]:
        learner = run.learners[name]
        if learner.model.version < 0:
            continue
        slot, *pasts = pinned(learner.model, run.plan.actors)
        try:
            if not learner.has_booked(slot.firing):
                return None
            saved = {n: array.copy() for n, array in slot.arrays.items()}
            saved |= past_arrays(pasts, learner.model.spec.public)
            found.arrays.update({f"{name}/{n}": array for n, array in saved.items()})
        finally:
            learner.model.unpin(run.plan.actors)
        objects = learner.objects.newest()
        found.untold.extend(learner.untold(slot.version, objects))
        front = f"{name}/"
        short = {each.removeprefix(front): value for each, value in objects.items()}
        found.arrays.update({f"{name}/{OBJECT}{n}": each.value for n, each in short.items()})
        numbers = {n: each.version for n, each in short.items()}
        found.learners[name] = SavedLearner(slot.version, learner.updates, numbers)
    return found


def blank(plan: Plan, manifest: Manifest) -> dict[str, NDArray[Any]]:
    """Arrays as a checkpoint of these learners has them."""
    found: dict[str, NDArray[Any]] = {}
    for name, saved in manifest.learners.items():
        if name not in plan.learners[1:]:
            continue
        weights, *objects = plan.of(name).objects
        found |= {f"{name}/{a.name}": np.zeros(a.shape, a.dtype) for a in weights.arrays}
        for spec in (each for each in objects if each.name in saved.objects):
            (value,) = spec.arrays
            found[f"{name}/{OBJECT}{spec.name}"] = np.zeros(value.shape, value.dtype)
    return found


def restore(node: RunMemory, manifest: Manifest, arrays: Arrays) -> None:
    """Publish what was saved as the newest versions, before the learners start."""
    for name, saved in manifest.learners.items():
        past = past_in(arrays, front := f"{name}/")
        own = {n.removeprefix(front): a for n, a in arrays.items() if n.startswith(front)}
        node.restore(name, own, saved.version, past)
        for each in saved.objects.keys() & node.beside[name].objects.keys():
            node.restore_object(name, each, own[OBJECT + each], saved.objects[each])
