"""A user's folder: the examples, beside files of the user's own that are called like ours."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from user_folder import ROOT, UserFolder

NOT_OURS = 'raise RuntimeError("a file of the user\'s own was imported in place of ours")\n'


@pytest.fixture
def user(tmp_path: Path) -> Iterator[UserFolder]:
    path, shm = tmp_path / "user", tmp_path / "shm"
    shutil.copytree(ROOT / "docs" / "examples", path, ignore=shutil.ignore_patterns("__pycache__"))
    shm.mkdir()
    for name in ("workers", "head", "deploy", "triggers_test"):
        (path / f"{name}.py").write_text(NOT_OURS)
    yield UserFolder(path, shm)
    assert list(shm.iterdir()) == [], "shared memory was left behind"
