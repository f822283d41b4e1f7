"""A tape is read as it was written, and what is no tape is said to be none."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artos.runs import tape
from artos.runs.tape import (
    UNCHANGED,
    Begun,
    Called,
    Header,
    Looked,
    Peer,
    Published,
    Record,
    TapeDamaged,
    Threads,
    Writer,
    header_line,
)

SUMS = st.integers(0, 2**32 - 1)
COUNTS = st.integers(0, 2**50)


def written(path: Path, *frames: bytes, header: Header | None = None) -> Path:
    path.write_bytes(header_line(header or Header()) + b"".join(frames))
    return path


RECORDS = st.one_of(
    st.builds(Begun, st.integers(-1, 2**40), SUMS),
    st.builds(Called, COUNTS, COUNTS, st.integers(0, 2**20), st.none() | st.floats(0, 1)),
    st.builds(Threads, COUNTS, st.integers(1, 64)),
    st.builds(Published, SUMS),
    st.builds(Looked, st.integers(0, 3), st.tuples(COUNTS, COUNTS)),
    st.builds(Peer, st.text(max_size=20), st.integers(-1, 2**40)),
)


def tell(writer: Writer, record: Record) -> None:
    match record:
        case Begun(version, checksum):
            writer.begun(version, checksum)
        case Called(firing, steps, configuration, progress):
            writer.called(firing, steps, configuration, progress)
        case Threads(turn, threads):
            writer.threads(turn, threads)
        case Peer(learner, version):
            writer.peer(learner, version)
        case Published(checksum):
            writer.published(checksum)
        case Looked(what, counts):
            writer.looked(what, [*counts])


@given(st.lists(RECORDS, max_size=40))
def test_what_is_written_is_read(told: list[Record]) -> None:
    """In frames of one version each; turns do not go back, and looks are told from the last."""
    writer, frames, expected, turn = Writer(), list[bytes](), list[Record](), 0
    seen: dict[int, tuple[int, ...]] = {}
    for record in told:
        if isinstance(record, Threads):
            turn += record.turn
            record = Threads(turn, record.threads)  # noqa: PLW2901
        tell(writer, record)
        same = isinstance(record, Looked) and seen.get(record.what, (0, 0)) == record.counts
        expected.append(UNCHANGED if same else record)
        if isinstance(record, Looked):
            seen[record.what] = record.counts
        if isinstance(record, Published):
            frames.append(writer.take())
    header = Header(plan={"steps": "1"}, threads=2, code={"a.py": "7"})
    with TemporaryDirectory() as folder:
        path = written(Path(folder) / "learner-0.tape", *frames, writer.take(), header=header)
        assert tape.read(path) == (header, expected)


def test_a_frame_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    writer = Writer()
    writer.begun(-1, 0)
    writer.published(7)
    first = writer.take()
    writer.called(3, 0, 0, None)
    writer.published(8)
    cut = writer.take()
    for rest in (cut[:-1], b"\0" + cut[1:], bytes(1_000)):  # what a map of the file may show
        path = written(tmp_path / "learner-0.tape", first, rest)
        assert tape.read(path)[1] == [Begun(-1, 0), Published(7)]


def test_a_look_that_saw_nothing_new_costs_no_byte_of_its_own() -> None:
    writer = Writer()
    writer.looked(0, [100, 200])
    once = len(writer.take())
    for _ in range(100):
        writer.looked(0, [100, 200])
    assert once > len(writer.take()) == 3


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no header\n",
        header_line(Header()).replace(b'"tape":2', b'"tape":3'),
        header_line(Header()) + b"\x01\x7f",  # an unknown record
        header_line(Header()) + b"\x02\x01\xff",  # a number without an end
        header_line(Header()) + b"\xff" * 20,  # a frame without a length
        header_line(Header()) + b"\x06\x05\xff\xff\xff\x7f\x00",  # very many blocks
    ],
)
def test_what_is_no_tape(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "learner-0.tape"
    path.write_bytes(data)
    with pytest.raises(TapeDamaged, match=r"learner-0\.tape: it is no tape"):
        tape.read(path)


def test_tapes_are_ordered_by_number(tmp_path: Path) -> None:
    folder = tmp_path / tape.FOLDER
    folder.mkdir()
    for name in ("learner-10.tape", "learner-2.tape", "other-1.tape", "learner-x.tape"):
        (folder / name).touch()
    assert [each.name for each in tape.tapes(tmp_path, "learner")] == [
        "learner-2.tape",
        "learner-10.tape",
    ]
