"""Forks when their fork server fails: nobody is lost, nobody is made twice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

import pytest
from named import acting

from artos.errors import TemplateFailed
from artos.runs.plan import Site
from artos.specs.members import TEMPLATE, Member, Members
from workers.actors.spawners import forks
from workers.actors.spawners.forks import Forks
from workers.actors.spawners.spawner import Place


class Server:
    """A fork server that has given some answers; then it ends, or says no more."""

    pid, words = 1, ""

    def __init__(self, *pids: int, ends: bool) -> None:
        self.pids, self.ends = pids, ends
        self.open: list[int] = []

    def __call__(self, *_: Any, stdin: IO[bytes], stdout: IO[bytes]) -> Any:
        stdout.write(b"".join(b"%d\n" % pid for pid in self.pids))
        kept = [stdin] if self.ends else [stdin, stdout]
        self.open = [os.dup(each.fileno()) for each in kept]
        return self

    def died(self) -> None:
        """It is not known yet."""

    def log_tail(self) -> str:
        return self.words

    def end(self, seconds: float) -> None:
        del seconds
        for each in self.open:
            os.close(each)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = str(tmp_path)
    return Place(Site(folder, *acting(0), Members.of_run(3), folder), tmp_path / "plan")


def forking(place: Place, server: Server) -> Forks:
    made = Forks(place, Member(TEMPLATE), server)
    made.ready = True
    for member in acting(0, 1, 2):
        made.request(member, None)
    return made


@pytest.mark.parametrize("ends", [True, False])
def test_who_was_forked_before_the_server_failed_is_not_lost(
    place: Place, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "_FORK_SECONDS", 0.05)
    made = forking(place, Server(41, 42, ends=ends))
    try:
        assert [(each.member, each.child.pid) for each in made.poll()] == [
            (*acting(0), 41), (*acting(1), 42),
        ]  # fmt: skip
        with pytest.raises(TemplateFailed, match="is gone" if ends else "no pid in 0.05 s"):
            made.poll()
    finally:
        made.close()


def test_a_server_that_ended_is_told_by_its_last_words(place: Place) -> None:
    server = Server(ends=True)
    server.words = "OSError: the system made no process"
    made = forking(place, server)
    try:
        with pytest.raises(TemplateFailed, match="the system made no process"):
            made.poll()
    finally:
        made.close()


def test_each_template_has_a_file_of_its_own_for_its_memory(place: Place) -> None:
    first = place.new_memory()
    assert first == place.memory
    first.touch()
    second = place.new_memory()
    second.touch()
    assert len({first, second, place.new_memory()}) == 3
