"""Processes forked from one that has imported the workload's code, and what is done without it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers import PATIENCE, python

from artos.errors import DeadlineExceeded
from artos.runtime.preload import Preloaded
from artos.specs.reference import Reference
from artos.system.child import Child, ProcessSpec

pytestmark = pytest.mark.processes

HERE = Path(__file__).parent
PEER = "forked_peer"
ALONE = ProcessSpec(PEER, ())
THREADS = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of these tests find the peer."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *filter(None, sys.path)]))


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A user's file that leaves a mark when it is imported."""
    path = tmp_path / "mine.py"
    path.write_text("import sys, types\nsys.modules['marked_module'] = types.ModuleType('m')\n")
    return path


@pytest.fixture
def preloaded(module: Path) -> Iterator[Preloaded]:
    with Preloaded(reference(module)) as made:
        yield made


def reference(module: Path) -> Reference:
    return Reference(f"{module}:table", folder=str(module.parent))


def facts(child: Child) -> dict[str, Any]:
    """What the peer printed; it ends with status 5."""
    assert child.ends_within(PATIENCE)
    assert child.died() == 5, child.log_tail()
    found: dict[str, Any] = json.loads(child.log.read_text())
    return found


def test_a_forked_process_is_ours_has_all_imported_and_holds_nothing(
    preloaded: Preloaded, tmp_path: Path
) -> None:
    child = preloaded.start(
        ProcessSpec(PEER, ("one", "two"), threads=2), tmp_path / "logs" / "peer.log"
    )
    found = facts(child)
    assert found.pop("pid") == found.pop("session") == child.pid
    assert found == {
        "parent": os.getpid(), "forked": True, "arguments": ["one", "two"], "threads": "2",
        "marked": True, "input": "", "open": [0, 1, 2],
    }  # fmt: skip


def test_what_it_reads_and_prints_can_be_pipes(preloaded: Preloaded, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("so be it")
    with words.open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        child = preloaded.start(ALONE, tmp_path / "log", stdin=stdin, stdout=stdout)
        assert child.ends_within(PATIENCE)
    assert json.loads((tmp_path / "out").read_text())["input"] == "so be it"
    assert not (tmp_path / "log").read_text()


def test_one_that_is_to_keep_its_heap_does(preloaded: Preloaded, tmp_path: Path) -> None:
    child = preloaded.start(ProcessSpec(PEER, ("stay",), keeps_heap=True), tmp_path / "log")
    while not child.log_tail():
        assert not child.ends_within(0.01)
    maps = psutil.Process(child.pid).memory_maps(grouped=False)
    child.kill()
    heap = [each.addr.split("-") for each in maps if each.path == "[heap]"]
    assert sum(int(stop, 16) - int(start, 16) for start, stop in heap) > 1 << 30


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace needs root")
def test_apart_it_is_the_first_of_its_namespace(preloaded: Preloaded, tmp_path: Path) -> None:
    found = facts(preloaded.start(ProcessSpec(PEER, (), apart=True), tmp_path / "log"))
    assert (found["pid"], found["session"], found["parent"], found["forked"]) == (1, 1, 0, True)


def test_with_threads_of_the_users_processes_are_started_anew(module: Path, tmp_path: Path) -> None:
    module.write_text(THREADS)
    with Preloaded(reference(module)) as preloaded:
        found = facts(preloaded.start(ALONE, tmp_path / "log"))
        assert "started 1 threads" in preloaded.why_not
        assert preloaded.forked(ALONE, tmp_path / "log") is None
    assert (found["forked"], found["marked"], found["parent"]) == (False, False, os.getpid())


def test_after_its_death_processes_are_started_anew(preloaded: Preloaded, tmp_path: Path) -> None:
    before = preloaded.start(ProcessSpec(PEER, ("stay",)), tmp_path / "before")
    os.kill(preloaded.pid, signal.SIGKILL)
    assert not facts(preloaded.start(ALONE, tmp_path / "log"))["forked"]
    assert before.died() is None
    before.kill()


def test_an_import_that_hangs(module: Path) -> None:
    module.write_text("import threading\nthreading.Event().wait()\n")
    with (
        Preloaded(reference(module)) as preloaded,
        pytest.raises(DeadlineExceeded, match="waiting for the import of the workload's code"),
    ):
        preloaded.answer(PEER, [], 0.5, each=PATIENCE)


def test_what_hangs_after_the_import_is_killed(preloaded: Preloaded, tmp_path: Path) -> None:
    facts(preloaded.start(ALONE, tmp_path / "log"))  # the import is done
    with pytest.raises(DeadlineExceeded, match=PEER):
        preloaded.answer(PEER, ["stay"], 5.0, each=0.2)


def test_an_answer_apart_from_what_is_said(module: Path) -> None:
    module.write_text("print('imported')\n")
    with Preloaded(reference(module)) as preloaded:
        answer = preloaded.answer(PEER, ["x"], PATIENCE, each=PATIENCE)
    assert answer.status == 5
    assert json.loads(answer.out)["arguments"] == ["x"]
    assert answer.said.decode().split() == ["imported"]


def test_it_and_what_it_forked_die_with_the_supervisor(module: Path, tmp_path: Path) -> None:
    code = f"""if True:
        import signal
        from pathlib import Path
        from artos.specs.reference import (Reference)
        from artos.system.child import ProcessSpec
        from artos.runtime.preload import Preloaded
        preloaded = Preloaded(Reference({f"{module}:table"!r}, {{}}, {str(tmp_path)!r}))
        spec = ProcessSpec({PEER!r}, ("stay",))
        child = preloaded.start(spec, Path({str(tmp_path / "log")!r}))
        print(preloaded.pid, child.pid, flush=True)
        signal.pause()"""
    with python("-c", code) as peer:
        assert peer.stdout is not None
        processes = [psutil.Process(int(pid)) for pid in peer.stdout.readline().split()]
        peer.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(processes, PATIENCE)
    assert len(processes) == 2
    assert not alive
