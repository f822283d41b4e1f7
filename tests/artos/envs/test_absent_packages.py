"""Environments whose package is not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from artos.envs.make import make_vector
from artos.errors import Refused


@pytest.mark.parametrize(
    ("package", "env", "remedy"),
    [
        ("ale_py", "PongNoFrameskip-v4", r"pip install 'artos\[atari\]'"),
        ("envpool", "envpool:Pong-v5", r"needs EnvPool: pip install envpool"),
    ],
)
def test_the_refusal_says_how_to_get_it(
    package: str, env: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Refused, match=remedy):
        make_vector(env, 1)


def test_a_game_of_pettingzoos_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pettingzoo")
    monkeypatch.setitem(sys.modules, "pygame", None)
    monkeypatch.delitem(sys.modules, "pettingzoo.butterfly.pistonball_v6", raising=False)
    for env in ("pettingzoo:butterfly.pistonball_v6", "pettingzoo.butterfly.pistonball_v6:env"):
        with pytest.raises(Refused, match=r"pygame: pip install 'pettingzoo\[butterfly\]'$"):
            make_vector(env, 1)


def test_games_that_have_left_pettingzoo_say_where_they_are() -> None:
    pytest.importorskip("pettingzoo")
    with pytest.raises(Refused, match="pip install mpe2"):
        make_vector("pettingzoo:mpe.simple_tag_v3", 1)


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ("at_home.world:make", "world needs the Python package absent.part: pip install absent$"),
        ("at_home.wrold:make", "there is no module at_home.wrold: did you mean world"),
        ("at_home.zzz:make", "there is no module at_home.zzz$"),
    ],
)
def test_what_a_module_of_ones_own_lacks(
    env: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "at_home").mkdir()
    (tmp_path / "at_home" / "__init__.py").touch()
    (tmp_path / "at_home" / "world.py").write_text("import absent.part\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "absent", ModuleType("absent"))
    try:
        with pytest.raises(Refused, match=why):
            make_vector(env, 1)
    finally:
        sys.modules.pop("at_home", None)
