"""What servers answered, written and read: whole, cut off, twice, damaged."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artos.runs.answers import AnswersFile, files, read
from artos.runs.tape import TapeDamaged
from artos.specs.keys import DataKey
from artos.specs.servers import ServerSpec

SERVER = ServerSpec("sums", (), (DataKey("sum"), DataKey("pair", (2,), "int16")), 4)


def told(first: int, rows: int) -> dict[str, Any]:
    numbers = np.arange(first, first + rows)
    return {"sum": numbers.astype(np.float64), "pair": np.stack([numbers, -numbers], 1)}


def written(run: Path, *frames: tuple[list[int], list[int], list[int], int]) -> Path:
    """A file with frames of (places, numbers, rows, version); returns its path."""
    with AnswersFile(run, SERVER, resumes=2) as file:
        for places, numbers, rows, version in frames:
            file.write(map(np.array, (places, numbers, rows)), told(version, sum(rows)), version)
    return files(run, "sums")[-1]


def test_each_request_has_its_own_rows(tmp_path: Path) -> None:
    header, answers = read(written(tmp_path, ([0, 3], [1, 7], [2, 1], 10), ([0], [2], [1], 20)))
    assert (header.resumes, header.keys) == (2, SERVER.answers)
    assert {place: answer.version for place, answer in answers.items()} == {
        (0, 1): 10, (3, 7): 10, (0, 2): 20,
    }  # fmt: skip
    assert answers[0, 1].arrays["sum"].tolist() == [10, 11]
    assert answers[3, 7].arrays["sum"].tolist() == [12]
    assert answers[3, 7].arrays["pair"].tolist() == [[12, -12]]
    assert answers[0, 2].arrays["sum"].dtype == np.float32


def test_processes_have_files_of_their_own(tmp_path: Path) -> None:
    assert files(tmp_path, "sums") == []
    paths = [written(tmp_path, ([0], [1], [1], 1)) for _ in range(11)]
    assert files(tmp_path, "sums") == paths
    assert files(tmp_path, "sum") == []


def test_the_last_answer_to_a_request_is_the_one(tmp_path: Path) -> None:
    _, answers = read(written(tmp_path, ([0, 1], [1, 1], [1, 1], 1), ([1], [1], [1], 9)))
    assert answers[0, 1].version == 1
    assert answers[1, 1].version == 9


def test_what_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, ([0], [1], [1], 1), ([0], [2], [1], 2))
    whole = path.read_bytes()
    for lacking in range(1, 60):
        path.write_bytes(whole[:-lacking])
        assert (0, 2) not in read(path)[1]


def test_what_is_damaged_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, ([0, 1], [1, 1], [2, 1], 1))
    whole = path.read_bytes()
    begin = whole.index(b"\n") + 1
    for at in [*range(60), *range(begin, begin + 24)]:
        for value in (0, 0x22, 0x7F, 0xFF):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            with suppress(TapeDamaged):  # and by no other error
                read(path)


@pytest.mark.parametrize("dtype", ["object", "none", "float99", "U4"])
def test_a_kind_of_values_that_there_is_not(dtype: str, tmp_path: Path) -> None:
    path = written(tmp_path, ([0], [1], [1], 1))
    path.write_bytes(path.read_bytes().replace(b'"float32"', f'"{dtype}"'.encode(), 1))
    with pytest.raises(TapeDamaged):
        read(path)
