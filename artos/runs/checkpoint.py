"""The checkpoint of a run: one safetensors file and the manifest that names it (no pickle)."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
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
from artos.buffer.object_region import ObjectSlot
from artos.buffer.rows_file import RowsFile, check_rows, read_rows, write_rows
from artos.buffer.samplers.priority_memory import copied
from artos.buffer.shm_folder import PRIORITIES
from artos.errors import CheckpointFault
from artos.specs.actor_count import Kept
from artos.specs.configuration import Configuration
from artos.specs.fields import Count, PathText, Seconds, Small
from artos.specs.keys import ArraySpec
from artos.specs.unreadable import UNREADABLE
from artos.system.durable import remove_drafts, write_durably
from artos.system.regular_file import contents
from artos.system.seal import is_sealed, seal

FORMAT = 1
"""Raised when this ARTOS could not read the checkpoints of an older one."""
_COUNTS, _WIDENED = ("step", "count"), (((), "float32"), ((), "float64"))
"""How older checkpoints have the steps of an optimiser, and how they are read."""
MANIFEST = "manifest.json"
SAVED, BEST = "checkpoint", "best"
"""Folders of a run: its newest version, and the one with the best evaluation (``save``)."""

PAST = re.compile(r"([^/]+/|)past\.(\d{1,18})\.(.+)")
"""Name of an array of a past version; ``NAME/`` begins it if it is of a learner beside the first.
"""
PARAMETER = "model."
"""Begins the names of the arrays that are the parameters of the weights."""

Arrays: TypeAlias = dict[str, NDArray[Any]]


def past_in(saved: Mapping[str, NDArray[Any]], front: str = "") -> dict[int, Arrays]:
    """The arrays of past versions, by version: the first learner's, or those of ``NAME/``."""
    found: dict[int, Arrays] = {}
    for name, array in saved.items():
        if (part := PAST.fullmatch(name)) is not None and part[1] == front:
            found.setdefault(int(part[2]), {})[part[3]] = array
    return found


def past_arrays(pasts: Iterable[ObjectSlot], public: Iterable[ArraySpec]) -> Arrays:
    """Copies of past versions by the names that ``past_in`` finds, without a front."""
    names = [array.name for array in public]
    return {f"past.{past.version}.{n}": past.arrays[n].copy() for past in pasts for n in names}


class SavedLearner(msgspec.Struct, frozen=True):
    """What a checkpoint has of a learner beside the first, as arrays ``NAME/ARRAY``."""

    version: Count
    updates: Count = 0
    objects: dict[str, Count] = {}
    """Versions of what it publishes besides its weights, saved as ``NAME/object.OBJECT``."""


class Without(msgspec.Struct, frozen=True):
    """What a manifest says of a run that goes on without its members' states."""

    steps: Count
    restored: tuple[str, ...]
    not_restored: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a checkpoint. The fields from ``format`` on are filled in by ``save``."""

    workload: str
    env: str
    seed: Count
    version: Count
    steps: Count
    updates: Count
    episodes: Count = 0
    seconds: Seconds = 0.0
    """Training time so far."""
    rows: tuple[Count, ...] = ()
    """How many rows each actor had committed, and were handed over where rows are."""
    incarnations: tuple[Count, ...] = ()
    """How many processes had written each actor's block."""
    resumes: Small = 0
    """How often the run was resumed."""
    usage: dict[str, Any] = {}
    """What the run has cost so far (``artos.protocol.usage.Usage``)."""
    objects: dict[str, Count] = {}
    """Versions of what the learner publishes besides the weights, saved as ``object.NAME``."""
    learners: dict[str, SavedLearner] = {}
    """The learners beside the first."""
    untold: tuple[str, ...] = ()
    """Weights and objects of which triggers did not know the saved version yet."""
    triggers: dict[str, dict[str, str]] = {}
    """What triggers remember, as JSON, by target and by the trigger or the part of it."""
    configuration: Configuration | None = None
    """What was set while the run went; None if an earlier ARTOS saved it."""
    returns: dict[str, Any] = {}
    """What the run remembers of the returns that it makes known to triggers."""
    scaling: Kept | None = None
    """The number of actors, and how it was decided."""
    evaluated: dict[str, Any] = {}
    """In ``best/``: what its evaluation found (``head.records.evaluations.Evaluated``)."""
    restored: tuple[str, ...] = ()
    """What ``--resume`` restores, for people."""
    not_restored: tuple[str, ...] = ()
    """What ``--resume`` begins again, for people."""
    format: int = FORMAT
    layout: tuple[ArraySpec, ...] = ()
    file: PathText = ""
    sha256: str = ""
    date: str = ""
    rows_file: RowsFile | None = None
    """The file of the replay buffer, if it was saved."""
    priorities: PathText = ""
    """The file of the priorities of these rows, if there were any."""
    priorities_sha256: str = ""
    states: PathText = ""
    """The file of the members' states, if they were saved."""
    states_sha256: str = ""
    states_seal: str = ""
    """The seal of that checksum (``artos.system.seal``)."""
    states_of: dict[str, str] = {}
    """Checksums of the parts of the plan that the states must fit."""
    unlisted: Count = 0
    """Of the ``episodes``, those that are not in ``episodes.csv``: they ended, no more is known."""
    without_states: Without | None = None


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
    priorities: Sequence[Path] = (),
) -> Manifest:
    """Save a checkpoint in ``folder`` and return its completed manifest.

    ``blocks`` are those of the actors if their rows are to be saved, with their ``priorities``,
    which are files in shared memory; ``states`` is what the members hold. Everything is written to
    files with new names; renaming the manifest is the single step that makes them the checkpoint;
    older files are removed last. So if the writer is killed at any point, a checkpoint that loads
    is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_drafts(folder)
    dense = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    data = safetensors.numpy.save(dense, metadata={"format": "np"})
    digest = hashlib.sha256(data).hexdigest()
    done = replace(
        manifest,
        format=FORMAT,
        layout=layout_of(dense),
        rows_file=None,
        priorities="",
        states="",
        sha256=digest,
        file=f"arrays-{manifest.version}-{digest[:12]}.safetensors",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    try:
        write_durably(folder / done.file, data)
        if blocks is not None:
            done = replace(done, rows_file=_write_rows(folder, manifest.version, blocks))
            if priorities:
                data = safetensors.numpy.save({path.name: copied(path) for path in priorities})
                digest = hashlib.sha256(data).hexdigest()
                name = f"priorities-{manifest.version}-{digest[:12]}.safetensors"
                write_durably(folder / name, data)
                done = replace(done, priorities=name, priorities_sha256=digest)
        if states:
            digest = hashlib.sha256(states).hexdigest()
            name = f"states-{manifest.version}-{digest[:12]}.pickle"
            write_durably(folder / name, states)
            done = replace(done, states=name, states_sha256=digest, states_seal=seal(digest))
        text = msgspec.json.format(msgspec.json.encode(done), indent=1)
        write_durably(folder / MANIFEST, text + b"\n")
        _remove_older(folder, done)
    except OSError:
        with suppress(CheckpointFault):  # an attempt that failed leaves nothing on a full disk
            _remove_older(folder, read_manifest(folder))
        raise
    return done


def _write_rows(folder: Path, version: int, blocks: Mapping[int, ActorBlock]) -> RowsFile:
    draft = folder / f".rows.{os.getpid()}.tmp"
    try:
        rows = write_rows(draft, blocks)
        name = f"rows-{version}-{rows.xxh3[:12]}.safetensors"
        draft.replace(folder / name)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return replace(rows, file=name)


def are_foreign_states(manifest: Manifest) -> bool:
    """Whether there are states, which reading unpickles, that another user may have made."""
    return bool(manifest.states) and not is_sealed(manifest.states_sha256, manifest.states_seal)


def load_states(folder: Path, manifest: Manifest, states_of: Mapping[str, str]) -> bytes:
    """What the members held, as it was given to ``save``; empty if nothing was.

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


def restore_priorities(folder: Path, manifest: Manifest, into: Path) -> None:
    """Put the files of priorities that were saved into the folder ``into``, if any were.

    Raises:
        CheckpointFault: the file is missing or damaged, or holds something else.
    """
    if not manifest.priorities:
        return
    data = _read(folder, manifest.priorities, manifest.priorities_sha256)
    try:
        found = safetensors.numpy.load(data)
    except (SafetensorError, KeyError) as error:
        why = f"{manifest.priorities} is no safetensors file: {error}"
        raise CheckpointFault(str(folder), why) from error
    for name, content in found.items():
        if not name.startswith(PRIORITIES):
            raise CheckpointFault(str(folder), f"{manifest.priorities} has no priorities: {name!r}")
        (into / _plain(folder, name)).write_bytes(content.tobytes())


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
        return load(folder, expected)  # a live run has just saved a newer checkpoint
    try:
        arrays = {
            name: array if array.flags.writeable else array.copy()
            for name, array in safetensors.numpy.load(data).items()
        }
    except (SafetensorError, KeyError) as error:
        raise CheckpointFault(
            str(folder), f"{manifest.file} is no safetensors file: {error}"
        ) from error
    _compare(folder, layout_of(arrays), manifest.layout)
    for spec in expected or ():
        arrays[spec.name] = arrays[spec.name].astype(spec.dtype, copy=False)
    return arrays, manifest


def read_manifest(folder: Path) -> Manifest:
    """The manifest, without reading the arrays.

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


def kept_in(run: Path, *, best: bool = False) -> Path:
    """The folder of a run's newest version, or of the one with the best evaluation.

    Raises:
        CheckpointFault: no version was evaluated yet.
    """
    if best and not (run / BEST / MANIFEST).is_file():
        why = (
            "no version is kept as the best one yet: a run keeps it from its first evaluation on, "
            "if it is given --set evaluate_every=N"
        )
        raise CheckpointFault(str(run), why)
    return run / (BEST if best else SAVED)


class _Format(msgspec.Struct):
    format: int


def _plain(folder: Path, name: str) -> str:
    """``name``, once it is certain that it is that of a file in this folder."""
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


def _compare(folder: Path, found: Sequence[ArraySpec], expected: Sequence[ArraySpec]) -> None:
    ours, theirs = ({a.name: (a.shape, a.dtype) for a in side} for side in (expected, found))
    faults = [f"{name!r} is missing" for name in sorted(ours.keys() - theirs.keys())]
    faults += [f"{name!r} is unknown" for name in sorted(theirs.keys() - ours.keys())]
    faults += [
        f"{name!r} is {_text(theirs[name])} instead of {_text(ours[name])}"
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
        and not (name.endswith(_COUNTS) and (theirs[name], ours[name]) == _WIDENED)
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
    now = (current.file, rows, current.priorities, current.states)
    kinds = "arrays-*.safetensors", "rows-*.safetensors", "priorities-*.safetensors"
    for pattern in (*kinds, "states-*.pickle"):
        for path in folder.glob(pattern):
            if path.name not in now:
                path.unlink(missing_ok=True)
