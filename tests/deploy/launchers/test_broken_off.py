"""What was broken off, by a signal, a full disk or another command, can be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from artos.errors import Refused
from artos.transport.keys import make_keys
from deploy.launchers import bringing_up
from deploy.launchers.bringing_up import Started, TakenDown, down, up
from deploy.launchers.cluster import HEAD, RECORD, VARIABLE, Cluster, load
from deploy.launchers.launcher import EngineFailed, Launcher, Unit


class Desk(Launcher):
    """Units that end when they are told to, but for those that are out of reach."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.there: list[Unit] = []
        self.out_of_reach: set[int] = set()
        self.stubborn: set[int] = set()
        self.marks: list[str] = []
        """Of the cluster, whenever units were started."""

    def plan(self) -> Mapping[str, str]:
        return {}

    def start(self, indexes: Sequence[int]) -> None:
        self.marks.append(self._cluster.mark)
        self.there += [Unit(index, f"u{index}") for index in indexes]

    def units(self) -> list[Unit]:
        return [*self.there]

    def stop(self, unit: Unit, *, now: bool = False) -> None:
        if unit.index in self.out_of_reach:
            raise EngineFailed("desk", f"stop unit {unit.index}", "no route to it")
        if now or unit.index not in self.stubborn:
            self.there.remove(unit)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return Cluster(name="lab", engine="desk", folder=str(tmp_path / "lab"), least=1, most=2)


@pytest.fixture
def desk(lab: Cluster, monkeypatch: pytest.MonkeyPatch) -> Desk:
    engine = Desk(lab)
    monkeypatch.setattr(bringing_up, "launcher_of", lambda _: engine)
    monkeypatch.setattr(bringing_up, "launcher_type", lambda _: Desk)
    monkeypatch.setattr(bringing_up, "misasked", lambda _: [])
    monkeypatch.setattr(bringing_up, "_LOOK", 0.0)
    return engine


def test_a_cluster_whose_start_was_broken_off_before_it_had_its_keys_gets_them(
    lab: Cluster, desk: Desk
) -> None:
    lab.save()
    assert not up(lab, 0.0, print).joined
    assert desk.marks == [lab.mark]
    assert lab.mark


def test_a_record_is_there_only_once_all_keys_are(
    lab: Cluster, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed in between leaves what the next `artos up` completes."""

    def killed(folder: Path) -> None:
        make_keys(folder)
        (folder / "users" / "owner.key").unlink()
        assert not (lab.path / RECORD).exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bringing_up.keys, "make_keys", killed)
        patch.setattr(Cluster, "forget", lambda _: None)  # nor does it get so far
        with pytest.raises(KeyboardInterrupt):
            up(lab, 0.0, print)
    assert not up(lab, 0.0, print).joined
    assert (lab.keys / "users" / "owner.key").exists()


def test_one_that_was_being_forgotten_can_be_wanted_otherwise(lab: Cluster, desk: Desk) -> None:
    up(lab, 0.0, print)
    desk.there.clear()
    lab.forget()
    lab.save()  # the record is what goes last
    other = Cluster(name="lab", engine="desk", folder=lab.folder, least=0, most=1)
    assert not up(other, 0.0, print).joined
    assert load(lab.path) == other


def test_one_unit_that_cannot_be_told_keeps_no_other_alive(
    lab: Cluster, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bringing_up, "_MARGIN", -lab.notice)
    up(lab, 0.0, print)
    desk.start([0, 1])
    desk.out_of_reach, desk.stubborn = {0}, {1}
    said: list[str] = []
    with pytest.raises(EngineFailed, match="stop unit 0: no route to it"):
        down("lab", said.append)
    assert [unit.index for unit in desk.there] == [0]
    assert "`artos down lab` again" in said[-1]
    desk.out_of_reach = set()
    down("lab", said.append)
    assert desk.there == []
    with pytest.raises(Refused, match="there is no cluster 'lab'"):
        down("lab", said.append)


def test_what_never_comes_back_can_be_left_behind(
    lab: Cluster, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bringing_up, "_MARGIN", -lab.notice)
    up(lab, 0.0, print)
    desk.start([0, 1])
    desk.out_of_reach = {HEAD, 0, 1}

    def clear(_: Desk) -> None:
        raise EngineFailed("desk", "remove its keys", "no route to it")

    monkeypatch.setattr(Desk, "clear", clear)
    monkeypatch.setattr(type(lab), "head_seconds", 0.0)
    said: list[str] = []
    down("lab", said.append, forget=True)
    assert [unit.index for unit in desk.there] == [HEAD, 0, 1]
    assert [each for each in said if each.startswith("left behind: ")] == [
        "left behind: desk did not end the head: its runs save: stop unit -1: no route to it",
        "left behind: desk did not end 2 workers: stop unit 0: no route to it; stop unit 1: no "
        "route to it",
        "left behind: desk did not remove its keys: no route to it",
    ]
    assert not (lab.path / RECORD).exists()


def test_an_engine_that_is_away_meanwhile_is_asked_again_by_the_next_down(
    lab: Cluster, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(lab, 0.0, print)
    said: list[str] = []

    def away(_: Desk) -> list[Unit]:
        raise EngineFailed("desk", "list its units", "it is away")

    with monkeypatch.context() as patch:
        patch.setattr(Desk, "units", away)
        with pytest.raises(EngineFailed, match="it is away"):
            down("lab", said.append)
    assert "`artos down lab` again" in said[-1]
    down("lab", said.append)
    assert not (lab.path / RECORD).exists()


def test_an_engine_that_is_away_while_a_cluster_comes_up_is_asked_again(
    lab: Cluster, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = Started("lab", "desk", lab.folder, "", "")
    away = EngineFailed("desk", "list its units", "it is away")
    looks = iter([away, away, (started, ())])

    def look(*_: object) -> object:
        if isinstance(seen := next(looks), EngineFailed):
            raise seen
        return seen

    monkeypatch.setattr(bringing_up, "_look", look)
    said: list[str] = []
    assert up(lab, 60.0, said.append) == started
    assert said == ["desk did not list its units: it is away; it is asked again"]
    looks = iter([away])
    with pytest.raises(EngineFailed, match="it is away"):
        up(lab, 0.0, said.append)
    assert load(lab.path) == lab, "it comes up all the same"


def test_who_waits_for_a_cluster_that_is_taken_down_is_told(
    lab: Cluster, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bringing_up, "_WITHOUT_HEAD", 0.0)
    said: list[str] = []

    def say(what: str) -> None:
        said.append(what)
        if what.startswith("waiting for"):
            down("lab", said.append)

    with pytest.raises(TakenDown, match="cluster lab was taken down meanwhile: `artos up` starts"):
        up(lab, 60.0, say)


def test_a_damaged_record_says_what_to_do(lab: Cluster, desk: Desk) -> None:
    lab.save()
    (lab.path / RECORD).write_text("")
    for act in (lambda: up(lab, 0.0, print), lambda: down("lab", print)):
        with pytest.raises(Refused, match="end what it started by its engine's own means, then"):
            act()


@pytest.mark.parametrize("name", ["lab-01", "lab-٣", "lab-", "lab-1-2", "lab--1"])
def test_a_node_of_another_name_is_no_worker_of_the_cluster(lab: Cluster, name: str) -> None:
    """A person may have started it, who numbers otherwise."""
    assert lab.index(name) is None
    assert lab.index(lab.node(7)) == 7
    assert lab.index(lab.node(HEAD)) is None
