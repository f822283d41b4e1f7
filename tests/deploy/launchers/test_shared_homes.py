"""Hosts of ssh that share a home; a real sshd is asked in the long tests."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from artos.transport.keys import make_keys
from artos.version import VERSION
from deploy.launchers.cluster import Cluster
from deploy.launchers.engines.ssh import Engine
from deploy.launchers.launcher import EngineFailed, Unit

HOSTS = ("north", "south")
SSH = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
if [ -e {root}/$1.off ]; then echo "no route to $1" >&2; exit 255; fi
cd {root}/home
[ ! -e {root}/greeting ] || cat {root}/greeting
if [ -d {root}/$1 ]; then set -- "$1" "$(printf %s "$2" | sed 's#/proc/#{root}/'"$1"'/#g')"; fi
eval "$2"
"""
"""Once a host has a folder, the processes that are linked there are those that it has."""
PYTHON = f"""#!/bin/sh
if [ "$1" = -c ]; then echo {VERSION}; else exec sleep 60; fi
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "home").mkdir()
    for name, text in (("ssh", SSH.format(root=tmp_path)), ("python", PYTHON)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    lab = Cluster(
        name="lab", engine="ssh", folder=str(tmp_path / "lab"), least=2, most=2, hosts=HOSTS,
        python=str(programs / "python"),
    )  # fmt: skip
    lab.save()
    make_keys(lab.keys)
    lab.address.write_text("{}")
    return Engine(lab)


def started(engine: Engine, folder: Path) -> list[Unit]:
    """Both workers, each with a process that only its own host has."""
    engine.start([0, 1])
    for unit in engine.units():
        (folder / unit.where).mkdir()
        (folder / unit.where / unit.id).symlink_to(f"/proc/{unit.id}")
    return engine.units()


def test_a_look_at_one_host_leaves_the_worker_of_the_other(engine: Engine, tmp_path: Path) -> None:
    units = started(engine, tmp_path)
    assert [(unit.index, unit.where) for unit in units] == [*enumerate(HOSTS)]
    assert engine.units() == units
    for unit in units:
        engine.stop(unit, now=True)
        (tmp_path / unit.where / unit.id).unlink()
    assert engine.units() == []
    engine.clear()
    assert not any((tmp_path / "home" / ".artos" / "nodes").iterdir())


def test_a_worker_whose_host_is_away_is_found_again_when_the_others_are_removed(
    engine: Engine, tmp_path: Path
) -> None:
    north, south = started(engine, tmp_path)
    engine.stop(north, now=True)
    (tmp_path / north.where / north.id).unlink()
    (tmp_path / "south.off").touch()
    with pytest.raises(EngineFailed, match="no route to south"):
        engine.clear()
    (tmp_path / "south.off").unlink()
    assert engine.units() == [south]
    engine.stop(south, now=True)
    (tmp_path / south.where / south.id).unlink()
    engine.clear()
    assert not any((tmp_path / "home" / ".artos" / "nodes").iterdir())


def test_a_worker_that_its_host_cannot_note_does_not_stay_there(
    engine: Engine, tmp_path: Path
) -> None:
    """As on a full disk: nobody would find it again, not even to end it."""
    folder = tmp_path / "home" / engine._folder / "0"
    (folder / "unit-0.pid.new").mkdir(parents=True)
    with pytest.raises(EngineFailed, match=r"start worker 0 on north: .*unit-0\.pid\.new"):
        engine.start([0])
    assert engine.units() == []
    there = [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(folder)]
    assert [each for each in there if each.status() != psutil.STATUS_ZOMBIE] == []


def test_what_a_host_says_to_everybody_is_not_taken_for_what_it_was_asked(
    engine: Engine, tmp_path: Path
) -> None:
    """As a shell does whose user has it say something, also to one who only runs a command."""
    units = started(engine, tmp_path)
    (tmp_path / "greeting").write_text("modules loaded\n17 4\nhave fun")
    assert engine.units() == units
    for unit in units:
        engine.stop(unit, now=True)
        (tmp_path / unit.where / unit.id).unlink()
    assert engine.units() == []
    assert engine.refusal([0, 1]) == ""
    engine.clear()
    assert [engine._cluster.log(index).read_text() for index in (0, 1)] == ["", ""]
