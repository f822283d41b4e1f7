"""``artos submit``: sends a workload to a head and, if wanted, follows the run to its end."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from artos.clock import Deadline
from artos.errors import DeadlineExceeded, Refused
from artos.protocol.run_state import OVER
from artos.protocol.views import RunView, Status
from artos.runtime.preload import Preloaded
from artos.specs.fields import LABEL
from artos.specs.named import names_of_folder
from artos.specs.reference import file_and_object, package_of
from artos.system.archives import PACKAGES_FILE, pack
from artos.system.printable import printable
from deploy.client.head_client import HeadClient
from deploy.client.package_list import package_list
from deploy.display import screen
from head.records.provenance import origin
from head.run.request import reference_of
from triggers.registration import register_apart

_PERIOD = 0.5
_SHOWN = 5.0
_AWAY = 300.0
"""Seconds that ``follow`` goes on without an answer, as the head may come back."""


@dataclass(frozen=True)
class Wanted:
    """The user's command line: the options of ``artos run``, and where actors are placed."""

    workload: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    deadline: float | None = None
    run_dir: str = ""
    resume: str = ""
    placement: str = "spread"
    where: tuple[str, ...] = ()
    packages: Path | None = None
    """A list for pip, or a uv.lock, of what it needs on each machine."""
    folder: Path = field(default_factory=Path.cwd)


def submit(client: HeadClient, wanted: Wanted) -> dict[str, Any]:
    """Submit a run; returns its name (``run``) and its ``folder`` on the head.

    Raises:
        Refused: the file is missing or too large, or the head refuses the run.
        DeadlineExceeded: the head does not answer.
    """
    if wrong := [label for label in wanted.where if not LABEL.fullmatch(label)]:
        raise Refused([f"--where {', '.join(map(repr, wrong))}: no worker has such a --label"])
    workload, folder = code_of(wanted)
    archive, content = ("", b"")
    more = {PACKAGES_FILE: package_list(wanted.packages)} if wanted.packages else {}
    if folder is not None or more:
        with TemporaryDirectory() as nothing:
            limit = client.limits()["archive_mb"]
            archive, content = pack(folder or Path(nothing), limit, more)
    request = {
        "ticket": secrets.token_hex(8),
        "workload": workload,
        "settings": wanted.settings,
        "seed": wanted.seed,
        "deadline": wanted.deadline,
        "origin": origin(wanted.folder),
        "run_dir": wanted.run_dir,
        "resume": wanted.resume,
    }
    return client.submit(request, archive, content, wanted.placement, wanted.where)


def code_of(wanted: Wanted) -> tuple[str, Path | None]:
    """The workload's name within the folder to be sent, and that folder; None: nothing to send."""
    if wanted.resume:
        return "", None
    place, name = file_and_object(wanted.workload, wanted.folder)
    if place:
        file = (wanted.folder / place).resolve()
        if not file.is_file():
            raise Refused([f"there is no file {file}"])
        if not name:  # refused, with the names of the workloads in the file
            reference = reference_of(wanted.workload, {}, wanted.folder)
            with Preloaded(reference) as preloaded:
                raise Refused(register_apart(reference, 0, preloaded).faults)
        root = package_of(file)[1]  # whose other modules it may import
        return f"{file.relative_to(root)}:{name}", root
    reference_of(wanted.workload, {}, wanted.folder)  # refused if there is no such algorithm
    # A built-in algorithm needs the user's folder only if a setting names something there.
    needed = names_of_folder(wanted.settings, wanted.folder)
    return wanted.workload, wanted.folder if needed else None


def follow(client: HeadClient, run: str, note: Callable[[str], None]) -> RunView:
    """Wait until a run is over, showing its progress; returns its last view, with the summary.

    Ctrl-C has the run finish and save; a second Ctrl-C raises KeyboardInterrupt.

    Raises:
        DeadlineExceeded: the head was silent for minutes; the run may still go on.
    """
    follower = _Follower(note)
    stopped = False
    while True:
        try:
            status = patient_status(client, run)
            if status.outcome and status.state in OVER:
                return status
            follower.show(status)
            time.sleep(_PERIOD)
        except KeyboardInterrupt:
            if stopped:
                raise
            stopped = True
            note(f"stopping {run}: work in flight is finished and saved (Ctrl-C again: leave)")
            client.stop(run)


def patient_status(client: HeadClient, run: str) -> RunView:
    """The status of a run, from a head that may be away for minutes.

    Raises:
        DeadlineExceeded: it is away for longer.
    """
    deadline = Deadline(_AWAY)
    while True:
        try:
            return client.status(run)
        except DeadlineExceeded:
            if deadline.passed:
                raise


class _Follower:
    """Passes changes of state to ``note`` at once, and progress every few seconds."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note, self._said, self._due = note, "", time.monotonic()

    def show(self, run: RunView) -> None:
        said = f"{run.name}: {run.state}" + (f", waits for {run.waits_for}" * bool(run.waits_for))
        if said != self._said:
            self._said = said
            self._note(said)
        if run.progress and time.monotonic() >= self._due:
            self._due = time.monotonic() + _SHOWN
            self._note(progress(run.progress))


def progress(status: Status, *, over: bool = False) -> str:
    """One line about a run."""
    name = "" if over else screen.phase(status)
    return f"starting: {name}" if name else screen.line(status, over=over)


def outcome_text(run: RunView) -> str:
    """The outcome of a finished run, in a line or two, and its folder."""
    summary = run.ending
    parts = [f"{run.name}: {run.outcome}"]
    if (mean := summary.get("mean_return_100")) is not None:
        parts.append(f"mean return {mean:.1f} over the last 100 episodes")
    if summary:
        parts.append(f"{summary['steps']:,} steps in {summary['seconds']:.0f} s")
    return f"{', '.join(parts)}\nrun folder on the head: {run.folder}"


def quiet(text: str) -> None:
    """Discard a message."""


def note(text: str) -> None:
    """Print a message to standard error; standard output is for the result."""
    print(printable(text), file=sys.stderr, flush=True)
