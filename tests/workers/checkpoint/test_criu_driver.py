"""Dump, restore and clone with the real CRIU (paper §4.3)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from elastic import PATIENCE, Stage, Subject, needs_criu, state, until
from helpers import children

from artos.clock import ManualClock
from artos.errors import DeadlineExceeded, ImageUnusable, RestoreFailed
from artos.system.logs import rotate
from workers.checkpoint.criu.driver import Criu, NoCriu, criu_here
from workers.checkpoint.criu.find import find_criu
from workers.checkpoint.facts import Facts
from workers.host import priority
from workers.host.priority import GENTLE

pytestmark = [needs_criu, pytest.mark.processes]


def test_a_dumped_process_goes_on_where_it_was(stage: Stage) -> None:
    one = stage.subject().serve("ballast")
    assert [one.count(), one.count()] == [1, 2]
    found = one.sum
    image = stage.dump(one)
    assert not one.is_alive()
    stage.restore(image, one)
    assert one.count() == 3
    assert one.sum == found > 0
    assert one.own_pid == 1


def test_it_works_twice_in_a_row_and_leaves_nothing(stage: Stage) -> None:
    one = stage.subject().serve()
    before = set(Path("/proc/self/fd").iterdir())
    for count in (1, 2, 3):
        assert one.count() == count
        image = stage.dump(one)
        one.end()
        assert not children()
        stage.restore(image, one)
        assert set(children()) == {one.pid}
    assert set(Path("/proc/self/fd").iterdir()) == before
    assert {path.name for path in stage.store.folder.iterdir()} == {"image"}
    assert not list(image.folder.glob("*.log"))


def test_a_restored_process_is_our_child(stage: Stage) -> None:
    one = stage.subject().serve()
    stage.restore(stage.dump(one), one)
    assert one.pid in children()
    os.kill(one.pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(one.pid, 0)[1]) == -signal.SIGKILL


def test_a_ring_while_it_was_an_image_is_heard_after_the_restore(stage: Stage) -> None:
    """Its sleep in the futex is interrupted by the dump, and the semaphore lives on in /dev/shm."""
    one = stage.subject().serve()
    image = stage.dump(one)
    one.ask()
    stage.restore(image, one)
    one.heard()
    assert one.count() == 2


def template(stage: Stage) -> tuple[Subject, Path]:
    """A template that waits for its signal, and its identity file."""
    first = stage.subject("template")
    identity = stage.folder / "identity"
    identity.write_text(str(first.segment.path))
    return first.start("template", identity), identity


def test_several_clones_of_one_image_live_side_by_side(stage: Stage) -> None:
    first, identity = template(stage)
    image = stage.dump(first)
    clones = [stage.subject(f"clone-{number}") for number in range(4)]
    operations = []
    for clone in clones:
        who = stage.folder / f"identity-{clone.name}"
        who.write_text(str(clone.segment.path))
        inherit = {identity: who, first.log: clone.log}
        operations.append(stage.begin_restore(image, clone, inherit))
    for clone, operation in zip(clones, operations, strict=True):
        clone.revived(operation.wait(PATIENCE).pid)
        os.kill(clone.pid, signal.SIGUSR1)
        clone.heard()
    assert len({clone.pid for clone in clones}) == len(clones)
    for number, clone in enumerate(clones):
        for _ in range(number):
            clone.count()
    assert [clone.count() for clone in clones] == [1, 2, 3, 4]
    assert {clone.own_pid for clone in clones} == {1}
    assert [clone.log.read_text().count("served") for clone in clones] == [2, 3, 4, 5]


def test_a_clone_can_be_dumped_and_restored_like_any_other(stage: Stage) -> None:
    first, identity = template(stage)
    image = stage.dump(first)
    operation = stage.begin_restore(image, first, {identity: identity})
    first.revived(operation.wait(PATIENCE).pid)
    os.kill(first.pid, signal.SIGUSR1)
    first.heard()
    for count in (1, 2):
        assert first.count() == count
        mine = stage.dump(first, "clone")
        first.end()
        operation = stage.begin_restore(mine, first, {identity: identity})
        first.revived(operation.wait(PATIENCE).pid)
    assert first.count() == 3


def test_a_file_that_changed_stops_the_restore_unless_it_is_inherited(stage: Stage) -> None:
    first, identity = template(stage)
    image = stage.dump(first)
    with identity.open("a") as file:
        file.write(" ")
    with pytest.raises(RestoreFailed, match="identity changed since the image was taken") as failed:
        stage.restore(image, first)
    assert "bad size" in failed.value.log
    assert not children()
    inherit = {identity: identity}
    first.revived(stage.begin_restore(image, first, inherit).wait(PATIENCE).pid)
    assert first.is_alive()


def test_a_log_that_was_rotated_since_is_written_on(stage: Stage) -> None:
    """As logs are capped while actors are being dumped, are images, and run again."""
    one = stage.subject().serve()
    one.count()
    facts, image = Facts.of(one.pid, stage.criu.version), stage.store.begin("image")
    operation = stage.criu.dump(one.pid, image)
    assert rotate(one.log, 1)
    operation.wait(PATIENCE)
    image.seal(facts)
    one.gone()
    one.log.write_text("of somebody else\n")
    assert rotate(one.log, 1)
    stage.restore(image, one)
    assert one.count() == 2
    assert one.log.read_text().splitlines() == ["served 2"]


def test_a_log_that_grew_is_written_on(stage: Stage) -> None:
    """It is open for appending, so CRIU does not look at its size: nothing has to be inherited."""
    one = stage.subject().serve()
    image = stage.dump(one)
    with one.log.open("a") as log:
        log.write("meanwhile\n")
    one.revived(stage.criu.restore(image, {}).wait(PATIENCE).pid)
    assert one.count() == 1
    assert one.log.read_text().endswith("meanwhile\nserved 1\n")


def test_what_runs_the_restore_decides_where_the_process_runs(stage: Stage) -> None:
    one = stage.subject().serve()
    image = stage.dump(one)
    cpu = max(os.sched_getaffinity(0))
    with one.log.open("ab") as log:
        inherit = {str(one.log): log.fileno()}
        operation = stage.criu.restore(image, inherit, ["taskset", "--cpu-list", str(cpu)])
    one.revived(operation.wait(PATIENCE).pid)
    assert os.sched_getaffinity(one.pid) == {cpu}
    assert one.count() == 1


def niceness(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def test_a_gentle_restore_makes_a_process_of_the_usual_priority(stage: Stage) -> None:
    """The low priority is CRIU's; that of the process is in the image."""
    one = stage.subject().serve()
    usual = niceness(one.pid)
    operation = stage.begin_restore(stage.dump(one), one)
    operation.lower_priority()
    assert niceness(operation.criu_pid) == min(19, usual + GENTLE)
    one.revived(operation.wait(PATIENCE).pid)
    assert niceness(one.pid) == usual
    assert one.count() == 1


def test_a_gentle_restore_can_be_hurried(stage: Stage) -> None:
    one = stage.subject().serve()
    operation = stage.begin_restore(stage.dump(one), one)
    operation.lower_priority()
    operation.hurry()
    assert niceness(operation.criu_pid) == niceness(0)
    one.revived(operation.wait(PATIENCE).pid)
    operation.hurry()  # and nothing happens
    assert one.count() == 1


def test_a_priority_that_cannot_be_raised_again_is_not_lowered(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priority, "may_raise", lambda: False)
    one = stage.subject().serve()
    operation = stage.begin_restore(stage.dump(one), one)
    operation.lower_priority()
    assert niceness(operation.criu_pid) == niceness(0)
    one.revived(operation.wait(PATIENCE).pid)


# -- asynchronous ------------------------------------------------------------------------------


def test_nobody_waits_for_criu_unless_asked_to(stage: Stage) -> None:
    one = stage.subject().serve("ballast")
    operation = stage.criu.dump(one.pid, image := stage.store.begin("image"))
    os.kill(operation.criu_pid, signal.SIGSTOP)
    try:
        assert operation.poll() is None
        with pytest.raises(DeadlineExceeded, match="dump of process"):
            operation.wait(0.01)
    finally:
        os.kill(operation.criu_pid, signal.SIGCONT)
    assert operation.wait(PATIENCE).pid == one.pid
    assert operation.poll() == operation.wait(PATIENCE)
    image.abandon()


def test_a_hung_criu_is_given_up(stage: Stage) -> None:
    one = stage.subject().serve()
    image = stage.dump(one)
    clock = ManualClock()
    operation = Criu(find_criu(), clock, limit=5.0).restore(image, {})
    os.kill(operation.criu_pid, signal.SIGSTOP)
    assert operation.poll() is None
    clock.advance(5.0)
    with pytest.raises(RestoreFailed, match="did not finish within 5 s"):
        operation.poll()
    assert state(operation.criu_pid) == ""
    assert not children()


def test_a_cancelled_restore_leaves_no_process(stage: Stage) -> None:
    one = stage.subject().serve()
    image = stage.dump(one)
    operation = stage.begin_restore(image, one)
    operation.cancel()
    operation.cancel()
    with pytest.raises(RestoreFailed, match="cancelled"):
        operation.poll()
    assert not children()
    stage.restore(image, one)
    assert one.count() == 1


def test_cancelling_after_the_fact_ends_the_process_that_nobody_asked_for(stage: Stage) -> None:
    one = stage.subject().serve()
    image = stage.dump(one)
    operation = stage.criu.restore(image, {})
    until("the end of CRIU", lambda: state(operation.criu_pid) == "Z")
    assert len(children()) == 2
    operation.cancel()
    assert not children()


def test_a_stopped_process_is_stopped_again_after_its_restore(stage: Stage) -> None:
    """A frozen actor becomes an image without being thawed; whoever restores it thaws it."""
    one = stage.subject().serve()
    os.kill(one.pid, signal.SIGSTOP)
    until("the stop", lambda: state(one.pid) == "T")
    stage.restore(stage.dump(one), one)
    until("the stop", lambda: state(one.pid) == "T")
    os.kill(one.pid, signal.SIGCONT)
    assert one.count() == 1


def test_a_cancelled_dump_leaves_no_image_and_the_process_alone(stage: Stage) -> None:
    one = stage.subject().serve("ballast")
    image = stage.store.begin("image")
    operation = stage.criu.dump(one.pid, image)
    os.kill(operation.criu_pid, signal.SIGSTOP)
    operation.cancel()
    assert one.count() == 1
    assert not image.folder.exists()
    assert stage.store.used == 0


@pytest.mark.parametrize(("owner", "interrupted"), [("_worker", "close"), ("_task", "failed")])
def test_what_an_interrupt_has_left_of_a_failed_dump_can_be_cancelled(
    owner: str, interrupted: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = stage.subject().serve()
    image = stage.store.begin("image")
    operation = stage.criu.dump(one.pid, image)
    os.kill(operation.criu_pid, signal.SIGKILL)
    until("the end of CRIU", operation._worker.has_exited)
    carry_out = getattr(getattr(operation, owner), interrupted)

    def interrupt(*about: object) -> None:
        if interrupted == "close":
            carry_out(*about)
        raise KeyboardInterrupt

    with monkeypatch.context() as once:
        once.setattr(getattr(operation, owner), interrupted, interrupt)
        with pytest.raises(KeyboardInterrupt):
            operation.poll()
    operation.cancel()
    assert one.count() == 1
    assert not image.folder.exists()
    assert stage.store.used == 0


# -- refused beforehand ------------------------------------------------------------------------


def test_a_half_written_image_is_never_restored(stage: Stage) -> None:
    one = stage.subject().serve()
    image = stage.store.begin("image")
    stage.criu.dump(one.pid, image).wait(PATIENCE)
    with pytest.raises(ImageUnusable, match="never finished"):
        stage.begin_restore(image, one)


def test_the_driver_of_this_host_is_found() -> None:
    driver = criu_here()
    assert isinstance(driver, Criu)
    assert driver.version[0].isdigit()


def test_without_criu_the_reason_is_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ARTOS_CRIU", str(tmp_path / "nowhere"))
    driver = criu_here()
    assert isinstance(driver, NoCriu)
    image = stage.store.begin("image")
    with pytest.raises(type(driver.why), match="nowhere"):
        driver.dump(os.getpid(), image)
    assert not image.folder.exists()
    with pytest.raises(type(driver.why), match="nowhere"):
        driver.restore(image, {})
