"""What goes wrong with checkpoints and must be survived: each on the real thing."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest
from elastic import PATIENCE, Stage, needs_criu, state, until
from helpers import children

from artos.errors import CheckpointRefused, ImageUnusable, RestoreFailed
from workers.checkpoint.criu.cleanup import end
from workers.checkpoint.criu.driver import Criu, Operation
from workers.checkpoint.criu.tasks import DumpTask
from workers.checkpoint.facts import Facts
from workers.checkpoint.images import ImageStore

pytestmark = [needs_criu, pytest.mark.processes]

# CRIU's own fault injection: it kills itself, or gives up, at that point.
DUMP_EARLY, DUMP_PAGES = "1", "3"


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs with too little room for a process with ballast."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


# -- refused dumps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ("tcp", r"socket.*descriptor \d+ is a socket \(127\.0\.0\.1:\d+ to 127"),
        ("unix", r"Unix socket.*descriptor \d+ is socket"),
        ("lock", "file lock"),
        ("device", r"kind that cannot be saved.*GPU.*descriptor \d+ is /dev/"),
        ("io_uring", "io_uring"),
    ],
)
def test_a_refused_dump_names_the_culprit_and_the_process_runs_on(
    stage: Stage, extra: str, named: str
) -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.bind(str(stage.folder / "peer"))
        peer.listen()
        one = stage.subject().serve(extra)
        other_end = [peer.accept()[0]] if extra == "unix" else []
        image = stage.store.begin("image")
        with pytest.raises(CheckpointRefused, match=named) as refused:
            stage.criu.dump(one.pid, image).wait(PATIENCE)
        for end_of_it in other_end:
            end_of_it.close()
    assert "close it before a round ends, or keep actors in memory" in str(refused.value)
    assert "Error" in refused.value.log
    assert refused.value.pid == one.pid
    assert one.count() == 1
    assert not image.folder.exists()
    assert "Error" in (stage.store.folder / "image.log").read_text()


def test_threads_of_user_code_do_not_stand_in_the_way(stage: Stage) -> None:
    one = stage.subject().serve("thread")
    stage.restore(stage.dump(one), one)
    assert one.count() == 1


def test_a_process_that_is_gone_cannot_be_dumped(stage: Stage) -> None:
    one = stage.subject().serve()
    pid = one.pid
    one.end()
    with pytest.raises(CheckpointRefused, match="gone"):
        stage.criu.dump(pid, stage.store.begin("image")).wait(PATIENCE)


def test_one_that_ends_under_criu_is_gone_also_before_it_is_reaped(stage: Stage) -> None:
    one = stage.subject().serve(apart=False)
    dump = DumpTask(one.pid, stage.store.begin("image"))
    os.kill(one.pid, signal.SIGKILL)
    until("its end", lambda: state(one.pid) == "Z")
    refused = dump.failed("CRIU died in the middle (signal 6)", None)
    assert "the process is gone" in str(refused)


def test_a_full_filesystem_refuses_the_dump_and_nothing_stays(stage: Stage, tiny: Path) -> None:
    one = stage.subject().serve("ballast")
    store = ImageStore(tiny / "images", 1 << 40)
    with pytest.raises(CheckpointRefused, match="images is full: make room there, or keep"):
        stage.criu.dump(one.pid, store.begin("image")).wait(PATIENCE)
    assert one.count() == 1
    assert [path.name for path in store.folder.iterdir()] in ([], ["image.log"])
    assert store.used == 0


def test_a_criu_that_does_not_exist_is_refused(stage: Stage, tmp_path: Path) -> None:
    one = stage.subject().serve()
    nowhere = Criu(tmp_path / "criu")
    with pytest.raises(CheckpointRefused, match="cannot be started"):
        nowhere.dump(one.pid, stage.store.begin("image"))
    image = stage.dump(one)
    with pytest.raises(RestoreFailed, match="cannot be started"):
        stage.criu.restore(image, {}, [str(tmp_path / "numactl")])
    assert not children()


# -- CRIU dies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "told"), [(DUMP_EARLY, "died in the middle .signal 9"), (DUMP_PAGES, "pages failure")]
)
def test_criu_dies_in_mid_dump_and_the_process_runs_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, where: str, told: str
) -> None:
    one = stage.subject().serve("ballast")
    image = stage.store.begin("image")
    monkeypatch.setenv("CRIU_FAULT", where)
    with pytest.raises(CheckpointRefused, match=told):
        stage.criu.dump(one.pid, image).wait(PATIENCE)
    monkeypatch.delenv("CRIU_FAULT")
    assert one.count() == 1
    assert not image.folder.exists()
    stage.restore(stage.dump(one), one)
    assert one.count() == 2


def test_criu_dies_in_mid_restore_and_no_process_is_left(stage: Stage) -> None:
    one = stage.subject().serve("ballast")
    image = stage.dump(one)
    operation = stage.begin_restore(image, one)
    until("a half-restored process", lambda: len(children()) > 1)
    os.kill(operation.criu_pid, signal.SIGKILL)
    with pytest.raises(RestoreFailed, match=r"CRIU died in the middle .signal 9"):
        operation.wait(PATIENCE)
    assert not children()
    stage.restore(image, one)
    assert one.count() == 1


def test_criu_killed_at_any_moment_of_a_dump_leaves_a_process_that_can_be_ended(
    stage: Stage,
) -> None:
    """It may die of it when CRIU was just about to change its registers, but never hangs."""
    generator = random.Random(2)
    for number in range(8):
        one = stage.subject(f"subject-{number}").serve("ballast")
        image = stage.store.begin("image")
        operation = stage.criu.dump(one.pid, image)
        kill_soon(operation, generator)
        with suppress(CheckpointRefused):
            operation.wait(PATIENCE)
            image.abandon()
            one.gone()
        one.answers_or_ends()
        one.end()
        assert not children()


def test_criu_killed_at_any_moment_of_a_restore_leaves_no_process(stage: Stage) -> None:
    one = stage.subject().serve("ballast")
    image = stage.dump(one)
    generator = random.Random(1)
    for _ in range(20):
        operation = stage.begin_restore(image, one)
        kill_soon(operation, generator)
        with suppress(RestoreFailed):
            end(operation.wait(PATIENCE).pid)
        assert not children()
    stage.restore(image, one)
    assert one.count() == 1


def test_one_that_has_its_name_and_dies_with_criu_is_reaped(stage: Stage) -> None:
    """It is no longer called criu, is in a group of its own, and as a zombie holds no files."""
    one = stage.subject().serve("ballast")
    image = stage.dump(one)
    for _ in range(50):
        operation = stage.begin_restore(image, one)
        if pid := caught_at_work(operation):
            os.kill(pid, signal.SIGKILL)
            until("its end", lambda pid=pid: state(pid) == "Z")
            os.kill(operation.criu_pid, signal.SIGKILL)
        try:
            end(operation.wait(PATIENCE).pid)  # it had answered before it was stopped
        except RestoreFailed:
            assert not children()
            return
    pytest.fail("CRIU was never stopped between naming the process and its answer")


def caught_at_work(operation: Operation) -> int:
    """Stop CRIU once the process it makes has its own name; 0 if CRIU was quicker."""
    criu = psutil.Process(operation.criu_pid)
    while criu.status() != psutil.STATUS_ZOMBIE:
        for made in set(children()) - {criu.pid}:
            if Path(f"/proc/{made}/comm").read_text().strip() not in ("criu", ""):
                criu.suspend()
                until("CRIU's stop or end", lambda: state(criu.pid) in "TZ")
                return made if state(criu.pid) == "T" else 0
    return 0


def test_two_restores_one_of_which_dies_do_not_harm_each_other(stage: Stage) -> None:
    one, other = stage.subject().serve(), stage.subject("other")
    image = stage.dump(one)
    first = stage.begin_restore(image, one, {one.log: one.log})
    second = stage.begin_restore(image, other, {one.log: other.log})
    os.kill(second.criu_pid, signal.SIGKILL)
    one.revived(first.wait(PATIENCE).pid)
    with pytest.raises(RestoreFailed):
        second.wait(PATIENCE)
    assert one.count() == 1
    assert set(children()) == {one.pid}


def kill_soon(operation: Operation, generator: random.Random) -> None:
    """Kill its CRIU at some moment of the next hundredths of a second."""
    time.sleep(generator.uniform(0.0, 0.06))
    with suppress(ProcessLookupError):
        os.kill(operation.criu_pid, signal.SIGKILL)


def test_a_restored_process_ends_with_its_new_parent(stage: Stage) -> None:
    """The wish to be killed with the parent is in the image, and CRIU renews it."""
    one = stage.subject().serve("bound")
    image = stage.dump(one)
    told, tell = os.pipe()
    if (parent := os.fork()) == 0:
        try:
            pid = stage.begin_restore(image, one).wait(PATIENCE).pid
            os.write(tell, str(pid).encode())
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    try:
        orphan = int(os.read(told, 20))
        assert state(orphan)
    finally:
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        os.close(told)
    until("the end of the orphan", lambda: state(orphan) in ("", "Z"))


# -- bad images --------------------------------------------------------------------------------


def test_a_truncated_image_is_refused(stage: Stage) -> None:
    one = stage.subject().serve()
    image = stage.dump(one)
    pages = image.folder / "pages-1.img"
    os.truncate(pages, pages.stat().st_size - 1)
    with pytest.raises(ImageUnusable, match=r"pages-1.img has \d+ bytes instead of"):
        stage.begin_restore(image, one)
    assert not children()


def test_an_image_with_a_missing_file_is_refused(stage: Stage) -> None:
    one = stage.subject().serve()
    image = stage.dump(one)
    (image.folder / "core-1.img").unlink()
    with pytest.raises(ImageUnusable, match=r"core-1.img is missing"):
        stage.begin_restore(image, one)


def test_an_image_of_another_library_build_is_refused(stage: Stage) -> None:
    one = stage.subject().serve()
    image = stage.dump(one)
    facts = image.facts
    library = next(path for path in facts.host.libraries if "libc.so" in path)
    host = msgspec.structs.replace(facts.host, libraries={library: "00", "/nowhere.so": "00"})
    facts = msgspec.structs.replace(facts, host=host)
    (image.folder / "facts.json").write_bytes(msgspec.json.encode(facts))
    with pytest.raises(ImageUnusable, match="another build") as refused:
        stage.begin_restore(image, one)
    assert len(refused.value.faults) == 2


def test_damage_after_the_look_fails_in_criu_and_leaves_no_process(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stage.subject().serve()
    image = stage.dump(one)
    monkeypatch.setattr(image, "check", lambda criu: None)
    core = image.folder / "core-1.img"
    core.write_bytes(bytes(core.stat().st_size))
    with pytest.raises(RestoreFailed, match="damaged") as failed:
        stage.begin_restore(image, one).wait(PATIENCE)
    assert "Error" in failed.value.log
    assert not children()
    assert list(image.folder.glob("restore-*.log"))


def test_a_process_id_that_is_taken_is_told(stage: Stage) -> None:
    """Only without a PID namespace of its own, so never for our actors."""
    one = stage.subject().serve(apart=False)
    image = stage.dump(one)
    stage.restore(image, one)
    with pytest.raises(RestoreFailed, match="process id it had is taken"):
        stage.begin_restore(image, one).wait(PATIENCE)
    assert one.count() == 1


def test_a_mapped_file_that_is_gone_is_told(stage: Stage) -> None:
    one = stage.subject().serve()
    image = stage.dump(one)
    one.segment.path.unlink()
    with pytest.raises(RestoreFailed, match=r"is gone: .*subject.segment"):
        stage.begin_restore(image, one).wait(PATIENCE)
    assert not children()


def test_the_facts_are_those_of_the_process(stage: Stage) -> None:
    one = stage.subject().serve()
    facts = Facts.of(one.pid, stage.criu.version, block="b", actor=3, step=4, policy_version=5)
    assert any("python" in path for path in facts.host.libraries)
    image = stage.store.begin("image")
    stage.criu.dump(one.pid, image).wait(PATIENCE)
    image.seal(facts)
    kept = image.facts
    assert (kept.block, kept.actor, kept.step, kept.policy_version) == ("b", 3, 4, 5)
    assert kept.files == image.files()
    assert kept.files["pages-1.img"] > 0
    assert stage.store.used == sum(kept.files.values())
