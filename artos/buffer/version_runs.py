"""Rows of an actor, cut where the version of a policy changes that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from artos.buffer.actor_block import ActorBlock
from artos.specs.keys import MODEL_PARAM, OTHER_VERSIONS, VERSION_KEY


def version_runs(
    block: ActorBlock, start: int, stop: int, keys: Sequence[str] = (VERSION_KEY,)
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Rows ``start`` to ``stop``, of which there is one, in runs: ``(end, versions)`` of each.

    ``keys`` are the data keys that hold the versions.
    """
    last = versions_at(block, stop - 1, keys)
    if versions_at(block, start, keys) == last:  # versions of an actor never go back
        yield stop, last
        return
    rows = np.stack([np.concatenate(block.views(key, start, stop)) for key in keys])
    ends = np.append(np.flatnonzero(np.diff(rows).any(0)) + 1, stop - start)
    for end in ends.tolist():
        yield start + end, tuple(rows[:, end - 1].tolist())


def versions_at(block: ActorBlock, step: int, keys: Sequence[str]) -> tuple[int, ...]:
    """By which versions a row was made."""
    return tuple(int(block.arrays[key][block.index(step)]) for key in keys)


def made_by(block: ActorBlock, step: int) -> tuple[int, dict[str, int]]:
    """The version of the weights that acted in a row, and those of other learners' by name."""
    others = other_versions(block)
    version, *more = versions_at(block, step, (VERSION_KEY, *others))
    return version, dict(zip(others.values(), more, strict=True))


def other_versions(block: ActorBlock) -> dict[str, str]:
    """The weights of learners beside the first by which rows are made, by their data keys."""
    front = OTHER_VERSIONS
    names = (key.name for key in block.spec.all_keys if key.name.startswith(front))
    return {name: f"{name.removeprefix(front)}/{MODEL_PARAM}" for name in names}
