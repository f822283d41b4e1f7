"""Virtual environments for the baselines: one for each, made on demand and kept.

Baselines pin versions that clash with ours and with each other (Sample Factory needs gymnasium
below 1.0, Reverb an old NumPy), so each gets ``.venvs/NAME`` in the working folder. Torch is
installed first and pinned, so that all baselines that can use the same version do.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from artos.errors import ArtosError
from evaluation.baselines.processes import run

TORCH = "torch==2.13.0"
FOLDER = Path(".venvs")
STEP_SECONDS = 1800.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """The packages of one baseline. ``probe`` is Python code that runs only if they work."""

    name: str
    pins: tuple[str, ...]
    probe: str
    torch: str = TORCH

    @property
    def folder(self) -> Path:
        """The folder of its virtual environment."""
        return FOLDER.resolve() / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def stamp(self) -> str:
        """The text of the stamp file of a complete environment."""
        return "\n".join((f"python {sys.version.split()[0]}", self.torch, *self.pins)) + "\n"


class BaselineAbsent(ArtosError):
    """A baseline could not be installed, hence not be measured; ``why`` says what failed."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why
        super().__init__(f"{name} is not installed: {why}")


_ATARI = ("ale-py==0.12.1", "opencv-python-headless")

BASELINES = {
    environment.name: environment
    for environment in (
        Environment(
            "sb3",
            ("stable-baselines3==2.9.2", "sb3-contrib==2.9.2", "gymnasium==1.4.0", *_ATARI),
            "import stable_baselines3",
        ),
        Environment("rlox", ("rlox==1.2.0", "gymnasium==1.4.0"), "import rlox.algorithms.ppo"),
        Environment("envpool", ("envpool==1.2.5", "gymnasium==1.4.0"), "import envpool"),
        # Stable-Baselines3 in JAX.
        Environment(
            "sbx", ("sbx-rl==0.28.0", "jax==0.10.2", "gymnasium==1.4.0"), "from sbx import SAC"
        ),
        Environment(
            "sample-factory",
            ("sample-factory==2.1.1", "gymnasium==0.29.1", *_ATARI),
            "import sample_factory.train",
        ),
        Environment("ray", ("ray[rllib]==2.60.0", *_ATARI), "import ray.rllib"),
        # The C++ part of the 0.14.0 wheel (its sum tree) is built for torch 2.14 and does not load
        # with 2.13; there is no source archive to build it from.
        Environment(
            "torchrl", ("torchrl==0.14.0",), "import torchrl._torchrl", torch="torch==2.14.0"
        ),
        Environment("tianshou", ("tianshou==2.0.1",), "import tianshou.data"),
        Environment(
            "evosax",
            ("evosax==0.3.2", "jax==0.10.2", "gymnasium==1.4.0"),
            "from evosax.algorithms import Open_ES",
        ),
        Environment("reverb", ("dm-reverb[tensorflow]==0.14.0",), "import reverb"),
        # gymnasium is only needed by the module of the network, one_file_ppo.
        Environment(
            "redis",
            ("redis==8.1.0", "hiredis==3.5.0", "gymnasium==1.4.0"),
            "import hiredis, gymnasium; from redis.connection import PythonRespSerializer",
        ),
    )
}


def prepare(name: str, say: Say = print) -> Environment:
    """The environment of a baseline, installed now if it is missing.

    Raises:
        BaselineAbsent: a step of the installation failed or took too long.
    """
    environment = BASELINES[name]
    stamp = environment.folder / "stamp"
    if stamp.is_file() and stamp.read_text() == environment.stamp:
        return environment
    try:
        shutil.rmtree(environment.folder, ignore_errors=True)
        pip = (str(environment.python), "-m", "pip", "install", "--quiet", "--no-input")
        steps = (
            ("a virtual environment", (sys.executable, "-m", "venv", str(environment.folder))),
            (environment.torch, (*pip, environment.torch)),
            (", ".join(environment.pins), (*pip, environment.torch, *environment.pins)),
            ("a check that it works", (str(environment.python), "-c", environment.probe)),
        )
        for number, (what, command) in enumerate(steps, 1):
            say(f"{environment.name}: {number}/{len(steps)} {what}")
            run(command, STEP_SECONDS)
    except ArtosError as error:
        say(f"{name}: not installed: {error}")
        raise BaselineAbsent(name, str(error)) from error
    stamp.write_text(environment.stamp)
    return environment


def main() -> int:
    """Install the baselines named on the command line, by default all; 1 if one is absent."""
    absent = 0
    for name in sys.argv[1:] or list(BASELINES):
        try:
            prepare(name)
        except BaselineAbsent:
            absent = 1
    return absent


if __name__ == "__main__":
    sys.exit(main())
