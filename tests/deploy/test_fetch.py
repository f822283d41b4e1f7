"""Copies of runs: resumed, appended to, whole, of one moment; a head is asked in the long tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artos.errors import DeadlineExceeded, Refused
from artos.protocol.views import RunView
from artos.runs.checkpoint import MANIFEST
from artos.system.locks import FileLock
from deploy.cli.__main__ import main
from deploy.client import checksums, copies
from deploy.client import fetch as module
from deploy.client.copied import MARK, forget
from deploy.client.copies import copies_of
from deploy.client.fetch import Fetched, fetch, follow
from deploy.figures.read_run import ReadRun
from deploy.local.local_runs import LocalRuns
from head.daemon.run_files import listed, piece


class Here:
    """Answers as a head does, from a folder; ``then`` happens after so many questions."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, "running"
        self.then: dict[int, Callable[[], object]] = {}
        self.asked = 0
        self.sent = 0

    def _count(self) -> None:
        self.asked += 1
        self.then.pop(self.asked, lambda: None)()

    def status(self, run: str) -> RunView:
        return RunView(name=run, state=self.state)

    def files(self, run: str) -> dict[str, tuple[int, int]]:
        self._count()
        return listed(self.folder)

    def file(self, run: str, name: str, offset: int) -> tuple[bytes, tuple[int, int]]:
        self._count()
        found = piece(self.folder, name, offset)
        self.sent += len(found.content)
        return found.content, (found.size, found.changed)


@pytest.fixture
def there(tmp_path: Path) -> Any:
    folder = tmp_path / "runs" / "r1"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "logs").mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "progress.csv").write_text("steps\n" + "1\n" * 10_000)
    (folder / "logs" / "run.log").write_text("begun\n")
    save(folder, 1)
    return Here(folder)


def save(folder: Path, version: int, name: str = "checkpoint") -> None:
    """A checkpoint as a run saves one: the arrays first, then the manifest, then the old arrays."""
    checkpoint = folder / name
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / f"arrays-{version}").write_bytes(bytes([version]) * 100)
    draft = checkpoint / ".draft"
    draft.write_text(f"arrays-{version}")
    os.utime(draft, ns=(version * 10**9, version * 10**9))  # clocks may be too coarse to tell
    draft.replace(checkpoint / MANIFEST)
    for old in checkpoint.glob("arrays-*"):
        if old.name != f"arrays-{version}":
            old.unlink()


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def test_a_copy_is_what_is_there_and_a_second_one_moves_nothing(there: Any, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    fetched = fetch(there, "r1", target)
    assert content(target) == content(there.folder)
    assert fetched == Fetched("r1", str(target), "running", 5, there.sent)
    there.sent = 0
    assert fetch(there, "r1", target) == Fetched("r1", str(target), "running", 0, 0)
    assert there.sent == 0


def test_of_a_file_that_grew_only_the_rest_comes(there: Any, tmp_path: Path) -> None:
    fetch(there, "r1", tmp_path / "copy")
    with (there.folder / "progress.csv").open("a") as file:
        file.write("2\n" * 3)
    assert fetch(there, "r1", tmp_path / "copy").bytes == 6
    assert content(tmp_path / "copy") == content(there.folder)


def test_a_file_that_was_cut_and_grew_again_comes_anew(there: Any, tmp_path: Path) -> None:
    """As when a run goes on from a checkpoint: rows after it are gone, and others follow."""
    fetch(there, "r1", tmp_path / "copy")
    with (tmp_path / "copy" / "progress.csv").open() as read_on:
        (there.folder / "progress.csv").write_text("steps\n" + "1\n" * 9_000 + "7\n" * 2_000)
        fetch(there, "r1", tmp_path / "copy")
        assert content(tmp_path / "copy") == content(there.folder)
        # Whoever reads on must see that it is another file.
        inode = (tmp_path / "copy" / "progress.csv").stat().st_ino
        assert inode != os.fstat(read_on.fileno()).st_ino


def test_a_copy_that_was_broken_off_goes_on(there: Any, tmp_path: Path) -> None:
    (there.folder / "curve.png").write_bytes(os.urandom(3 << 20))

    def broken() -> None:
        raise ConnectionError

    there.then[6] = broken
    with pytest.raises(ConnectionError):
        fetch(there, "r1", tmp_path / "copy")
    sent, there.sent = there.sent, 0
    fetch(there, "r1", tmp_path / "copy")
    assert content(tmp_path / "copy") == content(there.folder)
    assert sent > 1 << 20
    whole = sum(len(each) for each in content(there.folder).values())
    assert there.sent <= whole - (1 << 20)


def test_a_file_that_is_whole_but_has_not_its_name_yet_gets_it(there: Any, tmp_path: Path) -> None:
    """Its copy was broken off between the last piece and the answer that there is no more."""
    fetch(there, "r1", tmp_path / "copy")
    (tmp_path / "copy" / "config.json").rename(tmp_path / "copy" / ".config.json.part")
    fetch(there, "r1", tmp_path / "copy")
    assert content(tmp_path / "copy") == content(there.folder)


def flip(file: Path) -> None:
    """Damage it as a bad disk does: neither size nor time tell."""
    about, data = file.stat(), bytearray(file.read_bytes())
    data[0] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.parametrize("name", ["config.json", "progress.csv", "checkpoint/arrays-1"])
def test_what_was_damaged_here_comes_anew(name: str, there: Any, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for _ in range(2):
        fetch(there, "r1", copy)
        flip(copy / name)
        there.sent = 0
        assert fetch(there, "r1", copy).files == 1
        assert there.sent == (there.folder / name).stat().st_size
        assert content(copy) == content(there.folder)


def test_what_was_damaged_here_comes_anew_also_if_it_grows(there: Any, tmp_path: Path) -> None:
    fetch(there, "r1", tmp_path / "copy")
    flip(tmp_path / "copy" / "progress.csv")
    with (there.folder / "progress.csv").open("a") as file:
        file.write("2\n")
    fetch(there, "r1", tmp_path / "copy")
    assert content(tmp_path / "copy") == content(there.folder)


@pytest.mark.parametrize("before", [None, b"[1", b'{"config.json": 3}'])
def test_a_copy_without_checksums_has_them_from_then_on(
    before: bytes | None, there: Any, tmp_path: Path
) -> None:
    fetch(there, "r1", tmp_path / "copy")
    (tmp_path / "copy" / ".checksums").unlink()
    if before is not None:
        (tmp_path / "copy" / ".checksums").write_bytes(before)
    assert fetch(there, "r1", tmp_path / "copy").bytes == 0
    flip(tmp_path / "copy" / "config.json")
    fetch(there, "r1", tmp_path / "copy")
    assert content(tmp_path / "copy") == content(there.folder)


def test_who_follows_reads_of_a_file_that_grew_only_the_rest(
    there: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed: list[int] = []
    crc32 = checksums.crc32

    def counted(data: bytes, crc: int) -> int:
        summed.append(len(data))
        return crc32(data, crc)

    fetch(there, "r1", tmp_path / "copy")
    with (there.folder / "progress.csv").open("a") as file:
        file.write("2\n" * 3)
    monkeypatch.setattr(checksums, "crc32", counted)
    fetch(there, "r1", tmp_path / "copy", check=False)
    assert summed == [6]
    flip(tmp_path / "copy" / "progress.csv")
    fetch(there, "r1", tmp_path / "copy")
    assert content(tmp_path / "copy") == content(there.folder), "the sum went on rightly"


@pytest.mark.parametrize("after", range(1, 12))
def test_a_checkpoint_is_of_one_moment_however_often_it_is_replaced(
    there: Any, tmp_path: Path, after: int
) -> None:
    fetch(there, "r1", tmp_path / "copy")
    there.asked, version = 0, 1

    def replace() -> None:
        nonlocal version
        version += 1
        save(there.folder, version)

    there.then = {after: replace, after + 2: replace}
    fetch(there, "r1", tmp_path / "copy")
    checkpoint = tmp_path / "copy" / "checkpoint"
    arrays = checkpoint / (checkpoint / MANIFEST).read_text()
    assert arrays.read_bytes() == bytes([int(arrays.name.removeprefix("arrays-"))]) * 100


def test_a_journal_of_which_a_part_is_put_away_meanwhile_has_no_hole(
    there: Any, tmp_path: Path
) -> None:
    journal = there.folder / "journal.jsonl"
    journal.write_text("1\n2\n")

    def put_away() -> None:
        journal.rename(there.folder / "journal-0-2.jsonl")
        journal.write_text("3\n")

    there.then = {2: put_away}
    fetch(there, "r1", tmp_path / "copy")
    assert content(tmp_path / "copy") == content(there.folder)


def test_the_best_version_comes_with_the_newest(there: Any, tmp_path: Path) -> None:
    for version in (3, 4):
        save(there.folder, version, "best")
        fetch(there, "r1", tmp_path / "copy", "checkpoint")
        found = {name for name in content(tmp_path / "copy") if name.startswith("best/")}
        assert found == {f"best/arrays-{version}", f"best/{MANIFEST}"}
    fetch(there, "r1", tmp_path / "curve", "curve")
    assert not (tmp_path / "curve" / "best").exists()


def test_one_that_never_stands_still_is_given_up(
    there: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(range(2, 1000))
    ask = there.files

    def files(run: str) -> Any:
        save(there.folder, next(versions) % 256)
        return ask(run)

    monkeypatch.setattr(there, "files", files)
    with pytest.raises(DeadlineExceeded, match="neither of which is replaced while it is copied"):
        fetch(there, "r1", tmp_path / "copy")


def test_only_what_is_wanted_comes(there: Any, tmp_path: Path) -> None:
    fetch(there, "r1", tmp_path / "curve", "curve")
    assert {*content(tmp_path / "curve")} == {"config.json", "progress.csv"}
    fetch(there, "r1", tmp_path / "checkpoint", "checkpoint")
    names = {"config.json", "checkpoint/arrays-1", f"checkpoint/{MANIFEST}"}
    assert {*content(tmp_path / "checkpoint")} == names


def test_copies_that_nobody_has_asked_for_for_long_are_removed(
    there: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those in the cache; not one that goes on as a run of its own, or that is copied now."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cached = copies_of("tcp://here:1")
    assert copies.tidy() == []
    names = "old", "records/old", "part", "new", "resumed", "busy"
    for each in (*(cached / name for name in names), tmp_path / "get" / "old"):
        fetch(there, "r1", each)
        if each.name != "new":
            os.utime(each / ".copied", (1.0, 1.0))
    forget(cached / "resumed")
    os.utime(cached / "resumed" / ".copied", (1.0, 1.0))
    (cached / "part" / ".copied").unlink()  # broken off
    for mark in cached.rglob(MARK):
        os.utime(mark, (1.0, 1.0))
    (cached / "mine").mkdir()
    with FileLock.take(cached / "busy" / MARK) as lock:
        assert lock is not None
        assert main(["clean", "--json"]) == 0
    removed = json.loads(capsys.readouterr().out)["removed"]
    assert {str(cached / each) for each in ("old", "records/old", "part")} <= {*removed}
    left = {path.parent.relative_to(cached).as_posix() for path in cached.rglob(MARK)}
    assert left == {"new", "resumed", "busy"}
    assert (cached / "mine").is_dir()
    assert (tmp_path / "get" / "old" / "config.json").exists()


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("why", "records"), ("plot", "records"), ("report", "records"), ("dashboard", "records"),
        ("trace", "all"), ("replay", "all"), ("track --to tensorboard", "all"),
        ("eval", "checkpoint"), ("record", "checkpoint"),
    ],
)  # fmt: skip
def test_of_a_run_of_a_head_each_command_copies_what_it_reads(
    command: str, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def local(path: str, what: str = "checkpoint") -> str:
        raise Refused([f"of {path} {what}"])

    monkeypatch.setattr("deploy.client.copies.local", local)
    assert main([*command.split(), "r1@"]) == 2
    assert f"of r1@ {what}" in capsys.readouterr().err


def test_a_copy_of_a_run_that_goes_on_is_not_taken_for_one_that_was_killed(
    there: Any, tmp_path: Path
) -> None:
    """Until it is over, or the copy itself is resumed."""
    run_config = {"workload": "ppo", "settings": {}, "seed": 1, "folder": str(tmp_path)}
    (there.folder / "config.json").write_text(json.dumps(run_config))
    there.state = "running"
    copy = Path(fetch(there, "r1", tmp_path / "copy").folder)
    with LocalRuns(tmp_path) as runs:
        assert (runs.status("copy").state, ReadRun(copy).outcome) == ("running", "live")
        forget(copy)
        assert (runs.status("copy").state, ReadRun(copy).outcome) == ("failed", "killed")
    (there.folder / "summary.json").write_text(json.dumps({"outcome": "done", "steps": 3}))
    there.state = "done"
    fetch(there, "r1", copy)
    with LocalRuns(tmp_path) as runs:
        assert (runs.status("copy").state, ReadRun(copy).outcome) == ("done", "done")


def test_of_a_run_that_goes_on_again_the_summary_of_before_is_not_copied(
    there: Any, tmp_path: Path
) -> None:
    """And what ends while it is copied is copied as it ended."""
    summary = there.folder / "summary.json"
    summary.write_text(json.dumps({"outcome": "done", "steps": 1}))
    copy = Path(fetch(there, "r1", tmp_path / "copy").folder)
    assert not (copy / "summary.json").exists()

    def end() -> None:
        there.state = "done"
        summary.write_text(json.dumps({"outcome": "done", "steps": 2}))

    there.then[there.asked + 2] = end
    fetched = fetch(there, "r1", copy)
    assert fetched.state == "done"
    assert json.loads((copy / "summary.json").read_text())["steps"] == 2
    assert ReadRun(copy).outcome == "done"
    summary.unlink()  # as it went on, and then was killed
    there.state = "failed"
    fetch(there, "r1", copy)
    assert ReadRun(copy).outcome == "killed"


def test_who_may_not_read_it_gets_no_folder(there: Any, tmp_path: Path) -> None:
    def refuse() -> None:
        raise Refused(["run r1 is ann's"])

    there.then[1] = refuse
    with pytest.raises(Refused, match="is ann's"):
        fetch(there, "r1", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_folder_of_something_else_is_left_alone(there: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(Refused, match="is not empty and no copy of a run"):
        fetch(there, "r1", tmp_path / "mine")
    fetch(there, "r1", tmp_path / "copy")
    with pytest.raises(Refused, match="is a copy of run r1"):
        fetch(there, "r2", tmp_path / "copy")


def test_followed_until_the_run_is_over(
    there: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Fetched] = []

    def rest(seconds: float) -> None:
        with (there.folder / "progress.csv").open("a") as file:
            file.write("3\n")
        there.state = "done" if len(said) > 1 else "running"

    monkeypatch.setattr(module.time, "sleep", rest)
    assert follow(there, "r1", tmp_path / "copy", "all", 1.0, said.append).state == "done"
    assert [each.files for each in said] == [5, 1, 1]
    assert content(tmp_path / "copy") == content(there.folder)
