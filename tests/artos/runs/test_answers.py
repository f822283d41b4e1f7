"""What servers answered, written and read: whole, cut off, twice, damaged."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artos.runs.answers import Answer, Answers, AnswersFile, Header, files
from artos.runs.tape import FOLDER, TapeDamaged
from artos.specs.keys import DataKey
from artos.specs.servers import ServerSpec

SERVER = ServerSpec("sums", (), (DataKey("sum"), DataKey("pair", (2,), "int16")), 4)
PART = 2
HEADER = Header(keys=SERVER.answers, resumes=PART)


def told(first: int, rows: int) -> dict[str, Any]:
    numbers = np.arange(first, first + rows)
    return {"sum": numbers.astype(np.float64), "pair": np.stack([numbers, -numbers], 1)}


def written(run: Path, *frames: tuple[list[int], list[int], list[int], int]) -> Path:
    """A file with frames of (places, numbers, rows, version); returns its path."""
    with AnswersFile.begin(run / FOLDER, SERVER, HEADER) as file:
        for places, numbers, rows, version in frames:
            file.write(map(np.array, (places, numbers, rows)), told(version, sum(rows)), version)
    return files(run, "sums")[-1]


def read(*paths: Path) -> Answers:
    answers = Answers()
    for path in paths:
        assert answers.add(path, PART, SERVER.answers)
    return answers


def answer(answers: Answers, place: int, number: int) -> Answer:
    found = answers.get(place, number)
    assert found is not None
    return found


def test_each_request_has_its_own_rows(tmp_path: Path) -> None:
    answers = read(written(tmp_path, ([0, 3], [1, 7], [2, 1], 10), ([0], [2], [1], 20)))
    first, other, later = (answer(answers, *at) for at in ((0, 1), (3, 7), (0, 2)))
    assert [each.version for each in (first, other, later)] == [10, 10, 20]
    assert first.arrays["sum"].tolist() == [10, 11]
    assert other.arrays["sum"].tolist() == [12]
    assert other.arrays["pair"].tolist() == [[12, -12]]
    assert later.arrays["sum"].dtype == np.float32
    assert answers.get(3, 1) is answers.get(9, 9) is None
    later.arrays["sum"][:] = 0
    assert answer(answers, 0, 2).arrays["sum"].tolist() == [20], "what an actor does with it"


def test_numbers_that_do_not_rise(tmp_path: Path) -> None:
    """As those of actors that ask one after the other, however their server looks for them."""
    numbers = [1 << 32, 5, 3, 1 << 33, 4]
    answers = read(written(tmp_path, *(([0], [number], [1], number % 97) for number in numbers)))
    for number in numbers:
        assert answer(answers, 0, number).version == number % 97


def test_processes_have_files_of_their_own(tmp_path: Path) -> None:
    assert files(tmp_path, "sums") == []
    paths = [written(tmp_path, ([0], [n], [1], n)) for n in range(11)]
    assert files(tmp_path, "sums") == paths
    assert files(tmp_path, "sum") == []
    paths[3].unlink()
    paths.append(written(tmp_path, ([0], [11], [1], 11)))
    assert files(tmp_path, "sums") == [*paths[:3], *paths[4:]]
    assert answer(read(*files(tmp_path, "sums")), 0, 11).version == 11


def test_the_last_answer_to_a_request_is_the_one(tmp_path: Path) -> None:
    both = read(
        written(tmp_path, ([0, 1], [1, 1], [1, 1], 1)), written(tmp_path, ([1], [1], [1], 9))
    )
    assert answer(both, 0, 1).version == 1
    assert answer(both, 1, 1).version == 9


def test_those_of_another_part_are_not_read(tmp_path: Path) -> None:
    """Not even if the server answered otherwise there."""
    path = written(tmp_path, ([0], [1], [1], 1))
    answers = Answers()
    assert not answers.add(path, PART + 1, ())
    assert answers.get(0, 1) is None
    with pytest.raises(TapeDamaged, match="it answers otherwise now"):
        answers.add(path, PART, ())


def test_a_server_that_was_not_asked_has_a_file(tmp_path: Path) -> None:
    assert read(written(tmp_path)).get(0, 1) is None


def test_what_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, ([0], [1], [1], 1), ([0], [2], [1], 2))
    whole = path.read_bytes()
    for lacking in range(1, 60):
        path.write_bytes(whole[:-lacking])
        answers = read(path)
        assert answers.get(0, 2) is None
    path.write_bytes(whole[:20])
    assert not Answers().add(path, PART, SERVER.answers), "killed before it had begun"


def test_a_process_that_answers_too_much_is_told(tmp_path: Path) -> None:
    with AnswersFile.begin(tmp_path / FOLDER, SERVER, HEADER, most_bytes=400) as file:
        columns = [np.array([0]), np.array([1]), np.array([1])]
        file.write(columns, told(1, 1), 1)
        with pytest.raises(OSError, match="too large"):
            file.write([np.arange(9)] * 2 + [np.ones(9, int)], told(1, 9), 1)
    assert answer(read(files(tmp_path, "sums")[0]), 0, 1).version == 1
    with pytest.raises(OSError, match="too large"):
        AnswersFile.begin(tmp_path / FOLDER, SERVER, HEADER, most_bytes=9)
    assert len(files(tmp_path, "sums")) == 1, "nothing is left of it"


def test_what_is_damaged_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, ([0, 1], [1, 1], [2, 1], 1))
    whole = path.read_bytes()
    begin = whole.index(b"\n") + 1
    for at in [*range(60), *range(begin, begin + 72)]:
        for value in (0, 0x22, 0x7F, 0xFF):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            answers = Answers()
            with suppress(TapeDamaged):  # and by no other error
                answers.add(path, PART, SERVER.answers)
                answers.get(0, 1)
