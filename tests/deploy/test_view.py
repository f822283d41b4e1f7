from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from helpers import PATIENCE
from hypothesis import given
from hypothesis import strategies as st

from artos.clock import ManualClock
from artos.protocol.usage import Usage
from deploy.display import screen, text_curve
from deploy.display.view import LiveView
from head.records.episodes import Episodes
from head.records.run_folder import RunFolder
from head.records.status import Status, Summary

STATUS = Status(
    algorithm="ppo", env="CartPole-v1", seconds=75.0, steps=300_000, total_steps=500_000,
    updates=1234, version=1235, steps_per_second=10_000.0, mean_return_100=233.3, episodes=2700,
    lag_mean=0.52, lag_max=2, restarts=0, rows_lost=0,
    fill={"observations": 0.5, "actions": 0.25}, waits={"learner": "32 of 64 rows"},
    metrics={"value_loss": 12.3, "[red]kl": 0.003},
    shares={"learner.learn": 0.75, "learner.wait": 0.25, "actors.environment": 1.0},
)  # fmt: skip
LAST = msgspec.structs.replace(
    STATUS, steps=500_000, updates=244, seconds=31.2, steps_per_second=16_025.0,
    mean_return_100=482.1, lag_mean=0.5, restarts=1, rows_lost=128,
    shares={"learner.learn": 0.75, "learner.wait": 0.25},
)  # fmt: skip
SUMMARY = Summary(LAST, Usage(), 1, not_restored=("episodes in progress",))


def changed(**fields: object) -> Status:
    return msgspec.structs.replace(STATUS, **fields)


class Stream(io.TextIOWrapper):
    """A log file in memory."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode(self.encoding)  # type: ignore[attr-defined]


class Terminal:
    """A real pseudo-terminal of 110 × 40, everything written to it collected."""

    def __init__(self) -> None:
        self._end, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
        self.stream = os.fdopen(other, "w", encoding="utf-8")
        self._collected = bytearray()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._end, 65536):
                self._collected += data
        except OSError:
            return  # the other end is closed

    def text(self) -> str:
        """Close the terminal and return what was written."""
        self.close()
        return self._collected.decode()

    def close(self) -> None:
        if not self.stream.closed:
            self.stream.close()
            self._reader.join(PATIENCE)
            os.close(self._end)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.create(tmp_path, {"algorithm": "ppo"}) as made:
        rows = "".join(f"{100 * i},{i},{i}\n" for i in range(1, 300))
        made.episodes.write_text("step,return,length\n" + rows)
        yield made


def test_a_log_gets_one_plain_line_every_five_seconds() -> None:
    stream, clock = Stream(), ManualClock()
    with LiveView(stream, clock=clock) as view:
        for _ in range(81):
            view.show(STATUS)
            clock.advance(0.125)
    lines = stream.text.splitlines()
    assert len(lines) == 3
    assert set(lines) == {
        "300,000/500,000 steps (60%)  10,000 steps/s  return 233.3  episodes 2,700  "
        "updates 1,234  lag 0.52 (max 2)  0:20 left"
    }
    assert "\x1b" not in stream.text


def test_failures_appear_in_the_line_once_there_are_any() -> None:
    assert "restarts" not in screen.line(STATUS)
    assert "restarts 2, rows lost 1,000" in screen.line(changed(restarts=2, rows_lost=1000))


def test_a_terminal_gets_the_panel_at_most_four_times_a_second(terminal: Terminal) -> None:
    clock = ManualClock()
    with LiveView(terminal.stream, clock=clock) as view:
        assert view.mode == "live"
        for number in range(40):
            view.show(changed(updates=90_000 + number))
            clock.advance(0.0625)
        view.note("finishing: Ctrl-C again stops at once")
    text = terminal.text()
    shown = {number for number in range(40) if f"90,0{number:02}" in text}
    assert shown == set(range(0, 40, 4))
    for part in (
        "ppo on CartPole-v1", "300,000", "60%", "0:20 left", "233.3", "0.52", "observations",
        "25%", "32 of 64 rows", "value_loss", "[red]kl", "environment", "finishing: Ctrl-C",
    ):  # fmt: skip
        assert part in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor is back


def test_quiet_prints_notes_and_nothing_else(folder: RunFolder) -> None:
    stream = Stream()
    with LiveView(stream, quiet=True, clock=ManualClock()) as view:
        assert not view.due
        view.show(STATUS)
        view.note("a warning")
        view.finish(SUMMARY, folder)
    assert stream.text == "a warning\n"


def test_the_end_shows_outcome_curve_and_paths(folder: RunFolder) -> None:
    folder.curve.write_bytes(b"png")
    stream = Stream()
    with LiveView(stream, clock=ManualClock()) as view:
        view.finish(SUMMARY, folder)
    for part in (
        "ppo on CartPole-v1: done, mean return 482.1", "500,000 in 0:31 (16,025/s)",
        "mean 0.50, max 2", "1, rows lost 128", "learn 75%", "wait 25%",
        "episodes in progress", "29,900 steps", str(folder.path), str(folder.curve),
    ):  # fmt: skip
        assert part in stream.text


def test_the_curves_path_is_not_claimed_when_there_is_none(folder: RunFolder) -> None:
    folder.episodes.unlink()
    stream = Stream()
    LiveView(stream, clock=ManualClock()).finish(SUMMARY, folder)
    assert str(folder.path) in stream.text
    assert "curve.png" not in stream.text


def test_long_paths_are_printed_whole_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 40)
    stream = Stream()
    with RunFolder.create(path, {}) as folder:
        LiveView(stream, clock=ManualClock()).finish(SUMMARY, folder)
    assert f"{path}\n" in stream.text


def test_a_terminal_is_as_it_was_but_for_what_was_noted(
    terminal: Terminal, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The panel has the alternate screen; notes, and what others print, come after it."""
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    with LiveView(terminal.stream, clock=ManualClock()) as view:
        view.show(STATUS)
        view.note("actor 1 is restarted")
        print("a user's trigger fired\nand")
        print("half a line", end="")
        view.finish(SUMMARY, folder)
        print("printed at once")
    assert sys.stdout is terminal.stream
    screen_, _, after = terminal.text().partition("\x1b[?1049l")
    assert screen_.count("\x1b[?1049h") == 1
    assert "300,000" in screen_
    assert "300,000" not in after
    lines = after.replace("\r", "").split("\n")
    notes = ["actor 1 is restarted", "a user's trigger fired", "and", "half a line"]
    assert [line.removeprefix("\x1b[?25h") for line in lines[:4]] == notes
    assert lines[-2] == "printed at once"


def test_a_log_names_each_phase_once_and_then_goes_on() -> None:
    stream, clock = Stream(), ManualClock()
    with LiveView(stream, clock=clock) as view:
        view.phase("registration")
        for learner in ("starting", "rows"):
            status = changed(steps_per_second=0.0, version=-1, waits={"learner": learner})
            for _ in range(5):
                view.show(status)
                clock.advance(0.25)
        view.show(STATUS)
        view.last(changed(steps=500_000, seconds=100.0))
    lines = stream.text.splitlines()
    assert lines[:3] == [f"starting: {n}" for n in ("registration", "the learner", "first weights")]
    assert [line.split("  ")[0] for line in lines[3:]] == [
        "300,000/500,000 steps (60%)", "500,000/500,000 steps (100%)",
    ]  # fmt: skip
    assert lines[-1].endswith("1:40 in all")


def test_without_a_panel_a_terminal_is_left_to_others(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As to a debugger, with --inline."""
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    with LiveView(terminal.stream, panel=False, clock=ManualClock()) as view:
        view.show(STATUS)
        print("(Pdb) ", end="")
        assert sys.stdout is terminal.stream
    text = terminal.text()
    assert "\x1b[?1049h" not in text
    assert "300,000/500,000 steps (60%)" in text
    assert text.endswith("(Pdb) ")


def test_a_terminal_shows_the_phase_at_once(terminal: Terminal) -> None:
    with LiveView(terminal.stream, clock=ManualClock()) as view:
        view.phase("registration")
    screen_ = terminal.text().partition("\x1b[?1049l")[0]
    assert "registration" in screen_


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_stream_without_unicode_gets_ascii(folder: RunFolder, encoding: str) -> None:
    stream = Stream(encoding)
    with LiveView(stream, clock=ManualClock()) as view:
        view.show(STATUS)
        view.finish(SUMMARY, folder)
    assert "*" in stream.text
    assert stream.text.isascii()


class Broken(Stream):
    """A pipe whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        return


def test_a_broken_stream_silences_the_view_and_not_the_run(folder: RunFolder) -> None:
    with LiveView(Broken(), clock=ManualClock()) as view:
        view.show(STATUS)
        assert view.mode == "silent"
        view.note("more")
        view.finish(SUMMARY, folder)


@pytest.mark.processes
def test_a_reader_that_leaves_does_not_change_how_the_program_ends() -> None:
    code = (
        "import sys, time; from deploy.display.view import LiveView\n"
        "with LiveView(sys.stdout) as view:\n"
        "    while view.mode != 'silent': view.note('x' * 5000)\n"
        "print('after the reader left')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"xxx")
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(PATIENCE), errors) == (0, b"")


FLOATS = st.floats() | st.none()


@given(
    st.integers(0, 10**12), st.integers(0, 10**12), st.floats(allow_nan=True), FLOATS,
    st.dictionaries(st.text(max_size=20), st.floats(0, 1), max_size=14), st.integers(1, 200),
)  # fmt: skip
def test_no_status_breaks_the_view(
    steps: int, total: int, speed: float, mean: float | None, fill: dict[str, float], width: int
) -> None:
    status = changed(
        steps=steps, total_steps=total, steps_per_second=speed, mean_return_100=mean, fill=fill,
        metrics=dict.fromkeys(fill, speed), shares=fill, waits=dict.fromkeys(fill, "x"),
    )  # fmt: skip
    assert 0.0 <= screen.share(status) <= 1.0
    assert screen.line(status)
    screen.panel(status, width, ascii_only=False)


def test_time_left_follows_speed_and_budget() -> None:
    assert screen.seconds_left(STATUS) == 20.0
    assert screen.clock_text(screen.seconds_left(changed(steps_per_second=0.0))) == "?"
    assert screen.seconds_left(changed(steps=600_000, steps_per_second=0.0)) == 0.0
    assert [screen.clock_text(s) for s in (0, 59.6, 3599, 3600, 90_061)] == [
        "0:00", "1:00", "59:59", "1:00:00", "25:01:01"
    ]  # fmt: skip


def test_where_time_goes_is_told_of_the_learner_and_of_the_actors(folder: RunFolder) -> None:
    shares = {
        "actors.environment": 0.4, "actors.wait_for_room": 0.6, "learner.learn": 0.25,
        "learner.wait": 0.75,
    }  # fmt: skip
    stream = Stream()
    with LiveView(stream) as view:
        view.finish(msgspec.structs.replace(SUMMARY, status=changed(shares=shares)), folder)
    told = [" ".join(line.split()) for line in stream.text.splitlines()]
    at = told.index("time actors: environment 40% wait for room 60%")
    assert told[at + 1] == "learner: learn 25% wait 75%"


def straight(count: int) -> Episodes:
    column = np.arange(count, dtype=np.float64)
    return Episodes(100 * column, column, column)


def test_the_text_curve_rises_with_the_return() -> None:
    lines = text_curve.draw(straight(100), width=20, height=5, ascii_only=True)
    assert len(lines) == 6
    first = [line.index("*") for line in lines[:5]]
    assert first == sorted(first, reverse=True)
    assert lines[0].strip().startswith("49.5 |")
    assert lines[4].strip().startswith("0 |*")
    assert lines[5].endswith("9,900 steps")


def test_the_braille_curve_has_its_width_and_marks_both_ends() -> None:
    lines = text_curve.draw(straight(50), width=30, height=4, ascii_only=False)
    assert {len(line) for line in lines} == {10 + 30}
    assert lines[0][-1] != " "
    assert lines[3][10] != " "


@given(st.lists(st.floats(-1e300, 1e300), max_size=30), st.booleans())
def test_any_episodes_can_be_drawn(returns: list[float], ascii_only: bool) -> None:
    steps = np.arange(len(returns), dtype=np.float64)
    lines = text_curve.draw(
        Episodes(steps, np.array(returns), steps), width=12, height=3, ascii_only=ascii_only
    )
    assert len(lines) == (4 if returns else 0)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_returns_that_are_no_numbers_leave_a_gap(odd: float, ascii_only: bool) -> None:
    steps, returns = np.arange(300.0), np.arange(300.0)
    returns[[0, 150]] = odd
    lines = text_curve.draw(Episodes(steps, returns, steps), 60, 4, ascii_only=ascii_only)
    assert len(lines) == 5
    assert {line[10:][35] for line in lines[:4]} == {" "}
    assert {line[10:][25] for line in lines[:4]} != {" "}
    alone = Episodes(steps[:1], returns[:1], steps[:1])
    assert text_curve.draw(alone, ascii_only=ascii_only) == []


def test_a_lag_that_was_not_measured_is_told_from_none(folder: RunFolder) -> None:
    unmeasured = changed(lag_mean=None, lag_max=None)
    assert "lag - (max -)" in screen.line(unmeasured)
    assert "lag 0.00 (max 0)" in screen.line(changed(lag_mean=0.0, lag_max=0))
    stream = Stream()
    with LiveView(stream) as view:
        unknown = changed(lag_mean=None, lag_max=None)
        summary = msgspec.structs.replace(SUMMARY, status=unknown)
        view.finish(summary, folder)
    assert re.search(r"policy lag +mean -, max -\s", stream.text)
