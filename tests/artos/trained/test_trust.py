"""A run's code is run without a word only where it is the user's own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from artos.errors import CheckpointFault, Refused
from artos.reference import Reference
from artos.trained.record import read
from artos.trained.trust import code_of, require_trust


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a present folder that are not each other's."""
    for name in ("home", "here", "elsewhere", "run"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def of(folder: Path) -> Reference:
    return Reference(f"{folder}/mine.py:workload", {}, str(folder))


@pytest.mark.parametrize("place", ["home", "home/projects", "here", "here/below"])
def test_ones_own_folders(place: str, home: Path) -> None:
    (home / place).mkdir(exist_ok=True)
    require_trust(home / "run", of(home / place))


@pytest.mark.parametrize("env", ["CartPole-v1", "vector:CartPole-v1", "CartPole-v1(a='b:c')"])
def test_what_is_installed_needs_no_trust(env: str, home: Path) -> None:
    built_in = Reference.of("ppo", {"env": env}, home / "elsewhere", {"ppo": "a.b:ppo"})
    assert code_of(built_in) is None
    require_trust(home / "run", built_in)


@pytest.mark.parametrize("env", ["my_env:make", "my_env:make(task=1)", "vector:my_suite:Mine-v0"])
def test_an_object_that_a_setting_names_does(env: str, home: Path) -> None:
    settings = {"env": env}
    named = Reference.of("ppo", settings, home / "elsewhere", {"ppo": "a.b:ppo"})
    with pytest.raises(Refused, match=r"elsewhere, which is neither in your home .* --trust"):
        require_trust(home / "run", named)


def test_what_came_with_the_run(home: Path) -> None:
    (home / "home" / "r" / "code").mkdir(parents=True)
    with pytest.raises(Refused, match="which came with the run"):
        require_trust(home / "home" / "r", of(home / "home" / "r" / "code"))


def test_what_everybody_may_write_to(home: Path) -> None:
    (home / "home").chmod(0o777)
    with pytest.raises(Refused, match="which everybody may write to"):
        require_trust(home / "run", of(home / "home"))


def test_a_way_out_of_home(home: Path) -> None:
    (home / "home" / "link").symlink_to(home / "elsewhere")
    with pytest.raises(Refused, match="neither in your home"):
        require_trust(home / "run", of(home / "home" / "link"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users(home: Path) -> None:
    os.chown(home / "home", 65533, 65533)
    with pytest.raises(Refused, match="which belongs to another user"):
        require_trust(home / "run", of(home / "home"))


@pytest.mark.parametrize("folder", ["code", "./code", "/a\0b"])
def test_a_folder_that_is_another_one_wherever_the_record_is_read(folder: str, home: Path) -> None:
    config = {"workload": "mine.py:workload", "settings": {}, "folder": folder}
    (home / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointFault, match=r"config\.json is damaged: .*folder"):
        read(home / "run", trust=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to any group")
def test_what_a_group_may_write_to(home: Path) -> None:
    os.chown(home / "home", -1, 65533)
    require_trust(home / "run", of(home / "home"))
    (home / "home").chmod(0o775)
    with pytest.raises(Refused, match="which a group may write to"):
        require_trust(home / "run", of(home / "home"))
