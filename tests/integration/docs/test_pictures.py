"""The pictures of the pages: shown, small, and made anew by a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import PATIENCE, ROOT

PAGES = ROOT / "docs" / "how-to"
PICTURES = ROOT / "docs" / "figures" / "how-to"
MOST_BYTES = 80_000


def test_each_picture_is_small_and_a_page_shows_it() -> None:
    shown = "".join(page.read_text() for page in PAGES.glob("*.md"))
    pictures = sorted(PICTURES.iterdir())
    assert pictures
    for picture in pictures:
        assert f"](../figures/how-to/{picture.name})" in shown
        assert picture.stat().st_size <= MOST_BYTES, picture.name


@pytest.mark.long
@pytest.mark.processes
def test_one_is_made_anew(tmp_path: Path) -> None:
    made = made_anew(tmp_path, "why-before")
    assert {picture.name for picture in tmp_path.iterdir()} == {"why-before.svg"}
    assert "why-before.svg" in made


@pytest.mark.long
@pytest.mark.exhaustive
@pytest.mark.processes
def test_all_are_made_anew_by_one_command(tmp_path: Path) -> None:
    said = made_anew(tmp_path)
    needs = {"no Chromium": "report.png", "no Prometheus": "metrics.svg"}
    left_out = {picture for program, picture in needs.items() if program in said}
    made = {picture.name for picture in tmp_path.iterdir()}
    assert made == {picture.name for picture in PICTURES.iterdir()} - left_out
    for picture in tmp_path.iterdir():
        begin = picture.read_bytes()[:400]
        assert begin.startswith(b"\x89PNG") or b"<svg" in begin or b"<!DOCTYPE svg" in begin


def made_anew(output: Path, *names: str) -> str:
    """What the command said."""
    command = (sys.executable, ROOT / "docs/web/pictures.py", *names, "--steps", "2048")
    told = subprocess.run(
        (*command, "-o", output), capture_output=True, text=True, timeout=4 * PATIENCE,
        check=False, cwd=output,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return told.stdout
