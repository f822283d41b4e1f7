"""What a run folder says about its policy: configuration, code, and its newest or best weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.envs.known import KNOWN
from artos.envs.spec import EnvSpec
from artos.errors import NoSuchRun, Refused
from artos.runs import checkpoint, run_config
from artos.runs.checkpoint import PARAMETER, Manifest
from artos.runs.loader import built_in, load_workload
from artos.runs.run_config import CONFIG, RunConfig
from artos.specs.bound import Bound
from artos.specs.contracts import Actor, broken, own
from artos.specs.elastic import NAMES as ELASTIC
from artos.specs.keys import PARAMS, READS, noted_versions, read_as
from artos.specs.reference import Reference
from artos.specs.workload import Workload
from artos.system.closest import closest
from artos.trained.trust import allow

Floats = NDArray[np.float32]


class Record(msgspec.Struct, frozen=True):
    """A run as its folder keeps it."""

    name: str
    """The folder."""
    config: dict[str, Any]
    reference: Reference
    manifest: Manifest
    state: dict[str, Floats]
    """The policy's parameters by name."""
    objects: dict[str, NDArray[Any]] = {}
    """What actors read with these weights, by name."""
    versions: dict[str, int] = {}
    """Of other learners, those that go with these weights."""
    pasts: tuple[Bound, ...] = ()
    """The past versions that actors have with these, from the newest on."""
    pasts_of: dict[str, tuple[Bound, ...]] = {}
    """Those of other learners."""

    def workload(self) -> Workload:
        """The workload, built from the run's own code; its environment is not made for this.

        Raises:
            Refused: the code is not where it was, cannot be imported, or has other settings now.
        """
        env, facts = self.config.get("env", ""), self.config.get("env_spec")
        known = dict(KNOWN)
        with _faults_of(self.name):
            if env and facts is not None:
                KNOWN[env] = facts  # only while its workload is built
            try:
                workload = load_workload(self.reference)
                actor, needed = workload.actor, ("build_module", "make_policy", "spec")
                lacks = [name for name in needed if not own(actor, Actor, name)]
                if not isinstance(actor, Actor):
                    raise Refused([next(broken(actor, Actor, ()))])
                if lacks:
                    who, what = type(actor).__name__, " and no ".join(lacks)
                    raise Refused([f"{who} has no {what}: no policy can be loaded"])
                if facts is not None:
                    actor.adopt(facts)
            finally:
                KNOWN.clear()
                KNOWN.update(known)
        return workload


class Config(RunConfig, frozen=True):
    """What is needed of it to know which policies fit."""

    env_spec: EnvSpec | None = None


def read(
    path: Path, code: Path | None = None, *, trust: bool = False, best: bool = False
) -> Record:
    """Read the run folder ``path``; ``code`` is the folder of the file it ran, if it has moved.

    The weights are the newest that it saved, or those with the best evaluation.

    Raises:
        NoSuchRun: it is not the folder of a run.
        CheckpointFault: the run has not saved anything yet, or what it saved is damaged; or it has
            kept no best version.
        Refused: the run's workload cannot be named, or is code that may be another user's, or
            another user says what is called, and ``trust`` does not say to do so.
    """
    try:
        config, known = run_config.read(path, Config)
    except OSError as error:
        runs = [found.parent.name for found in Path("runs").glob(f"*/{CONFIG}")]
        hint = closest(path.name, runs)
        why = f"(no {CONFIG} in {path.resolve()}): give the folder of a run{hint}"
        raise NoSuchRun(str(path), why) from error
    folder, workload = Path(known.folder), known.workload
    if code is not None:
        folder, workload = code.resolve(), workload.rpartition("/")[2]
    settings = {n: value for n, value in known.settings.items() if n not in ELASTIC}
    with _faults_of(str(path)):
        reference = Reference.of(workload, settings, folder, built_in())
    env = known.env_spec.name if known.env_spec else ""
    allow(path, config, reference, trust=trust, moved=code is not None, env=env)
    arrays, manifest = checkpoint.load(checkpoint.kept_in(path, best=best))
    state = {n.removeprefix(PARAMETER): a for n, a in arrays.items() if n.startswith(PARAMETER)}
    objects = _read_with(arrays)
    for learner in manifest.learners:
        front = f"{learner}/"
        own = ((n.removeprefix(front), a) for n, a in arrays.items() if n.startswith(front))
        objects |= _read_with({read_as(name, learner): array for name, array in own})
    pasts_of = {name: _pasts(arrays, f"{name}/") for name in manifest.learners}
    versions = {name: saved.version for name, saved in manifest.learners.items()}
    versions |= noted_versions(arrays)  # of the best version
    pasts = _pasts(arrays)
    return Record(str(path), config, reference, manifest, state, objects, versions, pasts, pasts_of)


def _pasts(arrays: dict[str, NDArray[Any]], front: str = "") -> tuple[Bound, ...]:
    """The past versions that a checkpoint has of a learner, from the newest on."""
    found = sorted(checkpoint.past_in(arrays, front).items(), reverse=True)
    return tuple(Bound(version, past.get(PARAMS), _read_with(past)) for version, past in found)


def _read_with(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What actors read with a version of the weights, by name."""
    return {n.removeprefix(READS): a for n, a in arrays.items() if n.startswith(READS)}


@contextmanager
def _faults_of(run: str) -> Iterator[None]:
    """Have faults in what a run's record names say which run it is."""
    try:
        yield
    except Refused as refused:
        raise Refused([f"run {run}: {fault}" for fault in refused.faults]) from refused
