"""From what an environment shows to what a policy takes: one observation, or a batch of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from artos.envs.masks import ActionMasks
from artos.envs.spec import EnvSpec, Part
from artos.errors import Refused
from artos.specs.keys import MASK_KEY, OBSERVATIONS, DataKey

Array = NDArray[Any]


def batch_of(obs: Any, spec: EnvSpec, mask: Any = None) -> tuple[dict[str, Array], bool]:
    """Observations as arrays (B, *value_shape) by data key, and whether it was a single one.

    ``obs`` is an array, or for a Dict space a dict of arrays, nested or by dotted names
    (``camera.left``), for a Tuple space a tuple. Texts are left out, as actors do. Numbers are cast
    as ``Stepper`` casts them, and categories counted from 0. ``mask`` is what ``info`` says about
    the actions that may be chosen, if it says so.

    Raises:
        Refused: parts are missing or unknown, or do not have the shape, kind or range that the
            environment has, or a mask allows nothing; it names all faults.
    """
    names = {part.name for part in spec.parts}
    flat = _flat(obs, OBSERVATIONS, names)
    given = {name: value for name, value in flat if name not in spec.left_out}
    if mask is not None:
        given[MASK_KEY] = mask
    hint = {MASK_KEY: ': give act mask=info["action_mask"]' * (spec.masked == "info")}
    faults = [f"{name} is missing{hint.get(name, '')}" for name in names - given.keys()]
    faults += [f"{name} is none of {', '.join(sorted(names))}" for name in given.keys() - names]
    arrays = {name: np.asarray(value) for name, value in given.items()}
    if MASK_KEY in arrays:
        said = arrays[MASK_KEY]
        arrays[MASK_KEY] = said != 0
        if (said != arrays[MASK_KEY]).any():
            faults.append(f"{MASK_KEY} has other numbers than 1 and 0")
    faults += [fault for part in spec.parts if part.name in arrays
               for fault in _faults(part, arrays[part.name])]  # fmt: skip
    there = [(part, arrays[part.name]) for part in spec.parts if part.name in arrays]
    # The size of each part's batch; None where it is one observation.
    counts = {
        None if value.shape == part.value_shape else len(value) if value.ndim else None
        for part, value in there
    }
    if not faults and len(counts) > 1:
        faults.append("some parts are one observation and others a batch, or of another size")
    if not faults and spec.masked:
        rows = arrays[MASK_KEY].reshape(-1, arrays[MASK_KEY].shape[-1])
        if ActionMasks(spec, len(rows)).empty(rows).any():
            faults.append(f"{MASK_KEY} allows no action")
    if faults:
        raise Refused([f"{spec.name}: {fault}" for fault in sorted(faults)])
    (count,) = counts
    batches = {}
    for part, value in there:
        rows = value.reshape(-1, *part.value_shape)
        counted = rows - _start(part) if part.start else rows
        batches[part.name] = np.ascontiguousarray(counted.astype(part.dtype, copy=False))
    return batches, count is None


def _flat(obs: Any, name: str, names: set[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(obs, tuple) and name not in names:  # of a Tuple space
        obs = dict(enumerate(obs))
    if not isinstance(obs, Mapping):
        yield name, obs
        return
    for key, value in obs.items():
        yield from _flat(value, f"{name}.{key}", names)


def _faults(part: Part, value: Array) -> Iterator[str]:
    shape = part.value_shape
    if shape not in (value.shape, value.shape[1:]) or (value.ndim != len(shape) and not len(value)):
        batch = ", ".join(("B", *map(str, shape)))
        yield f"{part.name} has shape {value.shape}; give {shape}, or ({batch}) for a batch"
    elif value.dtype.kind not in "biuf":
        yield f"{part.name} has dtype {value.dtype}; the environment shows {part.dtype}"
    elif np.dtype(part.dtype).kind != "f" and (bad := _cast(part, value) != value).any():
        among = f"{value[bad].flat[0]} among them"
        yield f"{part.name} has dtype {value.dtype} ({among}); the environment shows {part.dtype}"
    elif not (kept := np.isfinite(_cast(part, value))).all():
        lost = f"{value[~kept].flat[0]}: NaN or infinity, or too large for {part.dtype}"
        yield f"{part.name} holds {lost}"
    elif part.sizes:
        counted, sizes = value - _start(part), np.array(part.sizes).reshape(part.shape)
        if ((counted < 0) | (counted >= sizes)).any():
            yield (
                f"{part.name} goes from {value.min()} to {value.max()}; it has {part.sizes} choices"
                + (f" from {part.start}" * bool(part.start))
            )


def _start(part: Part) -> Any:
    """The environment's first category, which policies see as 0; one for each element."""
    return np.array(part.start).reshape(part.shape) if part.start else np.int64(0)


def _cast(part: Part, value: Array) -> Array:
    with np.errstate(all="ignore"):
        return value.astype(part.dtype)


def state_of(
    keys: Sequence[DataKey], state: Mapping[str, Any] | None, count: int
) -> dict[str, Any]:
    """The recurrent state of ``count`` environments, (B, *shape) by name: zeros if it is empty.

    Raises:
        Refused: there must be one, or it is for another number of environments.
    """
    if keys and state is None:
        begin = "give act a dict as state, empty where episodes begin"
        raise Refused([f"this policy remembers the episode: {begin}"])
    if not keys or not state:
        return {key.name: np.zeros((count, *key.shape), key.dtype) for key in keys}
    wanted = {key.name: (count, *key.shape) for key in keys}
    found = {name: np.shape(state.get(name, ())) for name in wanted}
    if found != wanted:
        raise Refused([f"state has shapes {found}; for these observations give {wanted}"])
    return {name: np.asarray(state[name]) for name in wanted}
