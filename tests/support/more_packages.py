"""Environments that have what this one has, and some packages more, which tests do not bring."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from helpers import PATIENCE


def python_with(folder: Path, *packages: str) -> Path:
    """An interpreter that has these packages, too; made in ``folder``."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=PATIENCE)
    found = next(folder.glob("lib/python*/site-packages"))
    beside = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (found / "beside.pth").write_text(beside)
    python = folder / "bin" / "python"
    install = ("-m", "pip", "install", "--quiet", "--no-input", *packages)
    subprocess.run([python, *install], check=True, timeout=2 * PATIENCE)
    return python
