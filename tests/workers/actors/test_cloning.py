"""Clones when restores of the template's image fail: nobody is lost, nobody is made twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from named import acting

from artos.errors import RestoreFailed, TemplateFailed
from artos.protocol.invocations import Ready
from artos.runs.plan import Site
from artos.specs.members import TEMPLATE, Member, Members
from workers.actors.spawners import clones
from workers.actors.spawners.clones import Clones
from workers.actors.spawners.spawner import Place
from workers.checkpoint.criu.operation import Outcome

LOST = RestoreFailed("template", "CRIU died in the middle")


class Scripted:
    """CRIU and the store of images: each restore ends as the script says, None: not yet."""

    def __init__(self, *script: int | Exception | None) -> None:
        self.script = list(script)
        self.restores: list[Any] = []

    def take(self, pid: int, name: str) -> Any:
        del pid
        return type("Shot", (), {"image": name})()

    def is_done(self, shot: Any) -> bool:
        del shot
        return True

    def restore(self, image: Any, inherit: Any, prefix: Any) -> Any:
        del image, inherit, prefix
        if isinstance(self.script[0], OSError):
            raise self.script.pop(0)  # type: ignore[misc]
        self.restores.append(ScriptedRestore(self.script.pop(0)))
        return self.restores[-1]


class ScriptedRestore:
    def __init__(self, result: int | Exception | None) -> None:
        self.result, self.cancelled = result, False

    def poll(self) -> Outcome | None:
        if isinstance(self.result, Exception):
            raise self.result
        return None if self.result is None else Outcome(self.result, 0.1)

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that does not mind being woken."""
    code = "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN); print(); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def cloning(folder: Path, criu: Scripted, monkeypatch: pytest.MonkeyPatch) -> Clones:
    """Clones; the first is asked for, and the template is an image already."""
    template = type("Template", (), {"pid": 1, "died": lambda self: None, "kill": lambda self: 0})
    monkeypatch.setattr(clones.common_memory, "SUPPORTED", False)
    place = Place(Site(str(folder), *acting(0), Members.of_run(4), str(folder)), folder / "plan")

    def begin(*_: Any, **__: Any) -> Any:
        return template()

    made = Clones(place, Member(TEMPLATE), criu, criu, lambda slot: (), 4, begin)  # type: ignore[arg-type]
    made.request(*acting(0), None)
    made.poll()  # which starts the template
    made.heard(Ready(0.0))
    return made


@pytest.mark.parametrize("failure", [LOST, OSError(24, "too many files")])
def test_a_restore_that_fails_is_tried_again(
    tmp_path: Path, sleeper: int, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    criu = Scripted(failure, failure, sleeper)
    made = cloning(tmp_path, criu, monkeypatch)
    made.request(*acting(0), None)
    spawned = [each for _ in range(4) for each in made.poll()]
    assert [(each.member, each.child.pid) for each in spawned] == [(*acting(0), sleeper)]
    assert not criu.script


def test_three_failures_in_a_row_bar_the_way_and_lose_nobody_born_meanwhile(
    tmp_path: Path, sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    criu = Scripted(sleeper, LOST, LOST, LOST)
    made = cloning(tmp_path, criu, monkeypatch)
    for member in acting(0, 1, 2, 3):
        made.request(member, None)
    assert made.poll() == []
    assert [each.child.pid for each in made.poll()] == [sleeper]
    with pytest.raises(TemplateFailed, match="CRIU died in the middle"):
        made.poll()


@pytest.mark.parametrize("script", [[OSError(24, "too many files")] * 3, [0]])
def test_an_error_of_the_system_bars_the_way_and_ends_nothing_else(
    tmp_path: Path, script: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(pid: int, number: int) -> None:
        raise ProcessLookupError(pid, number)

    monkeypatch.setattr(clones.os, "kill", gone)
    made = cloning(tmp_path, Scripted(*script), monkeypatch)
    polls = len(script) + (script == [0])  # one begins the restore, one finds it done
    for _ in range(polls - 1):
        assert made.poll() == []
    with pytest.raises(TemplateFailed):
        made.poll()


def test_who_is_on_the_way_is_not_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    criu = Scripted(None)
    made = cloning(tmp_path, criu, monkeypatch)
    made.request(*acting(0), None)
    made.request(*acting(0), None)  # asked again while it is asked for
    made.poll()
    made.request(*acting(0), None)  # and while it is made
    made.poll()
    assert len(criu.restores) == 1
    made.close()
    assert criu.restores[0].cancelled
