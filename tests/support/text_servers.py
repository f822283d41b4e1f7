"""The server of texts of docs/examples as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from helpers import PATIENCE, ROOT

SERVER = ROOT / "docs" / "examples" / "text_server.py"
LITTLE = {"env": "ReverseText-v0(digits=2)", "width": 16, "layers": 2, "heads": 4}


class TextServer:
    """It listens when this is made, until ``kill``."""

    def __init__(self, folder: Path, port: int = 0, **sizes: object) -> None:
        out = folder / "server.txt"
        words = [w for n, v in (LITTLE | sizes).items() for w in (f"--{n}", str(v))]
        with out.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(SERVER), "--port", str(port), *words],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        end = time.monotonic() + PATIENCE
        while not (said := out.read_text()).endswith("\n"):
            assert self.process.poll() is None, said
            assert time.monotonic() < end, f"it never listened: {said}"
            time.sleep(0.05)
        self.url = said.strip()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
