"""The checkpoint of a run: one safetensors file and the manifest that names it (no pickle)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
import safetensors.numpy
from msgspec.structs import replace
from numpy.typing import NDArray
from safetensors import SafetensorError

from artos.buffer.actor_block import ActorBlock
from artos.buffer.rows_file import RowsFile, check_rows, read_rows, write_rows
from artos.errors import CheckpointFault
from artos.protocol.fields import Count, PathText, Seconds, Small
from artos.protocol.unreadable import UNREADABLE
from artos.scaling.actor_count import Kept
from artos.spec import ArraySpec
from artos.system.durable import remove_drafts, write_durably
from artos.system.regular_file import contents
from artos.system.seal import is_sealed, seal

FORMAT = 1
"""Raised when an older ARTOS could not read the checkpoints of this one."""
MANIFEST = "manifest.json"

Arrays: TypeAlias = dict[str, NDArray[Any]]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a checkpoint. The fields from ``format`` on are filled in by ``save``.

    ``rows`` counts the rows each actor had committed, ``incarnations`` the processes that wrote
    each actor's block, ``resumes`` how often the run was resumed. ``seconds`` is training time
    so far. ``objects`` are the versions of the objects that the learner publishes beside the
    weights, saved as arrays ``object.NAME``. ``scaling`` is the number of actors, and how it was
    decided. ``not_restored`` lists in words what ``--resume`` starts afresh. ``rows_file`` is the
    file of the replay buffer, ``states`` that of the members' states, if there are any;
    ``states_of`` are checksums of the parts of the plan that these must fit, ``states_seal`` is the
    seal of their checksum (``artos.system.seal``).
    """

    workload: str
    env: str
    seed: Count
    version: Count
    steps: Count
    updates: Count
    episodes: Count = 0
    seconds: Seconds = 0.0
    rows: tuple[Count, ...] = ()
    incarnations: tuple[Count, ...] = ()
    resumes: Small = 0
    objects: dict[str, Count] = {}
    scaling: Kept | None = None
    restored: tuple[str, ...] = ()
    not_restored: tuple[str, ...] = ()
    format: int = FORMAT
    layout: tuple[ArraySpec, ...] = ()
    file: PathText = ""
    sha256: str = ""
    date: str = ""
    rows_file: RowsFile | None = None
    states: PathText = ""
    states_sha256: str = ""
    states_seal: str = ""
    states_of: dict[str, str] = {}


def layout_of(arrays: Mapping[str, NDArray[Any]]) -> tuple[ArraySpec, ...]:
    """Names, shapes and dtypes of ``arrays``, sorted by name."""
    return tuple(
        ArraySpec(name, tuple(array.shape), array.dtype.name)
        for name, array in sorted(arrays.items())
    )


def save(
    folder: Path,
    arrays: Mapping[str, NDArray[Any]],
    manifest: Manifest,
    blocks: Mapping[int, ActorBlock] | None = None,
    states: bytes = b"",
) -> Manifest:
    """Save a checkpoint in ``folder`` and return its completed manifest.

    ``blocks`` are those of the actors if their rows are to be saved, ``states`` is what the members
    hold. All go to files with new names; renaming the manifest is the single step that makes them
    the checkpoint; older files are removed last. So if the writer is killed at any point, a
    checkpoint that loads is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_drafts(folder)
    try:
        return _saved(folder, arrays, manifest, blocks, states)
    except OSError:
        with suppress(CheckpointFault):  # what came to nothing takes no room on a full disk
            _remove_older(folder, read_manifest(folder))
        raise


def _saved(
    folder: Path,
    arrays: Mapping[str, NDArray[Any]],
    manifest: Manifest,
    blocks: Mapping[int, ActorBlock] | None,
    states: bytes,
) -> Manifest:
    dense = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    data = safetensors.numpy.save(dense, metadata={"format": "np"})
    digest = hashlib.sha256(data).hexdigest()
    done = replace(
        manifest,
        format=FORMAT,
        layout=layout_of(dense),
        rows_file=None,
        states="",
        sha256=digest,
        file=f"arrays-{manifest.version}-{digest[:12]}.safetensors",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    write_durably(folder / done.file, data)
    done = _with_states(folder, _with_rows(folder, done, blocks), states)
    text = msgspec.json.format(msgspec.json.encode(done), indent=1)
    write_durably(folder / MANIFEST, text + b"\n")
    _remove_older(folder, done)
    return done


def _with_rows(
    folder: Path, manifest: Manifest, blocks: Mapping[int, ActorBlock] | None
) -> Manifest:
    if blocks is None:
        return manifest
    draft = folder / f".rows.{os.getpid()}.tmp"
    try:
        rows = write_rows(draft, blocks)
        name = f"rows-{manifest.version}-{rows.xxh3[:12]}.safetensors"
        draft.replace(folder / name)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return replace(manifest, rows_file=replace(rows, file=name))


def _with_states(folder: Path, manifest: Manifest, states: bytes) -> Manifest:
    if not states:
        return manifest
    digest = hashlib.sha256(states).hexdigest()
    name = f"states-{manifest.version}-{digest[:12]}.pickle"
    write_durably(folder / name, states)
    return replace(manifest, states=name, states_sha256=digest, states_seal=seal(digest))


def are_foreign_states(manifest: Manifest) -> bool:
    """Whether there are states, which reading unpickles, that another user may have made."""
    return bool(manifest.states) and not is_sealed(manifest.states_sha256, manifest.states_seal)


def load_states(folder: Path, manifest: Manifest, states_of: Mapping[str, str]) -> bytes:
    """What the members held, as ``save`` was given it; empty if it was given nothing.

    Raises:
        CheckpointFault: it is missing or damaged, or of a plan with other ``states_of``.
    """
    theirs = manifest.states_of
    if manifest.states and theirs != states_of:
        names = [n for n in sorted({*theirs, *states_of}) if theirs.get(n) != states_of.get(n)]
        why = (
            f"what its members held does not fit other {', '.join(names)}: resume with the same "
            "settings, or leave it and the replay buffer out by --set checkpoint=model"
        )
        raise CheckpointFault(str(folder), why)
    return _read(folder, manifest.states, manifest.states_sha256) if manifest.states else b""


def restore_rows(folder: Path, manifest: Manifest, blocks: Mapping[int, ActorBlock]) -> None:
    """Fill new blocks with the rows that were saved, if any were.

    Raises:
        CheckpointFault: the file is missing or damaged, or does not fit the blocks.
    """
    if (rows := manifest.rows_file) is not None:
        check_rows(folder / _plain(folder, rows.file), rows)
        read_rows(folder / rows.file, rows, blocks)


def load(folder: Path, expected: Sequence[ArraySpec] | None = None) -> tuple[Arrays, Manifest]:
    """Read the checkpoint in ``folder``; with ``expected`` also check that its arrays fit.

    Raises:
        CheckpointFault: it is missing, truncated, foreign, of another format, or of other arrays.
    """
    manifest = read_manifest(folder)
    if expected is not None:
        _compare(folder, manifest.layout, expected)
    try:
        data = _read(folder, manifest.file, manifest.sha256)
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
        text = contents(folder / MANIFEST)
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


def _plain(folder: Path, name: str) -> str:
    """The name of a file in this folder, checked."""
    if not name or Path(name).name != name:
        raise CheckpointFault(str(folder), f"{MANIFEST} names no file of its folder: {name!r}")
    return name


def _read(folder: Path, name: str, sha256: str) -> bytes:
    try:
        data = contents(folder / _plain(folder, name))
    except OSError as error:
        why = f"{name} cannot be read ({error.strerror}); copy the whole checkpoint folder"
        raise CheckpointFault(str(folder), why) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        why = f"{name} is damaged or truncated (checksum differs); restore it from a copy"
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


def _remove_older(folder: Path, current: Manifest) -> None:
    rows = current.rows_file.file if current.rows_file else ""
    for pattern in ("arrays-*.safetensors", "rows-*.safetensors", "states-*.pickle"):
        for path in folder.glob(pattern):
            if path.name not in (current.file, rows, current.states):
                path.unlink(missing_ok=True)
