"""What is no file is refused at once, and nothing of it stays open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from artos.system.regular_file import contents

FILES = Path("/proc/self/fd")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "fifo"])
def test_what_is_no_file_is_refused_and_not_kept_open(make: object, tmp_path: Path) -> None:
    path = tmp_path / "record"
    make(path)  # type: ignore[operator]
    before = len([*FILES.iterdir()])
    for _ in range(3):
        with pytest.raises(OSError, match=r"directory|no regular file"):
            contents(path)
    assert len([*FILES.iterdir()]) == before
