"""What servers on nodes answered, into the run's folder, ahead of the rows made from it.

Each process there has a file here (``artos.runs.answers``), whose header names its source: a replay
process that takes the place of another one finds there how much that one has taken.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from pathlib import Path

from artos.errors import BadMessage
from artos.protocol.data import Answered, AnswersPiece, AnswersTaken, Greet
from artos.runs.answers import MOST_BYTES, AnswersFile, Header, begun
from artos.runs.plan import Plan, Site
from artos.runs.tape import FOLDER
from artos.runtime.taping import recorded_in
from artos.specs.servers import ServerSpec
from artos.system.closing import Closing

_log = logging.getLogger(__name__)
_MOST_PROCESSES = 1000
"""Of a server on one node: of more, something is wrong there."""


class _Told(Closing):
    """What one server on one node has answered."""

    def __init__(self, most_bytes: int) -> None:
        self.process, self.taken = "", 0
        """The process that is there now, and how much of it was taken."""
        self.left, self.begun = most_bytes, 0
        """Bytes that may still be recorded, and how many processes there have been."""
        self.file: AnswersFile | None = None
        self.given_up = False

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()
            self.file = None


class KeptAnswers(Closing):
    """Takes each byte of each process once, in order; of a server on a node one after the other.

    Where something cannot be recorded, what follows of that server there is not, and goes on.
    """

    def __init__(self, plan: Plan, site: Site, most_bytes: int = MOST_BYTES) -> None:
        self._servers, self._resumes, self._most = plan.servers, plan.resumes, most_bytes
        self._run, self._has_warned = recorded_in(plan, site), False
        self._told: dict[tuple[str, int], _Told] = {}
        """By node and number of the server."""
        self._before: dict[str, tuple[Path, int]] = {}
        """By source, what an earlier replay process has taken, and where it is."""
        if self._run is None:
            return
        for server in self._servers:
            try:
                found = [*begun(self._run, server.name, self._resumes)]
                if not found:  # even if nobody asks it, what it answers is recorded
                    self._begin(server, "", self._most).close()
            except OSError as error:
                self._warn(error)
            else:
                self._before |= {source: (path, taken) for path, source, taken in found}

    def _begin(self, server: ServerSpec, source: str, most_bytes: int) -> AnswersFile:
        assert self._run is not None
        header = Header(keys=server.answers, resumes=self._resumes, source=source)
        return AnswersFile.begin(self._run / FOLDER, server, header, most_bytes)

    def greet(self, who: str, greet: Greet) -> Iterator[AnswersTaken]:
        """Take a node's greeting; returns what it must know."""
        for number, process, known in greet.answered:
            taken = self.taken(who, number, process)
            if taken < known and number < len(self._servers):  # it has nothing before that any more
                told = self._of(who, number, process)
                told.taken = taken = known
                self._give_up(told, OSError(errno.EIO, "a part of it is gone"))
            yield AnswersTaken(process, taken, greet.number)

    def taken(self, who: str, number: int, process: str) -> int:
        """Bytes of a process of the server with that number that were taken so far."""
        told = self._told.get((who, number))
        if told is not None and told.process == process:
            return told.taken
        return self._before.get(_source(who, process), (None, 0))[1]

    def has(self, who: str, answered: Answered) -> bool:
        """Whether all of that was taken."""
        return all(self.taken(who, number, process) >= most for number, process, most in answered)

    def take(self, who: str, piece: AnswersPiece) -> str:
        """Take a piece; returns "", or why nothing of it is taken: ``gap`` or ``repeated``.

        Raises:
            BadMessage: there is no such server.
        """
        if piece.server >= len(self._servers):
            raise BadMessage(f"the run has no server {piece.server}")
        taken = self.taken(who, piece.server, piece.process)
        if piece.start > taken:
            return "gap"
        if not (content := piece.content[taken - piece.start :]):
            return "repeated"
        told = self._of(who, piece.server, piece.process)
        told.taken += len(content)
        if told.file is not None:
            told.left -= len(content)
            try:
                told.file.append(content)
            except OSError as error:
                self._give_up(told, error)
        return ""

    def _of(self, who: str, number: int, process: str) -> _Told:
        told = self._told.setdefault((who, number), _Told(self._most))
        if told.process == process:
            return told
        told.close()
        told.taken = self.taken(who, number, process)
        told.process, told.begun = process, told.begun + 1
        if self._run is None or told.given_up:
            return told
        if told.begun > _MOST_PROCESSES:
            self._give_up(told, OSError(errno.EMFILE, "a server was started too often"))
            return told
        source, server = _source(who, process), self._servers[number]
        try:
            if source in self._before:
                told.file = AnswersFile(self._before[source][0], server, told.left)
            else:
                told.file = self._begin(server, source, told.left)
        except OSError as error:
            self._give_up(told, error)
        return told

    def _give_up(self, told: _Told, error: OSError) -> None:
        told.close()
        told.given_up = True
        self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            why = error.strerror or error
            _log.warning("what servers answer is not recorded from here on: %s: the run cannot be "
                         "replayed beyond this", why)  # fmt: skip
        self._has_warned = True

    def close(self) -> None:
        """Close the files."""
        for told in self._told.values():
            told.close()


def _source(who: str, process: str) -> str:
    return f"{who}/{process}"
