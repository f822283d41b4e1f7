"""An interpreter with the trackers' packages, beside those of this environment and after them."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

import pytest
from helpers import ROOT

PINS = ("wandb==0.31.0", "mlflow-skinny==3.17.2", "trackio==0.43.0", "tensorboard==2.21.0")
OTLP = tuple(f"opentelemetry-exporter-otlp-proto-{way}==1.45.2" for way in ("http", "grpc"))
_FOLDER = ROOT / ".venvs" / "trackers"
_SECONDS = 900.0


@cache
def _lacking() -> str:
    """Why there is none, "" if there is."""
    stamp, wanted = _FOLDER / "stamp", "\n".join((sys.version, *PINS, *OTLP))
    if stamp.is_file() and stamp.read_text() == wanted:
        return ""
    try:
        steps = (
            (sys.executable, "-m", "venv", "--clear", str(_FOLDER)),
            (str(_FOLDER / "bin" / "python"), "-m", "pip", "install", "-q", *PINS, *OTLP),
        )
        for number, step in enumerate(steps):
            done = subprocess.run(
                step, capture_output=True, text=True, timeout=_SECONDS, check=False
            )  # fmt: skip
            if done.returncode:
                return f"the packages of trackers cannot be installed: {done.stderr[-500:]}"
            if number == 0:
                (site,) = _FOLDER.glob("lib/python*/site-packages")
                (site / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the packages of trackers cannot be installed: {error}"
    stamp.write_text(wanted)
    return ""


def interpreter() -> Path:
    """That interpreter; where there cannot be one, the test is skipped."""
    if why := _lacking():
        pytest.skip(why)
    return _FOLDER / "bin" / "python"
