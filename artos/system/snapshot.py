"""Snapshots: what objects hold at a moment, so that others of their kind can go on from there.

A class names in ``kept`` the attributes that change while it works; what follows from its
constructor is not among them. A class for which that is not enough has two methods instead:
``snapshot()``, which returns anything that can be pickled, and ``go_on(taken)``.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import random
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from artos.errors import ArtosError

Streams = dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """What the members of a run hold, as bytes."""

    data: bytes
    lost: tuple[str, ...] = ()
    """What is not in it, for the user to read."""


class NotKept(ArtosError):
    """A part of a run cannot go on from a snapshot."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


def taken(part: Any) -> Any:
    """What ``part`` holds now, as plain data and as values that are still its own: pickle it."""
    if hasattr(part, "snapshot"):
        return part.snapshot()
    if hasattr(part, "kept"):
        return {name: taken(getattr(part, name)) for name in part.kept}
    return part


def taken_whole(part: Any) -> Any:
    """The same of a user's object, whose class has to say what it holds.

    Raises:
        NotKept: it does not.
    """
    if not (hasattr(part, "kept") or hasattr(part, "snapshot")):
        raise NotKept(f"class {type(part).__name__} has no `kept`")
    return taken(part)


def put_back(part: Any, found: Any) -> None:
    """Have ``part`` go on from what was ``taken`` from another of its kind.

    What an earlier version of its class did not keep stays as it is.
    """
    if hasattr(part, "go_on"):
        part.go_on(found)
        return
    for name in part.kept:
        if name not in found:
            continue
        # In place where others may refer to the value.
        now, then = getattr(part, name), found[name]
        if hasattr(now, "go_on") or hasattr(now, "kept"):
            put_back(now, then)
        elif isinstance(now, np.random.Generator):
            now.bit_generator.state = then.bit_generator.state
        elif isinstance(now, np.ndarray) and now.shape == np.shape(then):
            now[...] = then
        elif isinstance(now, dict):
            now.clear()
            now.update(then)
        else:
            setattr(part, name, then)


def pickled(value: Any) -> bytes:
    """``value`` as bytes.

    Raises:
        NotKept: something in it cannot be pickled.
    """
    out = io.BytesIO()
    try:
        _Pickler(out).dump(value)
    except NotKept:
        raise
    except Exception as error:  # whatever user code raises when it is pickled
        raise NotKept(f"{type(error).__name__}: {error}") from error
    return out.getvalue()


class _Pickler(pickle.Pickler):
    """Takes along what environments hold where they would only say how to make them again.

    ``gymnasium.utils.EzPickle`` pickles the arguments of the constructor, and nothing else.
    """

    def reducer_override(self, value: Any) -> Any:
        forgetful = getattr(sys.modules.get("gymnasium.utils"), "EzPickle", ())
        kind = type(value)
        if isinstance(value, forgetful) and kind.__getstate__ is forgetful.__getstate__:
            return copyreg.__newobj__, (kind,), vars(value), None, None, _fill  # type: ignore[attr-defined]
        return NotImplemented


def _fill(made: Any, attributes: dict[str, Any]) -> None:
    vars(made).update(attributes)


def unpickled(data: bytes) -> Any:
    """The inverse of ``pickled``. It runs code, so only for files of a run that is resumed.

    Raises:
        NotKept: it was taken by other code.
    """
    try:
        return pickle.loads(data)
    except Exception as error:  # whatever user code raises when it is unpickled
        raise NotKept(f"{type(error).__name__}: {error}") from error


def global_streams() -> Streams:
    """The states of the global random generators of this process: Python's, NumPy's, torch's."""
    found: Streams = {"random": random.getstate(), "numpy": np.random.get_state()}
    if "torch" in sys.modules:
        torch: Any = sys.modules["torch"]
        found["torch"] = torch.get_rng_state().numpy().copy()
        if torch.cuda.is_initialized():
            found["cuda"] = [each.numpy() for each in torch.cuda.get_rng_state_all()]
    return found


def set_global_streams(streams: Streams) -> None:
    """Have the global random generators go on from there."""
    random.setstate(streams["random"])
    np.random.set_state(streams["numpy"])
    if "torch" in streams:
        torch: Any = sys.modules["torch"]
        torch.set_rng_state(torch.from_numpy(streams["torch"]))
        if "cuda" in streams and torch.cuda.is_available():  # a run may go on without its GPU
            torch.cuda.set_rng_state_all([torch.from_numpy(each) for each in streams["cuda"]])
