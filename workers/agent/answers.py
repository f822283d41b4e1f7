"""What servers here have answered, on its way to the run's records ahead of the rows made from it.

Each process of a server writes a file (``artos.runs.answers``). Those of a server are sent one
after the other: the next one once all of the one before has arrived. Whenever something may have
been lost it is sent again, from the first byte that has not arrived. What has arrived takes no room
here any more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from artos.protocol.data import Answered, AnswersPiece, AnswersTaken
from artos.runs.answers import numbered
from artos.system.closing import Closing
from artos.system.holes import give_back

PIECE = 256 << 10
"""Most bytes of a piece."""
WINDOW = 1 << 20
"""Bytes of a process that may be on their way; also those that arrived and still take room."""


class _File(Closing):
    """What one process of a server has answered."""

    def __init__(self, path: Path, process: str) -> None:
        self._path, self.process = path, process
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        self.size = self.sent = self.taken = self._given_back = 0
        self.known = False
        """Whether its ``AnswersTaken`` has come since the last greeting."""

    def look(self) -> None:
        """See how much there is."""
        self.size = max(self.size, os.fstat(self._file).st_size)

    @property
    def behind(self) -> bool:
        """Whether something is not sent yet."""
        return not self.known or self.sent < self.size

    @property
    def waits(self) -> bool:
        """Whether an answer is outstanding."""
        return not self.known or self.taken < self.sent

    def next_piece(self) -> bytes:
        """What is to be sent now, which counts as sent; b"" if nothing can be."""
        most = min(PIECE, self.taken + WINDOW - self.sent, self.size - self.sent)
        if most <= 0 or not self.known:
            return b""
        piece = os.pread(self._file, most, self.sent)
        self.sent += len(piece)
        return piece

    def take(self, taken: int) -> None:
        """So many bytes have arrived."""
        self.taken = max(self.taken, min(taken, self.size))
        self.sent = max(self.sent, self.taken)
        if self.taken - self._given_back >= WINDOW:
            self._given_back = self.taken
            give_back(self._file, self.taken)

    def remove(self) -> None:
        """Remove the file: all of it has arrived, and another process writes the next one."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close it; it stays."""
        os.close(self._file)


class AnswersSent(Closing):
    """Sends what ``servers``, in the order of the plan, answer into files in ``folder``.

    The end of the folder's name tells processes here from those of any other executor.
    """

    def __init__(self, folder: Path, servers: Sequence[str]) -> None:
        self._folder, self._servers = folder, servers
        self._id = folder.name.rpartition(".")[2]
        self._files: dict[int, _File] = {}
        """By the server's number, that which is being sent."""
        self._more = False
        """Whether there is one that can only be sent once all of the one before has arrived."""
        left = (numbered(folder, server) for server in servers)  # by an agent that is dead
        self._next = [files[0][0] if files else 0 for files in left]

    def look(self) -> bool:
        """See what there is by now; says whether another process begins, so that one is to greet.

        Rows that are committed before this call were made from no more than is found.
        """
        begins = self._more = False
        for number, server in enumerate(self._servers):
            path = self._folder / f"{server}-{self._next[number]}.answers"
            there, now = path.exists(), self._files.get(number)
            if now is not None:
                now.look()  # only now: whoever wrote it is dead if there is a next one
            if there and now is not None and (now.behind or now.waits):
                self._more = True
            elif there:
                if now is not None:
                    now.remove()
                process = f"{number}-{self._next[number]}.{self._id}"
                self._files[number] = _File(path, process)
                self._next[number] += 1
                begins = True
        return begins

    def greet(self) -> Answered:
        """Start again after what has arrived, as other pieces may be lost; returns how much has.

        Nothing is sent before the greeting is answered.
        """
        for file in self._files.values():
            file.known, file.sent = False, file.taken
        return tuple((number, file.process, file.taken) for number, file in self._files.items())

    def take_report(self, news: AnswersTaken, greeting: int) -> None:
        """Take in how much has arrived; ``greeting`` is the number of the last one."""
        for file in self._files.values():
            if file.process == news.process:
                file.look()
                file.known = file.known or news.answers == greeting > 0
                file.take(news.taken)

    def next_piece(self) -> AnswersPiece | None:
        """The next piece, which counts as sent from now on; None if nothing can be sent now."""
        for number, file in self._files.items():
            start = file.sent
            if piece := file.next_piece():
                return AnswersPiece(number, file.process, start, memoryview(piece))
        return None

    @property
    def behind(self) -> bool:
        """Whether something was found that is not sent yet, which rows are not to overtake."""
        return self._more or any(file.behind for file in self._files.values())

    @property
    def waits(self) -> bool:
        """Whether an answer is outstanding."""
        return any(file.waits for file in self._files.values())

    @property
    def sent(self) -> Answered:
        """How much is sent of each process."""
        return tuple((n, file.process, file.sent) for n, file in self._files.items() if file.sent)

    def close(self) -> None:
        """Close the files, which stay."""
        for file in self._files.values():
            file.close()
