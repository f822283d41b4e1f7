"""Which files of the user's a process has imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from artos.runs.loader import load_object
from artos.runs.users_code import checksum_of, imported


def test_files_of_the_folder_but_no_installed_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "venv" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "installed_here.py").write_text("")
    (tmp_path / "written_here.py").write_text("import installed_here\n\nit = 1\n")
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])
    before = {*sys.modules}
    try:
        assert load_object("written_here:it", str(tmp_path)) == 1
        found = imported(str(tmp_path))
        assert found == {"written_here.py": checksum_of(tmp_path / "written_here.py")}
        assert imported("") == {}
    finally:
        for name in {*sys.modules} - before:
            del sys.modules[name]


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    assert checksum_of(tmp_path / "gone.py") == ""
