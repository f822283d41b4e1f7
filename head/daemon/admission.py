"""What becomes of a submission: a run with a name and a folder, or every reason why not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from artos.closest import closest
from artos.errors import NoSuchRun, Refused
from artos.protocol.control import Submit
from artos.protocol.fields import NAME, Line, Number, Seconds
from head.daemon.placement import POLICIES
from head.daemon.runs import Run
from head.daemon.scheduler import Schedule
from head.records.run_folder import default_path


class Request(msgspec.Struct, forbid_unknown_fields=True):
    """What may be in ``Submit.request``: the flags of ``artos run`` as plain data.

    ``ticket`` is made once per submission by the user's side: who asks again, because the answer
    was lost, does not get a second run. ``run_dir`` begins at the head's folder of runs.
    """

    ticket: Line
    workload: Line = ""
    settings: dict[Line, Any] = {}
    seed: Number = 1
    deadline: Seconds = 300.0
    origin: dict[Line, Any] = {}
    run_dir: Line = ""
    resume: Line = ""

    def kept(self) -> dict[str, Any]:
        """What is kept of it: all but where the run is to be, which is settled."""
        names = ("ticket", "workload", "settings", "seed", "deadline", "origin")
        return {name: getattr(self, name) for name in names}


def request_of(submit: Submit) -> Request:
    """What is asked for.

    Raises:
        Refused: everything that is wrong with it.
    """
    try:
        request = msgspec.convert(submit.request, Request)
    except msgspec.ValidationError as error:
        raise Refused([f"the request is malformed: {error}"]) from None
    faults = []
    if not request.workload and not request.resume:
        faults.append("name a workload: an algorithm (ppo) or FILE.py:OBJECT")
    if submit.placement not in POLICIES:
        faults.append(f"--placement {submit.placement}: take one of {', '.join(POLICIES)}")
    if faults:
        raise Refused(faults)
    return request


def admitted(request: Request, submit: Submit, schedule: Schedule, root: Path) -> Run:
    """The run that was asked for, to be queued; ``root`` is the head's folder of runs.

    Raises:
        Refused: its folder holds a run, or there is none to be continued.
    """
    if request.resume:
        return _continued(request, find(schedule, request.resume))
    path = _folder(request, schedule, root)
    if (path / "config.json").exists():
        raise Refused([f"{path} already holds a run: choose another --run-dir, or --resume it"])
    return Run(path.name, request.kept(), str(path), submit.archive, submit.placement)


def find(schedule: Schedule, name: str) -> Run:
    """The run of that name, or in that folder.

    Raises:
        NoSuchRun: there is none.
    """
    run = schedule.runs.get(name) or schedule.runs.get(Path(name).name)
    if run is None:
        near = closest(name, list(schedule.runs))
        raise NoSuchRun(name, f"that this head knows of{near}")
    return run


def _folder(request: Request, schedule: Schedule, root: Path) -> Path:
    if request.run_dir:
        return _inside(root, request.run_dir)
    file, _, name = request.workload.rpartition(":")
    about = str(request.settings.get("env") or (name if file else "default"))
    path = default_path(root, Path(file).stem or name, about, request.seed)
    while path.name in schedule.runs:  # one that is queued has no folder yet
        stem, _, number = path.name.rpartition("-")
        path = path.with_name(f"{stem}-{int(number) + 1}")
    return _named(path)


def _named(path: Path) -> Path:
    if not NAME.fullmatch(path.name):
        words = "a name of letters, digits and dashes, 128 at most"
        raise Refused([f"--run-dir {path}: end it with {words}"])
    return path


def _inside(root: Path, run_dir: str) -> Path:
    """A folder below ``root``, whatever links there are; none of the head's own, which are hidden.

    Raises:
        Refused: it is not below.
    """
    path = root / run_dir
    if path == root or not all(NAME.fullmatch(part) for part in Path(run_dir).parts):
        how = "write a name, or some with / between them, of letters, digits, dots and dashes"
        raise Refused([f"--run-dir {run_dir!r} is not in the head's folder of runs: {how}"])
    if not Path(os.path.realpath(path)).is_relative_to(root):
        raise Refused([f"--run-dir {run_dir!r}: a link leads out of the head's folder of runs"])
    return path


def _continued(request: Request, old: Run) -> Run:
    settings = {**old.request.get("settings", {}), **request.settings}
    stored = {**old.request, "settings": settings, "ticket": request.ticket}
    stored["origin"] = request.origin
    return Run(old.name, stored, old.folder, old.archive, old.placement, resume=True)
