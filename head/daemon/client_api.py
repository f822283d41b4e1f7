"""Answers users' requests to the head: submit, list, status, logs, scale, stop, drain."""

from __future__ import annotations

import os
import re
import signal
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from artos.clock import Clock
from artos.closest import closest
from artos.errors import NoSuchRun, Refused
from artos.faults import Faults
from artos.protocol import control
from artos.protocol.control import Submit
from artos.protocol.fields import NAME, Line, Number, Seconds
from artos.system.archives import Archives
from artos.system.unpack import read
from artos.transport.messenger import Messenger
from artos.transport.roles import holder_of
from artos.version import VERSION
from head.daemon import status_api
from head.daemon.options import HeadOptions
from head.daemon.remote_logs import RemoteLogs
from head.daemon.roster import POLICIES, Roster
from head.daemon.run import Run
from head.daemon.run_host import RunHost
from head.daemon.scheduler import Scheduler
from head.records.run_folder import default_path

_SCALE_SECONDS = 10.0
_ACTOR = re.compile(r"actor-(\d{1,9})")

Data = dict[str, Any]


class Submission(msgspec.Struct, forbid_unknown_fields=True):
    """The contents of ``Submit.request``: the flags of ``artos run`` as plain data.

    ``ticket`` is made once per submission by the user's side, so that a request repeated because
    its answer was lost does not start a second run. ``run_dir`` is below the head's folder of runs.
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
        """The fields kept with the run: all but ``run_dir`` and ``resume``, which are settled."""
        names = ("ticket", "workload", "settings", "seed", "deadline", "origin")
        return {name: getattr(self, name) for name in names}


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
    if faults:
        raise Refused(faults)
    return request


def admitted(
    request: Submission, submit: Submit, scheduler: Scheduler, root: Path, user: str
) -> Run:
    """The run that ``user`` requests, to be queued; ``root`` is the head's folder of runs.

    Raises:
        Refused: the folder already holds a run, or there is no run to be resumed.
    """
    if request.resume:
        return _continued(request, find(scheduler, request.resume), user)
    path = _folder(request, scheduler, root)
    if (path / "config.json").exists():
        raise Refused([f"{path} already holds a run: choose another --run-dir, or --resume it"])
    return Run(path.name, request.kept(), str(path), submit.archive, submit.placement, user=user)


def find(scheduler: Scheduler, name: str) -> Run:
    """The run of that name, or in that folder.

    Raises:
        NoSuchRun: there is no such run.
    """
    run = scheduler.runs.get(name) or scheduler.runs.get(Path(name).name)
    if run is None:
        near = closest(name, list(scheduler.runs))
        raise NoSuchRun(name, f"that this head knows of{near}")
    return run


def _folder(request: Submission, scheduler: Scheduler, root: Path) -> Path:
    if request.run_dir:
        return _inside(root, request.run_dir)
    file, _, name = request.workload.rpartition(":")
    about = str(request.settings.get("env") or (name if file else "default"))
    path = default_path(root, Path(file).stem or name, about, request.seed)
    while path.name in scheduler.runs:  # a queued run has no folder yet
        stem, _, number = path.name.rpartition("-")
        path = path.with_name(f"{stem}-{int(number) + 1}")
    return _named(path)


def _named(path: Path) -> Path:
    if not NAME.fullmatch(path.name):
        words = "at most 128 letters, digits, dots and dashes"
        raise Refused([f"--run-dir {path}: the last part must be a name of {words}"])
    return path


def _inside(root: Path, run_dir: str) -> Path:
    """The folder ``run_dir`` below ``root``, links resolved; never a hidden folder of the head.

    Raises:
        Refused: the folder is not below ``root``.
    """
    path = root / run_dir
    if path == root or not all(NAME.fullmatch(part) for part in Path(run_dir).parts):
        how = "write one or more names with / between them, of letters, digits, dots and dashes"
        raise Refused([f"--run-dir {run_dir!r} is not in the head's folder of runs: {how}"])
    if not Path(os.path.realpath(path)).is_relative_to(root):
        raise Refused([f"--run-dir {run_dir!r}: a link leads out of the head's folder of runs"])
    return path


def _continued(request: Submission, old: Run, user: str) -> Run:
    settings = {**old.request.get("settings", {}), **request.settings}
    stored = {**old.request, "settings": settings, "ticket": request.ticket}
    stored["origin"] = request.origin
    return Run(old.name, stored, old.folder, old.archive, old.placement, resume=True, user=user)


@dataclass(frozen=True, slots=True)
class _Scaling:
    """A user who waits until the time ``due`` for a run to be scaled."""

    user: str
    due: float


class ClientApi:
    """Answers users: one method per message.

    If a request is refused, the ``fault`` of the answer says why. ``messenger`` serves users and
    workers, ``inside`` serves run processes; ``faults`` counts the faults that the head survived.
    """

    def __init__(
        self, scheduler: Scheduler, roster: Roster, host: RunHost, archives: Archives,
        options: HeadOptions, clock: Clock, messenger: Messenger, inside: Messenger, faults: Faults,
    ) -> None:  # fmt: skip
        self._scheduler, self._roster, self._host = scheduler, roster, host
        self._archives, self._options, self._clock = archives, options, clock
        self._messenger, self._inside, self._faults = messenger, inside, faults
        self._scalings: dict[str, deque[_Scaling]] = {}  # by run, in the order of the requests
        self.logs = RemoteLogs(messenger, clock)

    def serve(self, user: str, message: control.UserRequest | control.Archive) -> None:
        """Answer a user, now or once the run or the worker has answered."""
        try:
            answer = self._answer(user, message)
        except (Refused, OSError) as error:
            faults = error.faults if isinstance(error, Refused) else (f"the head: {error}",)
            answer = control.Answer(fault="\n".join(faults))
        if answer is not None:
            self._messenger.send(
                user, answer if isinstance(answer, control.Answer) else control.Answer(answer)
            )

    def _answer(
        self, user: str, message: control.UserRequest | control.Archive
    ) -> control.Answer | Data | None:
        answer: control.Answer | Data | None = None
        match message:
            case control.Submit():
                answer = self._submit(user, message)
            case control.Archive():
                answer = self._keep(message)
            case control.ReadLimits():
                answer = self._limits()
            case control.ListRuns():
                answer = self._list()
            case control.ReadStatus(run=name):
                answer = self._status(find(self._scheduler, name)) if name else self._everything()
            case control.ReadLogs(run=name):
                answer = self._logs(user, find(self._scheduler, name), message)
            case control.StopRun(run=name):
                answer = self._stop(find(self._scheduler, name))
            case control.DrainNode(node=name):
                answer = self._drain(name)
            case control.ScaleRun(run=name, actors=actors):
                self._scale(user, find(self._scheduler, name), actors)
            case _:
                raise Refused([f"this head does not serve {type(message).__name__}"])
        return answer

    # -- submitting ----------------------------------------------------------------------------

    def _submit(self, peer: str, submit: control.Submit) -> control.Answer | Data:
        request = request_of(submit)
        known = {run.request.get("ticket"): run for run in self._scheduler.runs.values()}
        run = known.get(request.ticket)
        if run is None:
            if submit.archive and not self._archives.content(submit.archive):
                return control.Answer(missing=submit.archive)
            holder, root = holder_of(peer), self._options.runs.resolve()
            user = holder.name if holder else ""
            run = admitted(request, submit, self._scheduler, root, user)
            self._scheduler.submit(run)
        return {"run": run.name, "folder": run.folder}

    def _keep(self, archive: control.Archive) -> Data:
        if len(archive.content) > 2 * self._options.archive_mb * 1e6:  # an archive has some padding
            raise Refused([f"the code takes more than {self._options.archive_mb:g} MB"])
        read(archive.content)
        self._archives.put(archive.archive, archive.content)
        return {"archive": archive.archive}

    def _limits(self) -> Data:
        return {"archive_mb": self._options.archive_mb}

    # -- showing -------------------------------------------------------------------------------

    def _list(self) -> Data:
        return {"runs": [self._line(run) for run in self._scheduler.runs.values()]}

    def _line(self, run: Run) -> Data:
        return status_api.line(run, self._scheduler, self._roster)

    def _everything(self) -> Data:
        known = status_api.everything(self._scheduler, self._roster, self._clock.now())
        malformed = self._messenger.malformed + self._inside.malformed
        faults = self._faults.count + self._messenger.faults.count + self._inside.faults.count
        return known | {"version": VERSION, "malformed": malformed, "faults": faults}

    def _status(self, run: Run) -> Data:
        summary = {"summary": status_api.summary(Path(run.folder))} if run.over else {}
        return status_api.one(run, self._scheduler, self._roster) | summary

    def _logs(self, user: str, run: Run, wanted: control.ReadLogs) -> Data | None:
        where, _, name = wanted.log.rpartition("/")
        if (actor := _ACTOR.fullmatch(name)) and not where:
            where = run.places.get(int(actor[1]), "")
            if run.places and not where:
                raise Refused([f"run {run.name} has no actor {actor[1]} on any node now"])
        node = self._roster.get(where)
        here = run.over and status_api.has_log(Path(run.folder), wanted.log)
        if here or node is None or not node.alive:
            return status_api.log(Path(run.folder), wanted.log, wanted.offset, run.state)
        if not NAME.fullmatch(name):
            raise Refused(
                [f"{wanted.log!r} is no log of a node: write NODE/actor-0, or NODE/executor"]
            )
        self.logs.ask(user, node, run, name, wanted.offset)
        return None

    # -- changing ------------------------------------------------------------------------------

    def _stop(self, run: Run) -> Data:
        self.stop(run)
        return self._line(run)

    def stop(self, run: Run) -> None:
        """Have a run finish and save; a second call ends it at once (by the second signal)."""
        self._host.signal(run.name, signal.SIGTERM)
        self._scheduler.stop(run)

    def _drain(self, name: str) -> Data:
        node = self._roster.get(name)
        if node is None or not node.alive:
            near = closest(name, [each.name for each in self._roster if each.alive])
            raise Refused([f"there is no node {name!r}{near}"])
        actors = sum(self._scheduler.actors_on(node.name).values())
        if not node.leaves:
            self._roster.leave(node.name, "it is drained")
            self._scheduler.leaves(node.name, f"node {node.name} is drained")
        return {"node": node.name, "actors": actors}

    def _scale(self, user: str, run: Run, actors: int) -> None:
        if run.up is None:
            raise Refused([f"run {run.name} is {run.state}: only running runs can be scaled"])
        due = self._clock.now() + _SCALE_SECONDS
        self._scalings.setdefault(run.name, deque()).append(_Scaling(user, due))
        self._inside.send(run.name, control.ScaleRun(run.name, actors))

    def scaled(self, run: str, scaled: control.RunScaled) -> None:
        """A run answers the oldest unanswered request to scale it."""
        if waiting := self._scalings.get(run):
            data = {"actors": scaled.actors, "most": scaled.most}
            answer = control.Answer(fault=scaled.fault) if scaled.fault else control.Answer(data)
            self._messenger.send(waiting.popleft().user, answer)

    def give_up(self) -> None:
        """Tell users whose run or worker has not answered in time."""
        self.logs.give_up()
        now = self._clock.now()
        for run, waiting in self._scalings.items():
            while waiting and waiting[0].due <= now:
                why = f"run {run} did not answer within {_SCALE_SECONDS:g} s; ask again"
                self._messenger.send(waiting.popleft().user, control.Answer(fault=why))
