"""Answers users' requests to the head: submit, list, status, logs, scale, set, stop, drain."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from artos.clock import Clock
from artos.errors import Refused
from artos.protocol import control
from artos.protocol.message import Message, Refusal
from artos.protocol.views import ClusterView, RunView
from artos.specs.fields import NAME
from artos.system.account import as_owner
from artos.system.archives import Archives
from artos.system.closest import closest
from artos.system.faults import Faults
from artos.system.unpack import read
from artos.transport.keys import new_run_keys
from artos.transport.messenger import Messenger
from artos.transport.roles import OWNER, holder_of
from artos.version import VERSION
from head.daemon import run_files, status_api
from head.daemon.options import HeadOptions
from head.daemon.pending import Pending
from head.daemon.remote_logs import RemoteLogs
from head.daemon.roster import Node, Roster
from head.daemon.run import Run
from head.daemon.run_host import RunHost
from head.daemon.run_lines import RunLines
from head.daemon.scheduler import Scheduler
from head.daemon.submissions import admitted, find, request_of
from head.daemon.unsaved import Table
from head.daemon.user_accounts import UserAccounts

_MOST_QUEUED = 10_000
"""Most runs of one user that may wait to begin."""
_DRAINED = "it is drained"
_RECLAIMED = "its machine is taken back"
_ACTOR = re.compile(r"actor-(\d{1,9})")

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Told:
    """A run has answered a request to change it."""

    run: Run
    told: control.RunReply
    number: int
    """What the user has numbered the request."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What came of a request that may change something."""

    answer: control.Answer
    take_back: Callable[[], None] | None = None
    """Undoes the change; None: there was none."""
    unsaved: str = "nothing was changed"
    """What a user is told if the change cannot be saved."""


Request = control.UserRequest | control.Archive | _Told


class ClientApi:
    """Answers users.

    No answer is sent before what it says is on the disk, so requests are taken one by one and
    served together. If a request is refused, the ``fault`` of the answer says why. ``messenger``
    serves users and workers, ``inside`` serves run processes; ``faults`` counts the faults that the
    head survived.
    """

    def __init__(
        self, scheduler: Scheduler, roster: Roster, host: RunHost, archives: Archives,
        options: HeadOptions, clock: Clock, messenger: Messenger, inside: Messenger,
        lines: RunLines, faults: Faults, accounts: UserAccounts,
    ) -> None:  # fmt: skip
        self._scheduler, self._roster, self._host = scheduler, roster, host
        self._archives, self._options, self._clock = archives, options, clock
        self._messenger, self._inside, self._faults = messenger, inside, faults
        self._accounts, self._lines = accounts, lines
        self._requests: list[tuple[str, Request]] = []
        self._shown: dict[type[Message], control.Answer] = {}  # the same for all who ask in a turn
        self.pending = Pending(messenger, clock)
        self.logs = RemoteLogs(messenger, self.pending)

    def take_request(self, user: str, message: Request) -> None:
        """Keep a user's request until ``serve``."""
        self._requests.append((user, message))

    def serve(self, save: Callable[[], str]) -> bool:
        """Do what users have asked for and answer, each in order; returns whether anything changed.

        All changes are made first, and ``save`` then writes them at once. It returns why they
        cannot be saved (they are then taken back), or "". Requests that change nothing are answered
        after that, from what is saved.
        """
        heard, self._requests = self._requests, []
        changes: dict[int, _Change | None] = {}
        for number, (user, message) in enumerate(heard):
            if isinstance(message, _CHANGING):
                changes[number] = None
                with self._contained(user, message):
                    changes[number] = self._changed(user, message)
        made = [each.take_back for each in changes.values() if each and each.take_back]
        why = save() if made else ""
        if why:
            for take_back in reversed(made):
                take_back()
        self._shown.clear()
        for number, (user, message) in enumerate(heard):
            answer: control.Answer | control.FilePiece | None = None
            with self._contained(user, message):
                if number not in changes:
                    try:
                        answer = self._answer(user, message)
                    except (Refused, OSError) as error:
                        answer = _fault(error)
                        if isinstance(message, control.ReadFile):
                            answer = control.FilePiece(fault=answer.fault)
                elif change := changes[number]:  # None: it failed, and its user was told so
                    answer = change.answer
                    if why and change.take_back:
                        how = f"not saved: {why}; make room on the disk of the head's runs"
                        answer = control.Answer(fault=f"{how} and ask again: {change.unsaved}")
                if answer is not None:
                    answer = msgspec.structs.replace(answer, number=message.number)
                    self._messenger.send(user, answer)
        return bool(made)

    def _contained(self, user: str, message: Request) -> AbstractContextManager[None]:
        what = f"{type(message).__name__} from {user}"
        return self._faults.contained(
            what, lambda why: self._messenger.send(user, Refusal(why, message.number))
        )

    def _changed(self, user: str, message: Request) -> _Change:
        """Carry out a request that changes something."""
        try:
            match message:
                case control.Submit():
                    return self._submit(user, message)
                case control.StopRun(run=name):
                    run = self._own(user, name, "stop")
                    before = msgspec.structs.replace(run)
                    # It finishes and saves; a second request ends it at once (a second signal).
                    self._scheduler.stop(run)
                    answer: control.Answer = control.RunAnswer(run=self._line(run))
                    return _Change(answer, partial(self._scheduler.restore, run, before))
                case control.DrainNode(node=name) | control.UndrainNode(node=name):
                    drains = isinstance(message, control.DrainNode)
                    return self._drain(name) if drains else self._undrain(name)
                case control.ReclaimNode():
                    return _Change(self._reclaim(user, message))
                case _Told():
                    return self._told(message.run, message.told)
        except (Refused, OSError) as error:
            return _Change(_fault(error))
        raise TypeError(type(message).__name__)

    def _answer(self, user: str, message: Request) -> control.Answer | control.FilePiece | None:
        """The answer to a request that changes no run and no node; None: it comes later.

        Raises:
            Refused: it cannot be served.
            OSError: the disk is full, or a record cannot be read.
        """
        answer: control.Answer | Data | None = None
        match message:
            case control.Archive():
                most = self._options.archive_mb
                if len(message.content) > 2 * most * 1e6:  # an archive has some padding
                    raise Refused([f"the code takes more than {most:g} MB"])
                read(message.content)
                needed = self._scheduler.all_runs.archives
                self._archives.put(message.archive, message.content, needed)
                answer = {"archive": message.archive}
            case control.ReadLimits():
                answer = {"archive_mb": self._options.archive_mb}
            case control.ListRuns():
                runs = self._scheduler.runs.values()
                answer = self._shown_to_all(
                    message, lambda: ClusterView(runs=status_api.lines(runs, self._scheduler))
                )
            case control.ReadStatus(run=""):
                answer = self._shown_to_all(message, self._overview)
            case control.ReadStatus(run=name):
                run = find(self._scheduler, name)
                view = status_api.one(run, self._scheduler)
                if run.over:
                    with as_owner(Path(run.folder)):
                        summary = status_api.summary(run)
                    view = msgspec.structs.replace(view, summary=summary)
                answer = control.RunAnswer(run=view)
            case control.ReadLogs(run=name):
                run = self._own(user, name, "read the logs of")
                with as_owner(Path(run.folder)):
                    answer = self._read_log(user, run, message)
            case control.ListFiles(run=name):
                run = self._own(user, name, "read the files of")
                with as_owner(Path(run.folder)):
                    answer = control.FilesAnswer(files=run_files.listed(Path(run.folder)))
            case control.ReadFile(run=name, file=file, offset=offset):
                run = self._own(user, name, "read the files of")
                with as_owner(Path(run.folder)):
                    return run_files.piece(Path(run.folder), file, offset)
            case control.ScaleRun(run=name) | control.SetRun(run=name):
                act = "scale" if isinstance(message, control.ScaleRun) else "set settings of"
                self._ask(user, self._own(user, name, act), message)
            case _:
                raise Refused([f"this head does not serve {type(message).__name__}"])
        return control.Answer(answer) if isinstance(answer, dict) else answer

    def _own(self, peer: str, name: str, act: str) -> Run:
        """The run of that name or folder, if this user may ``act`` on it: it is theirs, or they are
        an admin.

        Raises:
            NoSuchRun: there is no such run.
            Refused: it is another user's.
        """
        run, user = find(self._scheduler, name), _user(peer)
        if user == run.user or user in self._options.admins:
            return run
        raise Refused(
            [f"run {run.name} is {run.user or 'nobody'}'s: only they and admins may {act} it "
             f"({self._admins})"]
        )  # fmt: skip

    @property
    def _admins(self) -> str:
        return f"admins are {', '.join(self._options.admins) or 'none'}: head.toml"

    # -- submitting ----------------------------------------------------------------------------

    def _submit(self, peer: str, submit: control.Submit) -> _Change:
        request = request_of(submit)
        if run := self._scheduler.all_runs.with_ticket(request.ticket):
            is_saved = (Table.RUN, run.name) not in self._scheduler.unsaved.rows
            return _Change(_submitted(run), None if is_saved else lambda: None)
        if submit.archive and not self._archives.content(submit.archive):
            return _Change(control.Answer(missing=submit.archive))
        user, root = _user(peer), self._options.runs.resolve()
        if request.resume:
            self._own(peer, request.resume, "resume")
        if self._scheduler.all_runs.queued(user) >= _MOST_QUEUED:
            raise Refused([f"{_MOST_QUEUED} runs of user {user} wait already: stop some of them"])
        run = admitted(request, submit, self._scheduler, root, user)
        if account := self._accounts.named_for(user):
            run.account = account
        # Its processes may be where the cluster's keys are not: for an account, or for a device.
        if account or run.asks_device or run.has_code:
            run.keys = new_run_keys()
        self._accounts.require(Path(run.folder), self._accounts.of(run.account))
        old = self._scheduler.runs.get(run.name)
        self._scheduler.submit(run)
        return _Change(_submitted(run), partial(self._scheduler.withdraw, run, old))

    # -- showing -------------------------------------------------------------------------------

    def _shown_to_all(self, asked: Message, show: Callable[[], ClusterView]) -> control.Answer:
        """The same answer for all users who ask in this turn, made once."""
        kind = type(asked)
        if kind not in self._shown:
            self._shown[kind] = control.ClusterAnswer(cluster=show())
        return self._shown[kind]

    def _line(self, run: Run) -> RunView:
        return status_api.line(run, self._scheduler)

    def _overview(self) -> ClusterView:
        return msgspec.structs.replace(
            status_api.everything(self._scheduler, self._roster, self._clock.now()),
            version=VERSION,
            malformed=self._messenger.malformed + self._inside.malformed,
            faults=self._faults.count + self._messenger.faults.count + self._inside.faults.count,
        )

    def _read_log(self, user: str, run: Run, wanted: control.ReadLogs) -> Data | None:
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
        self.logs.request_piece(user, node, run, name, wanted)
        return None

    # -- changing ------------------------------------------------------------------------------

    def _drain(self, name: str) -> _Change:
        node = self._alive(name)
        actors = sum(self._scheduler.actors_on(node.name).values())
        answer = control.Answer({"node": node.name, "actors": actors})
        if node.leaves:
            return _Change(answer)
        runs = self._scheduler.all_runs
        carried = [run for run in runs.in_order(runs.carried) if run.carrier == node.name]
        before = [(run, msgspec.structs.replace(run)) for run in carried]

        def take_back() -> None:
            self._leaves(node.name, "")
            for run, was in before:  # it need not save after all
                self._scheduler.restore(run, was)

        self._leaves(node.name, _DRAINED)
        return _Change(answer, take_back)

    def _undrain(self, name: str) -> _Change:
        node = self._alive(name)
        if not node.leaves:
            return _Change(control.Answer({"node": node.name}))
        if node.leaves != _DRAINED or self._scheduler.executors.is_dismissed(node.name):
            raise Refused([f"node {node.name} ends ({node.leaves}): start its worker again"])
        self._leaves(node.name, "")
        return _Change(
            control.Answer({"node": node.name}), partial(self._leaves, node.name, _DRAINED)
        )

    def _reclaim(self, peer: str, told: control.ReclaimNode) -> control.Answer:
        # It may end everybody's actors at once. The cluster's keeper has the owner's key.
        if _user(peer) not in (OWNER.name, *self._options.admins):
            raise Refused(
                [f"only the cluster's keeper and admins may say that the machine of a node is "
                 f"taken back ({self._admins}): ask one of them, or have its actors move away with "
                 f"`artos drain {told.node}`"]
            )  # fmt: skip
        node = self._alive(told.node)
        if node.peer:  # else it is awaited, and whoever says this says it again
            self._messenger.send(node.peer, control.Leave(_RECLAIMED, told.seconds))
        return control.Answer({"node": node.name})

    def _alive(self, name: str) -> Node:
        node = self._roster.get(name)
        if node is not None and not node.alive:
            raise Refused([f"node {name} is gone: start its worker again"])
        if node is None:
            near = closest(name, [each.name for each in self._roster if each.alive])
            raise Refused([f"there is no node {name!r}{near}"])
        return node

    def _leaves(self, node: str, why: str) -> None:
        self._roster.leave(node, why)
        self._scheduler.leaves(node, why and f"node {node} is drained")

    def _ask(self, user: str, run: Run, request: control.RunRequest) -> None:
        if run.up is None:
            can = "be scaled" if isinstance(request, control.ScaleRun) else "change settings"
            how = run.outcome or run.state
            raise Refused([f"run {run.name} is {how}: only running runs can {can}"])
        number = self.pending.add(user, f"run {run.name}", run, request.number)
        self._lines.send(run, msgspec.structs.replace(request, run=run.name, request=number))

    def scale_again(self, run: Run) -> None:
        """A run that was scaled is up again, from a checkpoint that may be older than that."""
        if run.by_hand:
            self._ask("", run, control.ScaleRun(run.name, run.by_hand))

    def changed(self, run: str, told: control.RunReply) -> None:
        """Take a run's answer to a request to change it."""
        asked = self.pending.take(told.request, f"run {run}")
        if asked and asked.user:
            self._requests.append((asked.user, _Told(asked.run, told, asked.number)))

    def _told(self, run: Run, told: control.RunReply) -> _Change:
        if told.fault:
            return _Change(control.Answer(fault=told.fault))
        if isinstance(told, control.RunSet):  # the run has written that down itself
            return _Change(
                control.Answer({"configuration": told.number, "settings": told.settings})
            )
        self._scheduler.scaled(run, told.actors)
        answer = control.Answer({"actors": told.actors, "most": told.most})
        unsaved = f"run {run.name} goes on with {told.actors} actors until it is started again"
        return _Change(answer, lambda: None, unsaved)


_CHANGING = (
    control.Submit, control.StopRun, control.DrainNode, control.UndrainNode, control.ReclaimNode,
    _Told,
)  # fmt: skip


def _user(peer: str) -> str:
    """The name that a user's key carries."""
    holder = holder_of(peer)
    return holder.name if holder else ""


def _submitted(run: Run) -> control.Answer:
    return control.Answer({"run": run.name, "folder": run.folder})


def _fault(error: Refused | OSError) -> control.Answer:
    faults = error.faults if isinstance(error, Refused) else (f"the head: {error}",)
    return control.Answer(fault="\n".join(faults))
