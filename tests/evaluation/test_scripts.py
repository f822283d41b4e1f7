"""Benchmarks start scripts by name: each of them is there and can be run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import evaluation

FOLDER = Path(evaluation.__file__).parent
STARTERS = {"ours", "_ours", "baseline", "_baseline"}
"""Functions that are given the name of a script."""


def started() -> Iterator[str]:
    """The scripts that benchmarks name: FOLDER.MODULE of this package."""
    for file in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and name_of(node.func) in STARTERS:
                texts = [str(a.value) for a in node.args[:2] if isinstance(a, ast.Constant)]
                yield from (t for t in texts if t and FOLDER.joinpath(t.partition(".")[0]).is_dir())


def name_of(called: ast.expr) -> str:
    return getattr(called, "attr", getattr(called, "id", ""))


SCRIPTS = sorted({*started()})


def test_all_of_them_are_found() -> None:
    assert {"triggers.artos_side", "throughput.sb3_side", "lab.link"} <= {*SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_is_there_and_can_be_run(script: str) -> None:
    file = FOLDER.joinpath(*script.split(".")).with_suffix(".py")
    assert file.is_file(), f"evaluation.{script} is no module that can be run"
    assert 'if __name__ == "__main__":' in file.read_text()
