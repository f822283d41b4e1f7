"""Environments that have what this one has, and some packages more."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from evaluation.lab.layer import ended, printed

_SECONDS = 480.0


def python_with(folder: Path, *packages: str) -> Path:
    """An interpreter that has these packages, too; made in ``folder``.

    Raises:
        LayerFailed: they cannot be installed.
    """
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder))  # it has that of this one
    found = next(folder.glob("lib/python*/site-packages"))
    beside = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (found / "beside.pth").write_text(beside)
    python = folder / "bin" / "python"
    _run(str(python), "-m", "pip", "install", "--quiet", "--no-input", *packages)
    return python


def _run(*words: str) -> None:
    printed(" ".join(words), ended(words, _SECONDS))
