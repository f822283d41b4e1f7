"""Computes the rewards of a data set anew, by a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.buffer.part_of_block import stored_name
from artos.buffer.samplers.transitions import NEXT
from artos.errors import Refused
from artos.runs.data_sets import read, see_free, write
from artos.runs.loader import last_lines, load_object
from artos.specs.keys import AGES_KEY, VALID_KEY, is_observation

_REWARDS = "rewards"
_NEEDED = (_REWARDS, VALID_KEY, AGES_KEY)

Arrays = dict[str, NDArray[Any]]


class Rescored(msgspec.Struct, frozen=True, kw_only=True):
    """A data set with new rewards that was written."""

    path: str
    rows: int
    transitions: int
    """Rows whose rewards were computed: the others are no transitions, and keep theirs."""
    mean_before: float
    """Of the rewards of transitions."""
    mean: float


def rescore(source: Path, reward: str, path: Path, policy: str = "") -> Rescored:
    """Write the rows of ``source``, a run's folder or a file, with the rewards of ``FILE.py:NAME``.

    The function is called once with all transitions, by data key, (n, *shape), and the observations
    that came next as ``next.KEY``; it returns rewards, (n,). Of a stack of frames both are the
    newest one. Of rows of several policies those of the agents of ``policy`` are meant, without its
    name; the others are written as they are.

    Raises:
        Refused: the data set or the function cannot be read, the function raised or returned
            something else, or there is a file already; nothing was written.
    """
    see_free(path)
    score = load_object(reward)
    if not callable(score):
        raise Refused([f"{reward} is a {type(score).__name__}: give a function of rows"])
    whole, front = read(source), stored_name(policy, "") if policy else ""
    arrays = {n.removeprefix(front): each for n, each in whole.items() if n.startswith(front)}
    if why := _wrong_policy(policy, whole):
        raise Refused([f"{source} {why}"])
    if lacks := [name for name in _NEEDED if name not in arrays]:
        raise Refused([f"{source} lacks {', '.join(lacks)}: it is no data set of whole episodes"])
    if faults := list(_uneven(arrays)):
        raise Refused([f"{source}: {fault}" for fault in faults])
    old = arrays[_REWARDS]
    there = _transitions(arrays)
    if not there.any():
        raise Refused([f"{source} has no transition"])
    found = _scored(score, reward, arrays, there)
    new = old.copy()
    new[there] = found
    write(path, whole | {front + _REWARDS: new})
    return Rescored(
        path=str(path), rows=len(old), transitions=int(there.sum()),
        mean_before=float(old[there].mean()), mean=float(new[there].mean()),
    )  # fmt: skip


def _wrong_policy(policy: str, arrays: Iterable[str]) -> str:
    """Why rows are not those of this policy, or, if none is named, of one that has no name."""
    end = stored_name("", VALID_KEY)
    named = sorted(name.removesuffix(end) for name in arrays if name.endswith(end))
    if policy in named or not (policy or named):
        return ""
    if not named:
        return f"has rows without a policy's name: leave --policy {policy} out"
    return f"has rows of several policies: choose by --policy one of {', '.join(named)}"


def _uneven(arrays: Arrays) -> Iterator[str]:
    """Arrays that do not belong to the same rows."""
    shape = arrays[VALID_KEY].shape
    for name in (_REWARDS, AGES_KEY):
        if arrays[name].shape != shape:
            yield f"{name!r} has shape {arrays[name].shape}, {VALID_KEY!r} has {shape}"
    for name, array in arrays.items():
        if array.shape[:1] != shape[:1]:
            yield f"{name!r} has {len(array) if array.ndim else 0} rows, {VALID_KEY!r} {shape[0]}"


def _transitions(arrays: Arrays) -> NDArray[np.bool_]:
    """Which rows (and environments) are transitions whose successor is there."""
    there: NDArray[np.bool_] = arrays[VALID_KEY].astype(np.bool_)
    there[:-1] &= arrays[AGES_KEY][1:] > 0
    there[-1:] = False
    return there


def _scored(
    score: Callable[[Arrays], Any], name: str, arrays: Arrays, there: NDArray[np.bool_]
) -> NDArray[Any]:
    rows = np.nonzero(there)
    after = (rows[0] + 1, *rows[1:])
    shown = {key: array[rows] for key, array in arrays.items() if _is_wide(array, there)}
    shown |= {NEXT + key: arrays[key][after] for key in shown if is_observation(key)}
    try:
        found = np.asarray(score(shown))
    except Exception as error:
        raise Refused([f"{name} raised: {last_lines(error)}"]) from error
    if found.shape != rows[0].shape or found.dtype.kind not in "biuf":
        what = f"{found.dtype} {found.shape}"
        raise Refused([f"{name} returned {what}: return a number for each row, ({len(rows[0])},)"])
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise Refused([f"{name} returned {found[row]} for row {rows[0][row]}: rewards are finite"])
    return found.astype(arrays[_REWARDS].dtype)


def _is_wide(array: NDArray[Any], there: NDArray[np.bool_]) -> bool:
    """Whether it has a value for each row and environment."""
    return array.shape[: there.ndim] == there.shape
