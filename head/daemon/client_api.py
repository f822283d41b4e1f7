"""Answers what users ask the head: submit, list, status, logs, scale, stop, drain."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

from artos.clock import Clock
from artos.closest import closest
from artos.errors import Refused
from artos.faults import Faults
from artos.protocol.fields import NAME
from artos.protocol.wire import Answer, Archive, Ask, Submit, Wish, Wished
from artos.system.archives import Archives
from artos.system.unpack import read
from artos.transport.messenger import Post
from artos.version import VERSION
from head.daemon import status_api
from head.daemon.admission import admitted, find, request_of
from head.daemon.options import HeadOptions
from head.daemon.remote_logs import RemoteLogs
from head.daemon.roster import Roster
from head.daemon.run_host import RunHost
from head.daemon.runs import Run
from head.daemon.scheduler import Schedule

_WISH_SECONDS = 10.0
_ACTOR = re.compile(r"actor-(\d{1,9})")


class Desk:
    """The head's end towards users. What is wrong with a question is the answer's ``fault``.

    ``post`` is the line to users and workers, ``inside`` the one to run processes; ``faults`` are
    those that the head survived.
    """

    def __init__(
        self, schedule: Schedule, roster: Roster, host: RunHost, archives: Archives,
        options: HeadOptions, clock: Clock, post: Post, inside: Post, faults: Faults,
    ) -> None:  # fmt: skip
        self._schedule, self._roster, self._host = schedule, roster, host
        self._archives, self._options, self._clock = archives, options, clock
        self._post, self._inside, self._faults = post, inside, faults
        self._wishes: dict[str, list[tuple[str, int, float]]] = {}
        self.logs = RemoteLogs(post, clock)

    def serve(self, user: str, message: Submit | Ask | Archive) -> None:
        """Answer a user, now or once the run has answered."""
        try:
            data = self._served(user, message)
        except (Refused, OSError) as error:
            faults = error.faults if isinstance(error, Refused) else (f"the head: {error}",)
            self._post.send(user, Answer(fault="\n".join(faults)))
        else:
            if data is not None:
                self._post.send(user, data if isinstance(data, Answer) else Answer(data))

    def _served(self, user: str, message: Submit | Ask | Archive) -> Answer | dict[str, Any] | None:
        if isinstance(message, Submit):
            return self._submit(message)
        if isinstance(message, Archive):
            return self._keep(message)
        if message.what == "scale":
            self._scale(user, find(self._schedule, message.of), message.value)
            return None
        if message.what == "logs":
            return self._logs(user, find(self._schedule, message.of), message)
        answers = {
            "list": self._list, "status": self._status, "stop": self._stop, "drain": self._drain,
            "limits": self._limits,
        }  # fmt: skip
        if message.what not in answers:
            raise Refused([f"nothing answers to {message.what!r}"])
        return answers[message.what](message)

    # -- submitting ----------------------------------------------------------------------------

    def _keep(self, archive: Archive) -> dict[str, Any]:
        if len(archive.content) > 2 * self._options.archive_mb * 1e6:  # an archive has some padding
            raise Refused([f"the code takes more than {self._options.archive_mb:g} MB"])
        read(archive.content)
        self._archives.put(archive.archive, archive.content)
        return {"archive": archive.archive}

    def _submit(self, submit: Submit) -> Answer | dict[str, Any]:
        request = request_of(submit)
        known = {run.request.get("ticket"): run for run in self._schedule.runs.values()}
        run = known.get(request.ticket)
        if run is None:
            if submit.archive and not self._archives.content(submit.archive):
                return Answer(missing=submit.archive)
            run = admitted(request, submit, self._schedule, self._options.runs.resolve())
            self._schedule.submit(run)
        return {"run": run.name, "folder": run.folder}

    def _limits(self, ask: Ask) -> dict[str, Any]:
        del ask
        return {"archive_mb": self._options.archive_mb}

    # -- telling -------------------------------------------------------------------------------

    def _list(self, ask: Ask) -> dict[str, Any]:
        del ask
        return {"runs": [self._line(run) for run in self._schedule.runs.values()]}

    def _line(self, run: Run) -> dict[str, Any]:
        return status_api.line(run, self._schedule, self._roster)

    def _status(self, ask: Ask) -> dict[str, Any]:
        if not ask.of:
            known = status_api.everything(self._schedule, self._roster, self._clock.now())
            malformed = self._post.malformed + self._inside.malformed
            faults = self._faults.count + self._post.faults.count + self._inside.faults.count
            return known | {"version": VERSION, "malformed": malformed, "faults": faults}
        run = find(self._schedule, ask.of)
        summary = {"summary": status_api.summary(Path(run.folder))} if run.over else {}
        return status_api.one(run, self._schedule, self._roster) | summary

    def _logs(self, user: str, run: Run, ask: Ask) -> dict[str, Any] | None:
        where, _, name = ask.log.rpartition("/")
        if (actor := _ACTOR.fullmatch(name)) and not where:
            where = run.places.get(int(actor[1]), "")
            if run.places and not where:
                raise Refused([f"run {run.name} has no actor {actor[1]} that lives anywhere now"])
        node = self._roster.get(where)
        here = run.over and status_api.has_log(Path(run.folder), ask.log)
        if here or node is None or not node.alive:
            return status_api.log(Path(run.folder), ask.log, ask.value, run.state)
        if not NAME.fullmatch(name):
            raise Refused([f"{ask.log!r} is no log of a node: write NODE/actor-0, or NODE/site"])
        self.logs.ask(user, node, run, name, ask.value)
        return None

    # -- changing ------------------------------------------------------------------------------

    def _stop(self, ask: Ask) -> dict[str, Any]:
        run = find(self._schedule, ask.of)
        self.stop(run)
        return self._line(run)

    def stop(self, run: Run) -> None:
        """Have a run finish and save; asked again, end at once (the second signal says that)."""
        self._host.signal(run.name, signal.SIGTERM)
        self._schedule.stop(run)

    def _drain(self, ask: Ask) -> dict[str, Any]:
        node = self._roster.get(ask.of)
        if node is None or not node.alive:
            near = closest(ask.of, [each.name for each in self._roster if each.alive])
            raise Refused([f"there is no node {ask.of!r}{near}"])
        actors = sum(self._schedule.actors_on(node.name).values())
        if not node.leaves:
            self._roster.leave(node.name, "it is drained")
            self._schedule.leaves(node.name, f"node {node.name} is drained")
        return {"node": node.name, "actors": actors}

    def _scale(self, user: str, run: Run, actors: int) -> None:
        if run.up is None:
            raise Refused([f"run {run.name} is {run.state}: only a running one can be scaled"])
        due = self._clock.now() + _WISH_SECONDS
        self._wishes.setdefault(run.name, []).append((user, actors, due))
        self._inside.send(run.name, Wish("scale", actors))

    def wished(self, wished: Wished) -> None:
        """A run answers a wish; in the order in which they were made."""
        waiting = self._wishes.get(wished.run)
        if wished.what != "scale" or not waiting:
            return
        user, actors, _ = waiting.pop(0)
        up = self._schedule.runs[wished.run].up
        data = {"actors": actors, "most": up.actors if up else actors}
        self._post.send(user, Answer(fault=wished.fault) if wished.fault else Answer(data))

    def give_up(self) -> None:
        """Answer those whose run, or worker, does not."""
        self.logs.give_up()
        now = self._clock.now()
        for run, waiting in self._wishes.items():
            while waiting and waiting[0][2] <= now:
                user, _, _ = waiting.pop(0)
                why = f"run {run} did not answer within {_WISH_SECONDS:g} s; ask again"
                self._post.send(user, Answer(fault=why))
