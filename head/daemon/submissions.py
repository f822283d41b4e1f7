"""What users submit: it is checked, and made a run with a folder of its own."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from artos.errors import NoSuchRun, Refused
from artos.protocol.control import Submit
from artos.runs.run_config import DEADLINE
from artos.specs.fields import NAME, Line, Number, Seconds
from artos.specs.weight import weight_faults
from artos.system.account import as_owner
from artos.system.closest import closest
from head.daemon.roster import POLICIES
from head.daemon.run import Run
from head.daemon.scheduler import Scheduler
from head.records import summary_file
from head.records.run_folder import default_path


class Submission(msgspec.Struct, forbid_unknown_fields=True):
    """The contents of ``Submit.request``: the flags of ``artos run`` as plain data."""

    ticket: Line
    """Made once per submission by the user's side, so that a request that is repeated because its
    answer was lost does not start a second run."""
    workload: Line = ""
    settings: dict[Line, Any] = {}
    seed: Number = 1
    deadline: Seconds | None = None
    """None: that of the run to be continued, or the usual one."""
    origin: dict[Line, Any] = {}
    run_dir: Line = ""
    """Relative to the head's folder of runs."""
    resume: Line = ""
    """The run to be continued, by name or folder; "": a new one."""

    def kept(self) -> dict[str, Any]:
        """The fields kept with the run: all but ``run_dir`` and ``resume``, which are used up."""
        names = ("ticket", "workload", "settings", "seed", "origin")
        deadline = DEADLINE if self.deadline is None else self.deadline
        return {"deadline": deadline, **{name: getattr(self, name) for name in names}}


def request_of(submit: Submit) -> Submission:
    """The request in a message.

    Raises:
        Refused: lists everything that is wrong with the request.
    """
    try:
        request = msgspec.convert(submit.request, Submission)
    except msgspec.ValidationError as error:
        raise Refused([f"the request is malformed: {error}"]) from None
    faults = []
    if not request.workload and not request.resume:
        faults.append("name a workload: an algorithm (ppo) or FILE.py:OBJECT")
    if submit.placement not in POLICIES:
        faults.append(f"--placement {submit.placement}: take one of {', '.join(POLICIES)}")
    weight = request.settings.get("weight", 1)
    with suppress(TypeError, ValueError):  # what is no number is refused by registration
        faults += weight_faults(float(weight))
    if faults:
        raise Refused(faults)
    return request


def admitted(
    request: Submission, submit: Submit, scheduler: Scheduler, root: Path, user: str
) -> Run:
    """The run that ``user`` requests, to be queued; ``root`` is the head's folder of runs.

    Raises:
        Refused: the folder already holds a run, another run has its name, there is no run to be
            resumed, or it has nothing left to do.
    """
    if request.resume:
        old = find(scheduler, request.resume)
        settings = {**old.request.get("settings", {}), **request.settings}
        with as_owner(Path(old.folder)):
            spent = summary_file.spent(Path(old.folder), settings) if old.over else ()
        if spent:
            raise Refused(spent)
        stored = {**old.request, "settings": settings, "ticket": request.ticket}
        stored["origin"] = request.origin
        if request.deadline is not None:
            stored["deadline"] = request.deadline
        return Run(
            old.name, stored, old.folder, old.archive, old.placement, old.where, resume=True,
            user=user,
        )  # fmt: skip
    path = _folder(request, scheduler, root)
    if (path / "config.json").exists():
        raise Refused([f"{path} already holds a run: choose another --run-dir, or --resume it"])
    same = scheduler.runs.get(path.name)
    if same is not None and same.folder != str(path):
        raise Refused(
            [f"the name {path.name} is taken by a run of {same.user or 'nobody'} in {same.folder}: "
             "runs are named by the last part of --run-dir, so choose another"]
        )  # fmt: skip
    return Run(
        path.name, request.kept(), str(path), submit.archive, submit.placement, submit.where,
        user=user,
    )  # fmt: skip


def find(scheduler: Scheduler, name: str) -> Run:
    """The run of that name, or in that folder, of which the last parts are enough.

    Raises:
        NoSuchRun: there is no such run.
    """
    parts = Path(name).parts
    run = scheduler.runs.get(Path(name).name)
    if run is None or Path(run.folder).parts[-len(parts) :] != parts:
        near = closest(name, list(scheduler.runs))
        raise NoSuchRun(name, f"that this head knows of{near}")
    return run


def _folder(request: Submission, scheduler: Scheduler, root: Path) -> Path:
    """A folder for a new run below ``root``; never a hidden folder of the head.

    Raises:
        Refused: the folder that was asked for is not below ``root``, also if links are followed.
    """
    if asked := request.run_dir:
        path = root / asked
        if path == root or not all(NAME.fullmatch(part) for part in Path(asked).parts):
            how = "write one or more names with / between them, of letters, digits, dots and dashes"
            raise Refused([f"--run-dir {asked!r} is not in the head's folder of runs: {how}"])
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise Refused([f"--run-dir {asked!r}: a link leads out of the head's folder of runs"])
        return path
    file, _, name = request.workload.rpartition(":")
    about = str(request.settings.get("env") or (name if file else "default"))
    path = default_path(root, Path(file).stem or name, about, request.seed)
    while path.name in scheduler.runs:  # a queued run has no folder yet
        stem, _, number = path.name.rpartition("-")
        path = path.with_name(f"{stem}-{int(number) + 1}")
    if not NAME.fullmatch(path.name):
        words = "at most 128 letters, digits, dots and dashes"
        raise Refused([f"--run-dir {path}: the last part must be a name of {words}"])
    return path
