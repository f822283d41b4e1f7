"""Changing a run while it runs, through the board of its node: ``artos scale``, ``artos set``."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from artos.buffer.mailbox import Board
from artos.errors import BadMessage, DeadlineExceeded, MailboxFull, NotRunning, Refused
from artos.protocol import codec, control
from artos.protocol.run_state import RUNNING
from artos.runs.plan import Site
from artos.specs.configuration import sendable
from artos.specs.members import CONTROL, Member, Members
from artos.specs.unreadable import UNREADABLE
from artos.system.durable import write_durably
from artos.system.locks import FileLock
from artos.system.regular_file import contents
from artos.version import VERSION

_log = logging.getLogger(__name__)
_ANSWER_SECONDS = 10.0
_CONTROL = Member(CONTROL)
_COMMANDS = {
    control.ScaleRun: "artos scale",
    control.SetRun: "artos set",
    control.BranchRun: "artos branch",
}
R = TypeVar("R", control.RunScaled, control.RunSet, control.RunBranched)


class BoardAddress(msgspec.Struct, frozen=True):
    """Where a live run can be reached: the content of ``live.json`` in its folder.

    A run that is killed leaves the file behind.
    """

    board: str
    state: str = RUNNING
    """Running or stopping."""
    protocol: int = 0
    """That of the run's code; code before protocol 4 writes none."""
    version: str = ""
    """That of the run's code; code before protocol 4 writes none."""
    table: Members = Members(())
    """Code before protocol 7 writes none."""


def address_file(run: Path) -> Path:
    """The file that holds a live run's address."""
    return run / "live.json"


@contextmanager
def announced(run: Path, site: Site) -> Iterator[Callable[[str], None]]:
    """Let others find the run and know its state; the function that is yielded changes the state.

    If there is no room for the file, the run continues without it.
    """
    file = address_file(run)

    def tell(state: str) -> None:
        board, table = str(site.board_path), site.members
        address = BoardAddress(board, state, control.PROTOCOL, VERSION, table)
        try:
            write_durably(file, msgspec.json.encode(address))
        except OSError as error:
            why = error.strerror
            _log.warning(
                "%s cannot be written (%s): `artos scale`, `set` and `branch` cannot find this run",
                file,
                why,
            )

    tell(RUNNING)
    try:
        yield tell
    finally:
        file.unlink(missing_ok=True)


def state_told(run: Path) -> str:
    """The last state that a run reported, even if it was killed since; "" if it is over."""
    told = _told(run)
    return told.state if told else ""


def board_told(run: Path) -> str:
    """Where the run can be reached; "" if it is over. Each process of a run has another place."""
    told = _told(run)
    return told.board if told else ""


def _told(run: Path) -> BoardAddress | None:
    try:
        return msgspec.json.decode(contents(address_file(run)), type=BoardAddress)
    except (OSError, *UNREADABLE):
        return None


class ControlServer:
    """The run's end: answers the requests of ``artos scale`` and ``artos set``."""

    def __init__(self, board: Board) -> None:
        self.member = _CONTROL
        self._asked, self._answers = board.up(_CONTROL), board.down(_CONTROL)

    def serve(self, change: Callable[[control.LocalRequest], control.LocalReply]) -> int:
        """Answer every request there is; returns how many were malformed and dropped."""
        malformed = 0
        while (data := self._asked.take()) is not None:
            try:
                asked = codec.decode(data)
                if isinstance(asked, control.LocalRequest):
                    answer = msgspec.structs.replace(change(asked), request=asked.request)
                    self._answers.put(codec.encode(answer))
                else:
                    malformed += 1
            except (BadMessage, MailboxFull):  # or nobody reads the answers
                malformed += 1
        return malformed


def scale(run: Path, actors: int, seconds: float = _ANSWER_SECONDS) -> control.RunScaled:
    """Ask a live run to continue with ``actors`` actors; raises what ``_answered`` raises."""
    return _answered(run, control.ScaleRun(run.name, actors), control.RunScaled, seconds)


def set_settings(
    run: Path, settings: Mapping[str, float], seconds: float = _ANSWER_SECONDS
) -> control.RunSet:
    """Ask a live run to continue with other settings; raises what ``_answered`` raises."""
    return _answered(run, control.SetRun(run.name, sendable(settings)), control.RunSet, seconds)


def branch(
    run: Path, order: control.BranchRun, seconds: float = _ANSWER_SECONDS
) -> control.RunBranched:
    """Ask a live run to continue an actor's episode; raises what ``_answered`` raises."""
    return _answered(run, order, control.RunBranched, seconds)


def _answered(run: Path, request: control.LocalRequest, reply: type[R], seconds: float) -> R:
    """Ask a live run.

    Raises:
        NotRunning: there is no live run in that folder.
        Refused: the run says why it cannot, or is of another version of ARTOS.
        DeadlineExceeded: the run did not answer within ``seconds``, or was busy with others.
        BadMessage: the answer of the run cannot be read.
    """
    command = _COMMANDS[type(request)]
    try:
        lock = FileLock.take(address_file(run), create=False, seconds=seconds)
        if lock is None:
            raise DeadlineExceeded("another `artos scale`, `set` or `branch` of this run", seconds)
        with lock:  # one process asks at a time
            address = msgspec.json.decode(contents(address_file(run)), type=BoardAddress)
            if address.state != RUNNING:
                raise NotRunning(str(run))
            if (address.protocol, address.version) != (control.PROTOCOL, VERSION):
                theirs = f"ARTOS {address.version} (protocol {address.protocol})"
                ours = f"ARTOS {VERSION} (protocol {control.PROTOCOL})"
                raise Refused(
                    [
                        f"the run was started by {theirs if address.version else 'an older ARTOS'},"
                        f" and this command is of {ours}: use the `artos` that started the run"
                    ]
                )
            answer = _asked(address, request, seconds)
    except (FileNotFoundError, *UNREADABLE):
        raise NotRunning(str(run)) from None
    if answer is None:
        raise DeadlineExceeded(f"the run's answer to `{command}`", seconds)
    if not isinstance(answer, reply):
        asked, got = type(request).__name__, type(answer).__name__
        raise BadMessage(f"a run answers {asked} with {reply.__name__}, not {got}")
    if answer.fault:
        raise Refused(answer.fault.split("\n"))
    return answer


def _asked(address: BoardAddress, request: control.LocalRequest, seconds: float) -> Any:
    """The answer to this request; None if there is none within so many ``seconds``."""
    board = Board.attach(Path(address.board), address.table)
    answers, until = board.down(_CONTROL), time.monotonic() + seconds
    request = msgspec.structs.replace(request, request=secrets.randbits(32))
    answers.clear()  # of processes that gave up waiting; the run may still be about to answer them
    board.up(_CONTROL).put(codec.encode(request))
    board.notify(_CONTROL)
    while (data := answers.get(max(0.0, until - time.monotonic()))) is not None:
        answer = codec.decode(data)
        if getattr(answer, "request", request.request) == request.request:
            return answer
    return None
