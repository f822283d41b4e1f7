"""``artos``, for which everything that it writes below a folder takes long.

``python -m evaluation.why.slow_disk FOLDER SECONDS run ...``: each write to a file there, and each
wait until it is on the disk, takes so many seconds more. It stands for a disk over a network.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.cli.__main__ import main


def slow(folder: Path, seconds: float) -> None:
    """Have all that this process writes below ``folder`` take so many seconds more."""
    there = os.fsencode(folder.resolve()) + b"/"

    def slowed(call: Callable[..., Any]) -> Callable[..., Any]:
        def late(descriptor: int, *arguments: Any) -> Any:
            if os.fsencode(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith(there):
                time.sleep(seconds)
            return call(descriptor, *arguments)

        return late

    for name in ("write", "fsync", "fdatasync"):
        setattr(os, name, slowed(getattr(os, name)))


if __name__ == "__main__":
    slow(Path(sys.argv[1]), float(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
