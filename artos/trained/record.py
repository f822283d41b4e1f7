"""What a run folder says about its policy: configuration, code, and the newest weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos import checkpoint, run_config
from artos.checkpoint import Manifest
from artos.closest import closest
from artos.envs.known import KNOWN
from artos.envs.spec import EnvSpec
from artos.errors import NoSuchRun, Refused
from artos.reference import Reference
from artos.run_config import CONFIG, RunConfig
from artos.runtime.reference import built_in, load_workload
from artos.scaling.elastic import NAMES as ELASTIC
from artos.trained.trust import allow
from artos.workload import Workload

Floats = NDArray[np.float32]

_PARAMETER = "model."


class Record(msgspec.Struct, frozen=True):
    """A run as its folder ``name`` keeps it. ``state`` has the policy's parameters by name."""

    name: str
    config: dict[str, Any]
    reference: Reference
    manifest: Manifest
    state: dict[str, Floats]

    def workload(self) -> Workload:
        """The workload, built from the run's own code; its environment is not made for that.

        Raises:
            Refused: the code is not where it was, cannot be imported, or has other settings now.
        """
        env, facts = self.config.get("env", ""), self.config.get("env_spec")
        with _faults_of(self.name), _known(env, facts):
            workload = load_workload(self.reference)
            actor: Any = workload.actor
            there = {*dir(type(actor)), *vars(actor)}
            lacks = [name for name in ("build_module", "make_policy", "spec") if name not in there]
            if lacks:
                who = type(actor).__name__
                raise Refused([f"{who} has no {' and no '.join(lacks)}: no policy can be loaded"])
            if hasattr(actor, "adopt") and self.config.get("env_spec") is not None:
                actor.adopt(self.config["env_spec"])
        return workload


class _Config(RunConfig, frozen=True):
    env_spec: EnvSpec | None = None


def read(path: Path, code: Path | None = None, *, trust: bool = False) -> Record:
    """Read the run folder ``path``; ``code`` is the folder of the file it ran, if it has moved.

    Raises:
        NoSuchRun: it is no run's folder.
        CheckpointFault: the run has not saved anything yet, or what it saved is damaged.
        Refused: the run's workload is none that can be named, or is code that may be somebody
            else's, which neither ``trust`` nor ``code`` says to run.
    """
    config, told = _config(path)
    folder, workload = Path(told.folder), told.workload
    if code is not None:
        folder, workload = code.resolve(), workload.rpartition("/")[2]
    settings = {n: value for n, value in told.settings.items() if n not in ELASTIC}
    with _faults_of(str(path)):
        reference = Reference.of(workload, settings, folder, built_in())
    allow(path, reference, trust=trust or code is not None)
    arrays, manifest = checkpoint.load(path / "checkpoint")
    state = {n.removeprefix(_PARAMETER): a for n, a in arrays.items() if n.startswith(_PARAMETER)}
    return Record(str(path), config, reference, manifest, state)


def _config(path: Path) -> tuple[dict[str, Any], _Config]:
    try:
        return run_config.read(path, _Config)
    except OSError as error:
        runs = [found.parent.name for found in Path("runs").glob(f"*/{CONFIG}")]
        hint = closest(path.name, runs)
        why = f"(no {CONFIG} in {path.resolve()}): give the folder of a run{hint}"
        raise NoSuchRun(str(path), why) from error


@contextmanager
def _faults_of(run: str) -> Iterator[None]:
    """Have faults of what a run's record names say whose they are."""
    try:
        yield
    except Refused as refused:
        raise Refused([f"run {run}: {fault}" for fault in refused.faults]) from refused


@contextmanager
def _known(env: str, facts: Any) -> Iterator[None]:
    """Let the environment's facts be those of the run while its workload is built."""
    before = dict(KNOWN)
    if env and facts is not None:
        KNOWN[env] = facts
    try:
        yield
    finally:
        KNOWN.clear()
        KNOWN.update(before)
