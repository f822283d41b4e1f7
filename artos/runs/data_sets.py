"""Reads the data sets of a workload: what they hold, before a run, and their rows, as it begins."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from artos.buffer.data_block import Columns, DataBlock
from artos.buffer.layout import BlockSpec
from artos.buffer.part_of_block import Part, stored_name
from artos.buffer.rows_file import check_rows, rows_of
from artos.buffer.samplers.episodes import TRUNCATIONS, has_marks
from artos.errors import CheckpointFault, Refused
from artos.runs.checkpoint import SAVED, Manifest, read_manifest
from artos.specs.data import SET_NAME, DataSet, Rows
from artos.specs.keys import AGES_KEY, VALID_KEY, DataKey
from artos.system.closest import closest
from artos.system.durable import replacing
from artos.system.regular_file import contents, opened

T = TypeVar("T")
_UNREADABLE = (
    OSError, ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile, zlib.error,
    CheckpointFault, NotImplementedError,
)  # fmt: skip
_MOST_AGE = 255
_ENDS = ("terminations", TRUNCATIONS)
_MINARI = "minari:"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_NO_ROWS = (
    "the checkpoint of this run has no rows: those of a run that is done are in it with --set "
    "checkpoint=all, if its learner draws rows; or write some by `artos record {}`"
)


class _Form(NamedTuple):
    """Shape and dtype of an array of a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def examined(
    data: Mapping[str, Rows],
    folder: str,
    keys: Sequence[DataKey],
    faults: list[str],
    parts: Mapping[str, Part] = MappingProxyType({}),
) -> tuple[DataSet, ...]:
    """What the data sets of a workload hold of ``keys``; no row is read.

    ``parts`` are those of the policies that draw, by data set. Paths are relative to ``folder``.
    What is wrong is added to ``faults``.
    """
    found = []
    for name, rows in data.items():
        wrong: list[str] = []
        if not (isinstance(name, str) and SET_NAME.fullmatch(name)):
            wrong.append("call it by letters, digits and _, a letter first")
        elif not isinstance(rows, Rows):
            wrong.append(f'write Rows("FILE.npz") or Rows("RUN"), not {rows!r}')
        else:
            path, part = Path(folder, rows.path), parts.get(name)
            there = DataSet(name, str(path), 0, 1, (), part.policy if part else "")
            try:
                path = _located(rows.path) or path.resolve()
                there = _examined(there, path, part.keys if part else keys, wrong)
            except Refused as refused:
                wrong += refused.faults
            except _UNREADABLE as error:
                wrong.append(_why(path, error))
            found.append(there)  # also if it cannot be used: triggers may name it
        faults += [f"data[{name!r}]: {fault}" for fault in wrong]
    return tuple(found)


def filled(
    path: Path, spec: BlockSpec, data_set: DataSet, choices: Mapping[str, Sequence[int]]
) -> DataBlock:
    """Make the block of a data set in the new file ``path``.

    ``choices`` are as ``choices_of`` has them.

    Raises:
        Refused: the file is not as it was when it was examined, or holds values that no learner
            can use; lists all faults.
        ShmTooSmall: there is not enough shared memory.
    """
    source, faults = Path(data_set.path), list[str]()
    try:
        again = _examined(data_set, source, data_set.keys, faults)
        if again != data_set:
            faults.append("has just changed: begin again")
        if not faults:
            back = max(key.stack for key in spec.keys) - 1
            with _parts(source, back, data_set.policy) as parts:
                block = DataBlock.filled(path, spec, parts)
            faults += _unusable(block, spec.keys, choices, of_run=source.is_dir())
    except _UNREADABLE as error:
        faults.append(_why(source, error))
    if faults:
        raise Refused([f"data[{data_set.name!r}] ({source.name}): {fault}" for fault in faults])
    return block


def read(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a data set: of a file, or of a run, whose actors' rows follow one another.

    Raises:
        Refused: it cannot be read, or is not whole.
    """
    try:
        with _parts(path) as parts:
            names = [*parts[0]] if parts else []
            return {name: np.concatenate([part[name] for part in parts]) for name in names}
    except _UNREADABLE as error:
        raise Refused([_why(path, error)]) from error


def see_free(path: Path) -> None:
    """See that a data set can be written to ``path``.

    Raises:
        Refused: it is no .npz file, there is one already, or its folder is not there.
    """
    if path.suffix != ".npz":
        raise Refused([f"{path}: a data set is written to FILE.npz"])
    if path.exists():
        raise Refused([f"{path} is there already: choose another file by -o, or remove it"])
    if not path.parent.is_dir():
        raise Refused([f"there is no folder {path.parent}: make it, or choose another by -o"])


def write(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a data set; the file is whole, or not there.

    Raises:
        OSError: it cannot be written, e.g. as the disk is full; nothing is left behind.
    """
    with replacing(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def choices_of(env_spec: Mapping[str, Any] | None, policy: str = "") -> dict[str, tuple[int, ...]]:
    """By data key, among how many each element of what a policy sees and does is a choice.

    ``env_spec`` is that of a plan. They are counted from 0. Numbers that are no choices are left
    out.
    """
    facts: Any = env_spec or {}
    facts = facts.get("seats", {}).get(policy, facts)
    found = {part["name"]: part["sizes"] for part in facts.get("parts", ())}
    found["actions"] = facts.get("actions", {}).get("sizes", ())
    return {name: tuple(sizes) for name, sizes in found.items() if sizes}


def _unusable(
    block: DataBlock,
    keys: Sequence[DataKey],
    choices: Mapping[str, Sequence[int]],
    *,
    of_run: bool,
) -> Iterator[str]:
    for key in keys:
        values = block.arrays[key.name]
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            yield f"{key.name!r} has NaN or infinity in row {row}: leave out such episodes"
        if key.name in choices:
            counts = np.reshape(choices[key.name], key.shape)
            wrong = (values < 0) | (values >= counts)
            if key.name == "actions" and VALID_KEY in block.arrays:
                wrong[~block.arrays[VALID_KEY]] = False  # nothing is done there
            if wrong.any():
                place = tuple(np.argwhere(wrong)[0])
                most = np.broadcast_to(counts, values.shape)[place] - 1
                yield (
                    f"{key.name!r} has {values[place]} in row {place[0]}, and the environment has "
                    f"0 to {most} there: choices are counted from 0"
                )
        if key.name == VALID_KEY and not values.any():
            yield f"{VALID_KEY!r} is False in all rows, so none is a transition"
        if key.name == AGES_KEY and values[0].any():
            yield f"{AGES_KEY!r} is not 0 in the first row: begin with an episode's first row"
    ends = [block.arrays[key.name] for key in keys if key.name in _ENDS]
    # Of a run some are lacking: where an actor was restarted, or the rows of another follow.
    if ends and has_marks(block) and not of_run:
        ended = np.logical_or.reduce(ends) & block.arrays[VALID_KEY]
        lacking = ended & (np.roll(block.arrays[AGES_KEY], -1, axis=0) == 0)
        # A file may have been made of one.
        if 2 * lacking.sum() > ended.sum():
            yield (
                f"row {np.argwhere(lacking)[0][0]} ends an episode whose last observation has no "
                f"row of its own: store one after it, in which {VALID_KEY!r} is False"
            )


def _examined(of: DataSet, path: Path, keys: Sequence[DataKey], faults: list[str]) -> DataSet:
    forms = _own(_forms(path), of.policy)
    known = {key.name: key for key in keys if key.name in forms}
    lengths = {form.shape[0] if form.shape else 0 for n, form in forms.items() if n in known}
    envs: dict[int, str] = {}
    for key in known.values():
        shape, dtype = forms[key.name]
        if dtype != np.dtype(key.dtype):
            faults.append(
                f"{key.name!r} is {dtype}, the run's rows have {key.dtype}: store it with "
                f".astype({key.dtype!r})"
            )
        if key.per_env and shape[2:] == key.shape and len(shape) == 2 + len(key.shape):
            envs[shape[1]] = key.name
        elif shape[1:] == key.shape and shape:
            envs |= {1: key.name} if key.per_env else {}
        else:
            wide = f", or (rows, environments{_sides(key)})" if key.per_env else ""
            faults.append(f"{key.name!r} has shape {shape}: store it as (rows{_sides(key)}){wide}")
    if not known:
        faults.append(
            f"{path.name} has none of the run's data keys ({', '.join(k.name for k in keys)}): "
            f"it has {', '.join(forms) or 'nothing'}"
        )
    elif len(lengths) > 1:
        sizes = ", ".join(f"{n!r} {forms[n].shape[0]}" for n in known if forms[n].shape)
        faults.append(f"its arrays differ in their number of rows ({sizes})")
    elif lengths == {0} or 0 in envs:
        faults.append(f"{path.name} has no rows")
    elif len(envs) > 1:
        faults.append(f"its arrays differ in their number of environments: {envs}")
    return msgspec.structs.replace(
        of,
        path=str(path),
        rows=max(lengths, default=0),
        envs=max(envs, default=1),
        keys=(*known.values(),),
    )


def _sides(key: DataKey) -> str:
    return "".join(f", {side}" for side in key.shape)


def _why(path: Path, error: Exception) -> str:
    if isinstance(error, CheckpointFault):
        return str(error)
    if isinstance(error, FileNotFoundError) and path.name == "data":
        return f"there is no data set in {path}: fetch it by `minari download ID`, or name another"
    if isinstance(error, FileNotFoundError):
        near = [each.name for each in path.parent.glob("*.npz")] if path.parent.is_dir() else []
        return f"there is no file {path}{closest(path.name, near)}"
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{path} cannot be read as one of NumPy's .npz files, a run, or Minari's: {said}"


# -- files and runs --------------------------------------------------------------------------------


def _located(address: str) -> Path | None:
    """The folder of a data set of Minari's, ``minari:ID``; None for any other address."""
    if not address.startswith(_MINARI):
        return None
    from artos.runs import minari_sets  # noqa: PLC0415  # as below

    return minari_sets.located(address.removeprefix(_MINARI))


def _is_minaris(path: Path) -> bool:
    try:
        return "data_format" in json.loads(contents(path / "metadata.json"))
    except (OSError, ValueError):
        return False


def _forms(path: Path) -> dict[str, _Form]:
    """Shape and dtype of each array, without its values."""
    if _is_minaris(path):
        from artos.runs import minari_sets  # noqa: PLC0415  # an extra, and no code for daemons

        return {name: _Form(*form) for name, form in minari_sets.forms(path).items()}
    if path.is_dir():
        parts = _kept(path)
        first = parts[0] if parts else {}
        rows = sum(len(part[next(iter(part))]) for part in parts)
        return {n: _Form((rows, *array.shape[1:]), array.dtype) for n, array in first.items()}
    with opened(path) as file, zipfile.ZipFile(file) as archive:
        found = {}
        for entry in archive.namelist():
            with archive.open(entry) as array:
                version = npy.read_magic(array)
                shape, _, dtype = _HEADERS[version](array)
            if dtype.hasobject:
                raise ValueError(f"{entry} holds Python objects; store plain numbers")
            found[entry.removesuffix(".npy")] = _Form(shape, dtype)
        return found


class _Own(Mapping[str, T]):
    """Some of the values of a mapping by other names; each is read when it is asked for."""

    def __init__(self, values: Mapping[str, T], names: Mapping[str, str]) -> None:
        self._values, self._names = values, names

    def __getitem__(self, name: str) -> T:
        return self._values[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _own(there: Mapping[str, T], policy: str) -> Mapping[str, T]:
    """What is there of a policy, if it is there by ``POLICY/KEY``; else all of it."""
    front = stored_name(policy, "")
    names = {name.removeprefix(front): name for name in there if name.startswith(front)}
    return _Own(there, names) if policy and names else there


@contextmanager
def _parts(path: Path, back: int = 0, policy: str = "") -> Iterator[Sequence[Columns]]:
    """The rows, of a run in one part for each of its actors; stacks reach ``back`` rows back."""
    if _is_minaris(path):
        from artos.runs import minari_sets  # noqa: PLC0415  # as above

        yield (minari_sets.read(path),)
    elif path.is_dir():
        manifest = _manifest(path)
        assert manifest.rows_file is not None
        check_rows(path / SAVED / manifest.rows_file.file, manifest.rows_file)
        yield _kept(path, back, policy)
    else:
        with opened(path) as file, np.load(file, allow_pickle=False) as arrays:
            yield (_own(arrays, policy),)


def _manifest(run: Path) -> Manifest:
    manifest = read_manifest(run / SAVED)
    if manifest.rows_file is None:
        raise CheckpointFault(str(run / SAVED), _NO_ROWS.format(run))
    if Path(manifest.rows_file.file).name != manifest.rows_file.file:
        raise CheckpointFault(str(run / SAVED), "it names no file of its folder")
    return manifest


def _kept(run: Path, back: int = 0, policy: str = "") -> list[Columns]:
    """The rows that a run's checkpoint has, so that none of an actor follows one of another."""
    manifest = _manifest(run)
    assert manifest.rows_file is not None
    found = list[Columns]()
    for actor in rows_of(run / SAVED / manifest.rows_file.file, manifest.rows_file):
        part = {**_own(actor, policy)}
        # "", or POLICY/ of each of several policies.
        fronts = [name.removesuffix(AGES_KEY) for name in part if name.endswith(AGES_KEY)]
        for front in fronts:
            of_ages, of_valid = front + AGES_KEY, front + VALID_KEY
            if of_valid in part:
                # The row before is of another actor: what is here of an episode begins here.
                ages, valid = part[of_ages].copy(), part[of_valid].copy()
                first = np.arange(min(len(ages), _MOST_AGE), dtype=ages.dtype)
                np.minimum(ages[: len(first)], first[:, None], out=ages[: len(first)])
                valid[:back] = False  # whose stacks are not all here
                part |= {of_ages: ages, of_valid: valid}
        found.append(part)
    return found
