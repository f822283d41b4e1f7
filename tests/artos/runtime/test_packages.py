"""Workloads in packages, whose files import each other by relative names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from artos.errors import Refused
from artos.runs.loader import load_object
from artos.specs.reference import Reference, package_of
from deploy.client.submit import Wanted, code_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    inner = tmp_path / "suite_pkg" / "inner"
    inner.mkdir(parents=True)
    for package in (inner, inner.parent):
        (package / "__init__.py").touch()
    (inner / "mod.py").write_text("from ..shared import SAID\nimport beside\nTABLE = SAID\n")
    (inner / "beside.py").touch()
    (inner.parent / "shared.py").write_text("SAID = 'shared'\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [n for n in sys.modules if n.startswith("suite_pkg") or n == "beside"]:
        del sys.modules[name]


@pytest.mark.parametrize("workload", ["suite_pkg.inner.mod:TABLE", "suite_pkg/inner/mod.py:TABLE"])
def test_relative_imports(folder: Path, workload: str) -> None:
    reference = Reference.of(workload, {}, folder, {})
    assert load_object(reference.source, reference.folder) == "shared"


def test_what_is_sent_to_a_cluster_is_the_whole_package(folder: Path) -> None:
    wanted = Wanted("suite_pkg.inner.mod:TABLE", folder=folder)
    assert code_of(wanted) == ("suite_pkg/inner/mod.py:TABLE", folder)


def test_a_factory_with_arguments_is_sent(folder: Path) -> None:
    (folder / "my_env.py").touch()
    wanted = Wanted("ppo", {"env": "my_env:make(a=1)"}, folder=folder)
    assert code_of(wanted) == ("ppo", folder)


def test_a_file_in_no_package(tmp_path: Path) -> None:
    assert package_of(tmp_path / "mod.py") == ("", tmp_path)


def test_a_module_that_is_not_there(folder: Path) -> None:
    with pytest.raises(Refused, match=r"unknown workload 'suite_pkg\.none:TABLE'"):
        Reference.of("suite_pkg.none:TABLE", {}, folder, {})
