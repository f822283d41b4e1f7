"""Records what learners do and what servers answer, so that a run can be replayed.

See ``artos.runs.tape`` and ``artos.runs.answers``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copyfile
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from artos.buffer.object_region import ObjectRegion
from artos.protocol.invocations import Invoke
from artos.runs.answers import AnswersFile
from artos.runs.answers import Header as AnswersHeader
from artos.runs.plan import Plan, Site
from artos.runs.run_config import CONFIG
from artos.runs.tape import FOLDER, Header, Writer, found_beside, header_line, tapes
from artos.runs.tape_file import TapeFile
from artos.runs.users_code import imported
from artos.specs.devices import CPU
from artos.specs.keys import PARAMS

_log = logging.getLogger(__name__)


State = tuple[int, dict[str, NDArray[Any]]]
"""A version of a learner (-1: none), and copies of all that makes it up."""


class Cores(Protocol):
    """Decides how many threads a learner computes with."""

    def begin(self) -> None:
        """An update begins."""

    def look(self) -> None:
        """A step was made."""


class Tape:
    """Is told all that a replay of a learner's process has to know; this one keeps nothing."""

    tells: bool = True
    """Whether versions are passed on to those outside of the run."""

    def begins(self, weights: ObjectRegion) -> None:
        """The process goes on from the newest version there, if there is one."""

    def goes_on(self, priorities: Path) -> None:
        """Rows are drawn by priorities that are found in this file, or others beside it."""

    def called(self, call: Invoke) -> None:
        """An invocation begins."""

    def learn(self, method: Callable[..., Any], learner: Any, batch: Any, call: Invoke) -> Any:
        """Call the learner's method; returns what that returns."""
        del learner
        return method(batch, call)

    def looked(self, what: int, counts: list[int], actors: NDArray[np.int64]) -> list[int]:
        """The learner looked at blocks of ``actors``; returns what it is to have seen."""
        return counts

    def peer(self, name: str, newest: Callable[[], State]) -> dict[str, NDArray[Any]]:
        """The learner asked for the ``newest`` state of another one; returns what it is given."""
        return newest()[1]

    def publishes(self, weights: ObjectRegion) -> None:
        """A version is about to be made."""

    def published(self, weights: ObjectRegion) -> None:
        """It is there."""

    def cores(self, make: Callable[[Callable[[int], None]], Cores]) -> Cores:
        """What decides the number of torch's threads; ``make`` is given what sets it."""
        return make(sys.modules["torch"].set_num_threads)

    def close(self) -> None:
        """The process ends."""


class Recorder(Tape):
    """Writes a tape: one piece for each version, before that can be seen.

    Where that fails, the rest of the run cannot be replayed, and goes on.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self._total, self._writer = plan.total_steps, Writer()
        self._counts = plan.threads_follow and plan.threads > 1
        self._turn = 0
        path.parent.mkdir(exist_ok=True)
        self._file: TapeFile | None = TapeFile(path)
        self._append(header_line(header_of(plan)))

    def begins(self, weights: ObjectRegion) -> None:
        """Note which version that is."""
        version = weights.version
        self._writer.begun(version, checksum(weights) if version >= 0 else 0)

    def goes_on(self, priorities: Path) -> None:
        """Copy what is found: what there was at a kill is in no record."""
        if self._file is not None:
            try:
                for found in priorities.parent.glob(f"{priorities.name}*"):
                    copyfile(found, found_beside(self._file.path, found.name))
            except OSError as error:
                self._give_up(error)

    def called(self, call: Invoke) -> None:
        """Note which it is, and when."""
        progress = None if call.progress == share(call.steps, self._total) else call.progress
        self._writer.called(call.firing, call.steps, call.configuration, progress)

    def looked(self, what: int, counts: list[int], actors: NDArray[np.int64]) -> list[int]:
        """Note what is seen."""
        self._writer.looked(what, counts)
        return counts

    def peer(self, name: str, newest: Callable[[], State]) -> dict[str, NDArray[Any]]:
        """Note which version that is."""
        version, state = newest()
        self._writer.peer(name, version)
        return state

    def publishes(self, weights: ObjectRegion) -> None:
        """Write what it is made from."""
        self._append(self._writer.take())

    def published(self, weights: ObjectRegion) -> None:
        """Note its checksum, which is written with the next one."""
        self._writer.published(checksum(weights))

    def cores(self, make: Callable[[Callable[[int], None]], Cores]) -> Cores:
        """Note each change."""
        use = sys.modules["torch"].set_num_threads

        def used(threads: int) -> None:
            use(threads)
            self._writer.threads(self._turn, threads)

        inner = make(used)
        return Turns(inner, self._next_turn) if self._counts else inner

    def _next_turn(self) -> None:
        self._turn += 1

    def close(self) -> None:
        """Write what is left."""
        self._append(self._writer.take())
        if self._file is not None:
            self._file.close()

    def _append(self, piece: bytes) -> None:
        if self._file is None or not piece:
            return
        try:
            self._file.append(piece)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        assert self._file is not None
        _log.warning("%s cannot be written (%s): what follows cannot be replayed",
                     self._file.path, error.strerror)  # fmt: skip
        self._file.close()
        self._file = None


class Turns:
    """Counts the turns of cores: by these a replay knows when their number changed."""

    def __init__(self, inner: Cores, turn: Callable[[], None]) -> None:
        self._inner, self._turn = inner, turn

    def begin(self) -> None:
        """An update begins."""
        self._turn()
        self._inner.begin()

    def look(self) -> None:
        """A step was made."""
        self._turn()
        self._inner.look()


def checksum(weights: ObjectRegion) -> int:
    """Of what actors bind of the newest version, 32 bits; only for its writer."""
    return xxh3_64_intdigest(weights.newest.arrays[PARAMS].data) & 0xFFFFFFFF


def share(steps: int, total: int) -> float:
    """The share of a run's steps that are made, 0 to 1."""
    return min(1.0, steps / total if total else 0.0)


def header_of(plan: Plan) -> Header:
    """What this process is."""
    return Header(
        plan=plan.checksums(), threads=plan.threads, device=plan.device, resumes=plan.resumes,
        code=plan.code | imported(plan.reference.folder),
    )  # fmt: skip


def not_recorded(plan: Plan) -> Iterator[str]:
    """Why a run of this plan cannot be replayed; nothing if it can."""
    replicated = [name for name, count in plan.replica_counts.items() if count > 1]
    if replicated and plan.beside:
        who = ", ".join(replicated)
        yield f"of its learners {who} has replicas: these are recorded where there is one learner"
    for device in sorted({*plan.devices.values()} - {CPU}):
        yield f"a learner computes on {device}, and a GPU's results differ from time to time"


Recording = Callable[[Plan, Site], Tape]
"""Makes the tape of the learner that a site names."""


def not_at_all(plan: Plan, site: Site) -> Tape:
    """Record nothing."""
    del plan, site
    return Tape()


def answers_file(plan: Plan, site: Site, server: str) -> AnswersFile | None:
    """A new file of what this server answers; None if there is none, or it cannot be written.

    On a node of a cluster it is in the node's memory, and is on its way to the run's folder.
    """
    (spec,) = (each for each in plan.servers if each.name == server)
    if plan.answers_travel:
        folder, header = Path(site.folder), None
    elif (run := recorded_in(plan, site)) is not None:
        folder, header = run / FOLDER, AnswersHeader(keys=spec.answers, resumes=plan.resumes)
    else:
        return None
    try:
        return AnswersFile.begin(folder, spec, header)
    except OSError as error:
        _log.warning("the run cannot be replayed: %s: %s", folder, error.strerror or error)
        return None


def recorded_in(plan: Plan, site: Site) -> Path | None:
    """The folder of the run, if it is here and what servers answer is recorded there."""
    run = Path(site.logs).parent
    is_recorded = site.logs and (run / CONFIG).is_file() and not any(not_recorded(plan))
    return run if is_recorded else None


def recorder(plan: Plan, site: Site) -> Tape:
    """A new tape of the learner that ``site`` names; if it cannot be written, none."""
    publishers = site.members.publishers
    several = len(publishers) > 1
    replicas_of_several = several and any(len(site.members.together(m)) > 1 for m in publishers)
    # The first replica records what all of them did.
    if not site.logs or site.member.rank or replicas_of_several or any(not_recorded(plan)):
        return Tape()
    run = Path(site.logs).parent
    try:
        number = len(tapes(run, site.member.role))
        return Recorder(run / FOLDER / f"{site.member.role}-{number}.tape", plan)
    except OSError as error:
        _log.warning("the run cannot be replayed: %s: %s", run / FOLDER, error.strerror or error)
        return Tape()
