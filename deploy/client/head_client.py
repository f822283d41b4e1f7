"""The user's connection to a head: one request at a time, over a link that may break."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from artos.clock import Deadline
from artos.errors import DeadlineExceeded, Refused
from artos.protocol import control
from artos.protocol.message import Message, Refusal, Restarted
from artos.protocol.views import ClusterView, RunView
from artos.runtime.loop import Waker
from artos.specs.configuration import sendable
from artos.system.closing import Closing
from artos.transport.keys import Keys
from artos.transport.link_faults import unreachable
from artos.transport.messenger import HEAD, Messenger

_SECONDS = 15.0
Request = control.UserRequest | control.Archive
A = TypeVar("A", control.Answer, control.FilePiece)
_OTHER = "the head's answer is one to another question: use the ARTOS that the head has"
_BUSY = "it can be reached, but is busy or stopped, and may still do what was asked"


class HeadClient(Closing):
    """Sends a request to a head and waits for the answer; sends it again if the head restarts.

    A ``patient`` client waits, until the answer is due, for a head that has answered before and is
    unreachable now.
    """

    nothing = "no run was submitted"
    """The text to show when there are no runs."""

    def __init__(self, head: str, keys: Path, *, patient: bool = True) -> None:
        self._head, self._keys, self._patient = head, keys, patient
        self._asked, self._open = 0, set[int]()  # requests without an answer, by their numbers
        self._answered = False
        loaded = Keys.load(keys)
        self._me = loaded.user
        self._waker = Waker()
        try:
            me = f"{self._me.peer}/{secrets.token_hex(6)}"
            self._messenger = Messenger.connect(head, loaded, me, self._waker.ring)
        except BaseException:
            self._waker.close()
            raise

    def limits(self) -> dict[str, Any]:
        """The limits of a submission; raises what ``request`` raises."""
        return self.request(control.ReadLimits())

    def list_runs(self) -> tuple[RunView, ...]:
        """All runs in short; raises what ``request`` raises."""
        return self._cluster_in(self.exchange(control.ListRuns())).runs

    def status(self, run: str) -> RunView:
        """One run in full; raises what ``request`` raises."""
        return self._run_in(self.exchange(control.ReadStatus(run)))

    def cluster(self) -> ClusterView:
        """All nodes and runs; raises what ``request`` raises."""
        return self._cluster_in(self.exchange(control.ReadStatus()))

    def logs(self, run: str, offset: int = 0, log: str = "") -> dict[str, Any]:
        """A piece of a log, from an offset in bytes; raises what ``request`` raises."""
        return self.request(control.ReadLogs(run, offset, log))

    def files(self, run: str) -> dict[str, tuple[int, int]]:
        """Size and time of change (ns) of each file of a run; raises what ``request`` raises."""
        answer = self.exchange(control.ListFiles(run))
        if isinstance(answer, control.FilesAnswer):
            return answer.files
        raise Refused(answer.fault.split("\n") if answer.fault else [_OTHER])

    def file(self, run: str, name: str, offset: int) -> tuple[bytes, tuple[int, int]]:
        """Bytes of a run's file from ``offset`` on, b"" at its end; its size and time of change.

        Raises what ``request`` raises.
        """
        answer = self._exchange(control.ReadFile(run, name, offset), control.FilePiece)
        if answer.fault:
            raise Refused(answer.fault.split("\n"))
        return bytes(answer.content), (answer.size, answer.changed)

    def scale(self, run: str, actors: int) -> dict[str, Any]:
        """Change a run's number of actors; raises what ``request`` raises."""
        return self.request(control.ScaleRun(run, actors))

    def set(self, run: str, settings: Mapping[str, float]) -> dict[str, Any]:
        """Change settings of a run; returns all that were; raises what ``request`` raises."""
        return self.request(control.SetRun(run, sendable(settings)))

    def stop(self, run: str) -> RunView:
        """Have a run finish and save; returns it in short; raises what ``request`` raises."""
        return self._run_in(self.exchange(control.StopRun(run)))

    def drain(self, node: str) -> dict[str, Any]:
        """Move the actors of a node to other nodes; raises what ``request`` raises."""
        return self.request(control.DrainNode(node))

    def undrain(self, node: str) -> dict[str, Any]:
        """Place actors on a drained node again; raises what ``request`` raises."""
        return self.request(control.UndrainNode(node))

    def reclaim(self, node: str, seconds: float) -> None:
        """Have the worker of a node leave within so many seconds, as its machine ends then.

        Raises what ``request`` raises.
        """
        self.request(control.ReclaimNode(node, seconds))

    def request(self, message: control.UserRequest) -> dict[str, Any]:
        """The data of the head's answer to a request.

        Raises:
            Refused: the head refuses, and says why.
            NoHead, WrongKeys, DeadlineExceeded: see ``exchange``.
        """
        return self._data_of(self.exchange(message))

    def exchange(self, message: Request, seconds: float = _SECONDS) -> control.Answer:
        """Send a request and wait for the answer; raises what ``_exchange`` raises."""
        return self._exchange(message, control.Answer, seconds)

    def _exchange(self, message: Request, kind: type[A], seconds: float = _SECONDS) -> A:
        """Send a request and wait for an answer of that kind.

        Raises:
            Refused: the head does not understand the message; perhaps its version differs.
            NoHead: the head cannot be reached; a ``patient`` client waits for one it has reached.
            WrongKeys: the head does not accept our keys.
            DeadlineExceeded: the head did not answer within ``seconds``.
        """
        deadline = Deadline(seconds)
        self._take()  # what came late is to requests that were given up
        self._asked += 1
        message = msgspec.structs.replace(message, number=self._asked)
        to_send = True
        while not deadline.passed:
            # The link may have broken since the last request.
            fault = self._messenger.link_fault
            may_come_back = self._patient and self._answered
            if fault is not None and (fault.of_keys or not may_come_back):
                raise unreachable(fault, self._head, self._keys, str(self._me))
            if to_send:
                self._open.add(message.number)
                self._messenger.send(HEAD, message)
                to_send = False
            self._waker.wait(deadline.left)
            for number, heard in self._take():
                if isinstance(heard, Restarted):
                    to_send = True
                elif number in (message.number, 0):
                    if isinstance(heard, kind) and number:
                        return heard
                    raise Refused([heard.why if isinstance(heard, Refusal) else _OTHER])
        lost = self._messenger.link_fault is not None
        twice = isinstance(message, control.Submit)  # asked again, there are two runs
        then = "look with `artos list` before you submit it again" if twice else "ask again"
        what = "come back" if lost else f"answer: {_BUSY}; {then}"
        raise DeadlineExceeded(f"the head at {self._head} to {what}", seconds)

    def _take(self) -> list[tuple[int, Message]]:
        """What has come, each with the number of the request that it is about."""
        taken: list[tuple[int, Message]] = []
        for _, heard in self._messenger.take():
            number = 0
            match heard:
                case Restarted():  # it knows of none that was sent before
                    self._open.clear()
                case Refusal():  # of those that it does not understand it cannot tell the number
                    number = heard.number or min(self._open, default=0)
                case control.Answer() | control.FilePiece():
                    number, self._answered = heard.number, True
            self._open.discard(number)
            taken.append((number, heard))
        return taken

    def submit(
        self, request: dict[str, Any], archive: str, content: bytes, placement: str,
        where: tuple[str, ...] = (),
    ) -> dict[str, Any]:  # fmt: skip
        """Submit a run; returns its name and folder. The code is sent only if the head lacks it.

        Raises:
            Refused, NoHead, WrongKeys, DeadlineExceeded: see ``exchange``.
        """
        submit = control.Submit(request, archive, placement, where)
        answer = self.exchange(submit)
        if answer.missing:
            seconds = 60 + len(content) / 1e6
            self._data_of(self.exchange(control.Archive(archive, content), seconds))
            answer = self.exchange(submit)
        return self._data_of(answer)

    @staticmethod
    def _data_of(answer: control.Answer) -> dict[str, Any]:
        if answer.fault:
            raise Refused(answer.fault.split("\n"))
        return answer.data

    @staticmethod
    def _run_in(answer: control.Answer) -> RunView:
        if isinstance(answer, control.RunAnswer):
            return answer.run
        raise Refused(answer.fault.split("\n") if answer.fault else [_OTHER])

    @staticmethod
    def _cluster_in(answer: control.Answer) -> ClusterView:
        if isinstance(answer, control.ClusterAnswer):
            return answer.cluster
        raise Refused(answer.fault.split("\n") if answer.fault else [_OTHER])

    def close(self) -> None:
        """Close the connection. May be called twice."""
        self._messenger.close(0.0)
        self._waker.close()
