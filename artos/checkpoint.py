"""The checkpoint of a run: one safetensors file and the manifest that names it (no pickle)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from artos.errors import CheckpointFault
from artos.protocol.unreadable import UNREADABLE
from artos.scaling.actor_count import Kept
from artos.spec import ArraySpec
from artos.system.durable import remove_drafts, write_durably

FORMAT = 1
"""Raised when an older ARTOS could not read the checkpoints of this one."""
MANIFEST = "manifest.json"

Arrays: TypeAlias = dict[str, NDArray[Any]]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a checkpoint. The last five fields are filled in by ``save``.

    ``rows`` counts the rows each actor had committed, ``incarnations`` the processes that wrote
    each actor's block, ``resumes`` how often the run was resumed. ``seconds`` is training time
    so far. ``objects`` are the versions of the objects that the learner publishes beside the
    weights, saved as arrays ``object.NAME``. ``scaling`` is the number of actors, and how it was
    decided. ``not_restored`` lists in words what ``--resume`` starts afresh.
    """

    workload: str
    env: str
    seed: int
    version: int
    steps: int
    updates: int
    episodes: int = 0
    seconds: float = 0.0
    rows: tuple[int, ...] = ()
    incarnations: tuple[int, ...] = ()
    resumes: int = 0
    objects: dict[str, int] = {}
    scaling: Kept | None = None
    restored: tuple[str, ...] = ()
    not_restored: tuple[str, ...] = ()
    format: int = FORMAT
    layout: tuple[ArraySpec, ...] = ()
    file: str = ""
    sha256: str = ""
    date: str = ""


def layout_of(arrays: Mapping[str, NDArray[Any]]) -> tuple[ArraySpec, ...]:
    """Names, shapes and dtypes of ``arrays``, sorted by name."""
    return tuple(
        ArraySpec(name, tuple(array.shape), array.dtype.name)
        for name, array in sorted(arrays.items())
    )


def save(folder: Path, arrays: Mapping[str, NDArray[Any]], manifest: Manifest) -> Manifest:
    """Save a checkpoint in ``folder`` and return its completed manifest.

    The arrays go to a file with a new name; renaming the manifest is the single step that makes
    them the checkpoint; older files are removed last. So if the writer is killed at any point, a
    checkpoint that loads is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_drafts(folder)
    dense = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    data = safetensors.numpy.save(dense, metadata={"format": "np"})
    digest = hashlib.sha256(data).hexdigest()
    done = msgspec.structs.replace(
        manifest,
        format=FORMAT,
        layout=layout_of(dense),
        sha256=digest,
        file=f"arrays-{manifest.version}-{digest[:12]}.safetensors",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    write_durably(folder / done.file, data)
    text = msgspec.json.format(msgspec.json.encode(done), indent=1)
    write_durably(folder / MANIFEST, text + b"\n")
    _remove_older(folder, done.file)
    return done


def load(folder: Path, expected: Sequence[ArraySpec] | None = None) -> tuple[Arrays, Manifest]:
    """Read the checkpoint in ``folder``; with ``expected`` also check that its arrays fit.

    Raises:
        CheckpointFault: it is missing, truncated, foreign, of another format, or of other arrays.
    """
    manifest = read_manifest(folder)
    if expected is not None:
        _compare(folder, manifest.layout, expected)
    try:
        data = _read_arrays(folder, manifest)
    except CheckpointFault:
        if read_manifest(folder) == manifest:
            raise
        return load(folder, expected)  # a live run saved a newer checkpoint meanwhile
    try:
        arrays = {name: _writable(array) for name, array in safetensors.numpy.load(data).items()}
    except (SafetensorError, KeyError) as error:
        raise CheckpointFault(
            str(folder), f"{manifest.file} is no safetensors file: {error}"
        ) from error
    _compare(folder, layout_of(arrays), manifest.layout)
    return arrays, manifest


def read_manifest(folder: Path) -> Manifest:
    """The manifest alone, without reading the arrays.

    Raises:
        CheckpointFault: it is missing, truncated, foreign or of another format.
    """
    try:
        text = (folder / MANIFEST).read_bytes()
    except OSError as error:
        why = (
            f"there is no checkpoint ({error.strerror}: {MANIFEST}); give the folder of a saved run"
        )
        raise CheckpointFault(str(folder), why) from error
    try:
        found = msgspec.json.decode(text, type=_Format).format
        if found != FORMAT:
            raise CheckpointFault(str(folder), f"it has format {found}, this ARTOS reads {FORMAT}")
        return msgspec.json.decode(text, type=Manifest)
    except UNREADABLE as error:
        why = f"{MANIFEST} is truncated or not of ARTOS ({error}); use another run's checkpoint"
        raise CheckpointFault(str(folder), why) from error


def check_workload(folder: Path, manifest: Manifest, workload: str, env: str) -> None:
    """Check that a checkpoint belongs to this workload and environment.

    Raises:
        CheckpointFault: it belongs to another workload or environment, which the error names.
    """
    if (manifest.workload, manifest.env) != (workload, env):
        why = (
            f"it was saved by {manifest.workload} on {manifest.env}, this run is {workload} on "
            f"{env}: resume it with the same algorithm and --env"
        )
        raise CheckpointFault(str(folder), why)


class _Format(msgspec.Struct):
    format: int


def _read_arrays(folder: Path, manifest: Manifest) -> bytes:
    if not manifest.file or Path(manifest.file).name != manifest.file:
        raise CheckpointFault(
            str(folder), f"{MANIFEST} names no file of its folder: {manifest.file!r}"
        )
    try:
        data = (folder / manifest.file).read_bytes()
    except OSError as error:
        why = f"{manifest.file} cannot be read ({error.strerror}); copy the whole checkpoint folder"
        raise CheckpointFault(str(folder), why) from error
    if hashlib.sha256(data).hexdigest() != manifest.sha256:
        why = f"{manifest.file} is damaged or truncated (checksum differs); restore it from a copy"
        raise CheckpointFault(str(folder), why)
    return data


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.flags.writeable else array.copy()


def _compare(folder: Path, found: Sequence[ArraySpec], expected: Sequence[ArraySpec]) -> None:
    ours, theirs = ({a.name: (a.shape, a.dtype) for a in side} for side in (expected, found))
    faults = [f"{name!r} is missing" for name in sorted(ours.keys() - theirs.keys())]
    faults += [f"{name!r} is unknown" for name in sorted(theirs.keys() - ours.keys())]
    faults += [
        f"{name!r} is {_text(theirs[name])} instead of {_text(ours[name])}"
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
    ]
    if faults:
        shown = "; ".join(faults[:8]) + (f"; and {len(faults) - 8} more" if len(faults) > 8 else "")
        why = f"its arrays do not fit ({shown}): resume with the same network and settings"
        raise CheckpointFault(str(folder), why)


def _text(shape_and_dtype: tuple[tuple[int, ...], str]) -> str:
    shape, dtype = shape_and_dtype
    return f"{dtype}{list(shape)}"


def _remove_older(folder: Path, current: str) -> None:
    for path in folder.glob("arrays-*.safetensors"):
        if path.name != current:
            path.unlink(missing_ok=True)
