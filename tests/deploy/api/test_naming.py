"""By which names a run's processes find a workload."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from artos.errors import Refused
from artos.runs.loader import load_object
from artos.system.importing import Imported, until_a_run, users_module
from deploy.api.cluster import Cluster
from deploy.api.naming import name_of
from deploy.api.running import run
from triggers.algorithms.ppo import workload

FILE = """
import artos
from triggers.algorithms.ppo import workload as ppo

mine = ppo(env="CartPole-v1")
before = artos.{call}
after = "never"
"""


def test_a_text_names_itself() -> None:
    assert name_of("ppo", {}) == "ppo"
    assert name_of("my.py:mine", {}) == "my.py:mine"


def test_an_object_has_the_name_that_it_has_in_the_callers_file(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.touch()
    mine = workload(env="CartPole-v1")
    assert name_of(mine, {"__file__": str(file), "mine": mine}) == f"{file}:mine"


def test_a_function_has_the_name_that_it_has_in_its_file() -> None:
    assert name_of(making, {}) == f"{Path(__file__).resolve()}:making"


def making() -> Any:
    """A function of a file."""


@pytest.mark.parametrize("names", [{}, {"__file__": "/nowhere.py"}])
def test_what_stands_in_no_file_is_refused(names: dict[str, Any]) -> None:
    mine = workload(env="CartPole-v1")
    for given in (mine, lambda: mine, 3):
        with pytest.raises(Refused, match="cannot be found by the processes of a run"):
            name_of(given, {**names, "mine": given})


@pytest.mark.parametrize("call", ["run(mine)", "sweep(mine)"])
def test_a_file_is_imported_up_to_the_call_that_runs_it(tmp_path: Path, call: str) -> None:
    """So a script needs no guard, and does not start itself again and again."""
    file = tmp_path / "unguarded.py"
    file.write_text(FILE.format(call=call))
    found = load_object(f"{file}:mine")
    assert found.name == "ppo"
    with pytest.raises(Refused, match="no object 'after'"):
        load_object(f"{file}:after")
    del sys.modules["artos_user_unguarded"]


@pytest.mark.parametrize("start", [lambda: run("ppo"), Cluster])
def test_while_a_file_is_imported_nothing_is_started(start: Any) -> None:
    with until_a_run():
        with pytest.raises(Imported):
            start()
        start()
        raise AssertionError("the import goes on")


def test_a_module_that_is_named_is_imported_in_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").write_text("kind = 'package'\n")
    (tmp_path / "theirs" / "games.py").write_text(FILE.format(call="run(mine)"))
    monkeypatch.syspath_prepend(tmp_path)
    found = users_module("theirs.games")
    assert found.mine.name == "ppo"
    assert not hasattr(found, "after")
    assert sys.modules["theirs"].games is found
    (tmp_path / "theirs" / "whole").mkdir()
    (tmp_path / "theirs" / "whole" / "__init__.py").write_text("from theirs.whole import part\n")
    (tmp_path / "theirs" / "whole" / "part.py").write_text("import theirs\ntheirs.kind += '!'\n")
    users_module("theirs.whole.part")
    assert sys.modules["theirs"].kind == "package!", "what a package imports is imported once"
    (tmp_path / "theirs" / "broken.py").write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        users_module("theirs.broken")
    with pytest.raises(ModuleNotFoundError):
        users_module("theirs.none")
    for name in [each for each in sys.modules if each.partition(".")[0] == "theirs"]:
        del sys.modules[name]
