"""Programs run by the tests as processes of their own, so that they can be killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from artos.runs import checkpoint
from head.records.run_folder import RunFolder

Start = Callable[..., "subprocess.Popen[str]"]
"""Starts this file as a process: ``start("save", folder)``."""


def arrays_of(version: int) -> dict[str, np.ndarray]:
    """Arrays that say which version they belong to; 4 MB, so that a kill can hit the write."""
    return {
        "weights": np.full((1000, 1000), version, np.float32),
        "learner.step": np.asarray(version, np.int64),
    }


def save_forever(folder: Path) -> None:
    version = 0
    while True:
        version += 1
        manifest = checkpoint.Manifest(
            workload="ppo", env="CartPole-v1", seed=1, version=version, steps=version * 10,
            updates=version,
        )  # fmt: skip
        checkpoint.save(folder, arrays_of(version), manifest)
        print(version, flush=True)


def hold(path: Path) -> None:
    RunFolder.create(path, {"algorithm": "ppo"})
    print("held", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    {"save": save_forever, "hold": hold}[sys.argv[1]](Path(sys.argv[2]))
