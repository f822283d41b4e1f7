"""What TensorBoard is told of a run, read by the letter of its format."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData
from tensorboardX.proto.summary_pb2 import Summary

from head.records import event_file
from head.records.event_file import EventFile
from head.records.run_folder import RunFolder
from head.records.tensorboard import TensorBoard
from head.records.tracker import Tracked

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480) + b"..."


def events(path: Path) -> list[Event]:
    """Read an event file, checking every checksum."""
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert data[8:12] == masked(data[:8])
        body, data = data[12 : 12 + length], data[12 + length :]
        assert data[:4] == masked(body)
        data = data[4:]
        found.append(Event.FromString(body))
    return found


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def values(folder: Path) -> dict[str, tuple[int, Summary.Value]]:
    """Each value in a folder by its tag, with its step."""
    files = map(events, sorted(folder.iterdir()))
    return {
        value.tag: (event.step, value)
        for each in files
        for event in each
        for value in event.summary.value
    }


@pytest.fixture
def board(tmp_path: Path) -> TensorBoard:
    settings = {"settings.lr": 0.5, "settings.anneal": True, "env": "X", "versions.numpy": "2"}
    return TensorBoard(tmp_path / "board", Tracked("first", "", settings))


def told(board: TensorBoard, tmp_path: Path) -> dict[str, tuple[int, Summary.Value]]:
    board.close("")
    return values(tmp_path / "board")


def test_a_row_is_at_its_step(board: TensorBoard, tmp_path: Path) -> None:
    board.on_progress(70_000, {"metrics/loss": 0.5, "run/huge": -1e300})
    found = told(board, tmp_path)
    assert found["metrics/loss"][0] == 70_000
    assert found["metrics/loss"][1].simple_value == 0.5
    assert found["run/huge"][1].simple_value == -np.inf


def test_hyper_parameters_are_those_of_the_plugin(board: TensorBoard, tmp_path: Path) -> None:
    board.on_progress(8, {})
    board.close("failed")
    found = values(tmp_path / "board")
    _, begin = found["_hparams_/session_start_info"]
    step, end = found["_hparams_/session_end_info"]
    plugins = [value.metadata.plugin_data for value in (begin, end)]
    assert {plugin.plugin_name for plugin in plugins} == {"hparams"}
    first, last = (HParamsPluginData.FromString(plugin.content) for plugin in plugins)
    started, ended = first.session_start_info, last.session_end_info
    assert started.group_name == "first"
    assert started.hparams.keys() == {"settings.lr", "settings.anneal", "env"}
    assert started.hparams["settings.lr"].number_value == 0.5
    assert started.hparams["settings.anneal"].bool_value is True
    assert started.hparams["env"].string_value == "X"
    assert (step, ended.status) == (8, 2)
    assert ended.end_time_secs >= started.start_time_secs > 0


def test_a_histogram_has_the_counts_of_its_classes(board: TensorBoard, tmp_path: Path) -> None:
    board.on_histogram(9, "lags", {(0.0, 1.0): 3, (1.0, 2.0): 0, (2.0, 4.0): 1})
    step, value = told(board, tmp_path)["lags"]
    histo = value.histo
    assert (step, histo.min, histo.max, histo.num, histo.sum) == (9, 0.0, 4.0, 4.0, 4.5)
    assert histo.sum_squares == 3 * 0.25 + 9.0
    assert ([*histo.bucket_limit], [*histo.bucket]) == ([1.0, 2.0, 4.0], [3.0, 0.0, 1.0])


def test_files_are_pictures_or_text(board: TensorBoard, tmp_path: Path) -> None:
    for name, content in (("a.png", PNG), ("b.json", b'{\n"x": 1}'), ("c.safetensors", b"w")):
        (tmp_path / name).write_bytes(content)
        board.on_artifact(tmp_path / name)
    found = told(board, tmp_path)
    image, text = found["files/a.png"][1], found["files/b.json"][1]
    assert (image.image.width, image.image.height) == (640, 480)
    assert image.image.encoded_image_string == PNG
    assert [*text.tensor.string_val] == [b'    {\n    "x": 1}']
    assert text.metadata.plugin_data.plugin_name == "text"
    assert "files/c.safetensors" not in found


def test_a_resumed_run_hides_what_it_repeats(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", {"seed": 7}) as folder:
        TensorBoard.of(folder).close("")
        board = TensorBoard.of(folder, resumed_at=200)
        board.on_progress(300, {"x": 1.0})
        board.close("")
        old, new = map(events, sorted(folder.events.iterdir()))
    assert old[0].file_version == "brain.Event:2"
    assert (new[1].step, new[1].session_log.status) == (201, new[1].session_log.START)
    assert new[-1].step == 300


@given(st.integers(0, 2**62), st.dictionaries(st.text(max_size=200), st.floats(width=32)))
def test_any_scalars_survive_the_event_file(
    tmp_path_factory: pytest.TempPathFactory, step: int, values: dict[str, float]
) -> None:
    file = EventFile(tmp_path_factory.mktemp("events"))
    file.write(step, [event_file.scalar(*each) for each in values.items()])
    file.close()
    _, event = events(file.path)
    assert event.step == step
    read = {value.tag: value.simple_value for value in event.summary.value}
    np.testing.assert_equal(read, values)
