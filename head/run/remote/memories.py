"""What actors of a node share, brought to the nodes that they move to before they leave.

An actor's image is small without the memory of the template that it was made from, and all actors
that were made on a node have that in common. So they play on until it is where they go, and then
move fast.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from artos.clock import Clock
from artos.errors import BadBundle
from artos.protocol import steering
from artos.protocol.message import Message
from artos.system.closing import Closing
from artos.system.private_folder import remove
from artos.transport.served_files import Incoming, cut

_log = logging.getLogger(__name__)
_SECONDS = 15.0
"""Longest wait for a sign of it, from the node that makes it or takes it."""
_ANEW_SECONDS = 60.0
"""After so long it is tried again."""
_SURE_SECONDS = 30.0
"""How long a node that has it surely keeps it."""
_NO_SIGN = f"no sign of it for {_SECONDS:g} s"


@dataclass(slots=True)
class _Memory:
    """The memory that a node's actors share."""

    source: str
    deadline: float
    """When it is given up; once it has failed, when it is tried again."""
    file: Incoming | None = None
    """Its bundle, once it is made."""
    name: str = ""
    whole: bool = False
    """Whether all of the bundle is here."""
    failed: bool = False
    at: dict[str, float] = field(default_factory=dict)
    """Nodes that were offered it, and until when there should be a sign of that."""
    here: dict[str, float] = field(default_factory=dict)
    """Nodes that have it, and until when they surely keep it."""
    refused: set[str] = field(default_factory=set)
    """Nodes that cannot have it, or not soon."""


class Memories(Closing):
    """Keeps the bundles in ``folder``. ``tell`` sends to a node, ``numbers`` are for bundles."""

    def __init__(
        self,
        folder: Path,
        tell: Callable[[str, Message], None],
        clock: Clock,
        numbers: Iterator[int],
    ) -> None:
        self._folder, self._tell, self._clock, self._numbers = folder, tell, clock, numbers
        self._memories: dict[int, _Memory] = {}
        self._newest: dict[str, int] = {}
        self.close()  # a run process that died may have left some

    def bring(self, source: str, target: str, number: int = 0, *, up: bool) -> bool:
        """Bring what actors on ``source`` share to ``target``, if that is ``up``; else only here.

        With a ``number``: that memory, for an actor that came to ``source`` without it.

        Returns whether it is there, or cannot be brought there: nobody need wait for it. Ask again
        until then.
        """
        now, number = self._clock.now(), number or self._newest.get(source, 0)
        memory = self._memories.get(number)
        if memory is None or (memory.failed and now >= memory.deadline):
            self._newest[source] = number = next(self._numbers)
            self._memories[number] = memory = _Memory(source, now + _SECONDS)
            self._tell(source, steering.PackMemory(number))
        self._give_up_late(memory)
        if memory.failed or target in memory.refused:
            return True
        if not (memory.whole and up):
            return False
        if now < memory.here.get(target, 0.0):
            return True
        if target in memory.here or target not in memory.at:
            memory.here.pop(target, None)
            memory.at[target] = now + _SECONDS
            self._tell(target, steering.TakeMemory(number))
        if now >= memory.at[target]:
            self._refuse(memory, target, _NO_SIGN)
        return target in memory.refused

    def name(self, source: str, target: str, number: int = 0) -> str:
        """What bundles of actors from ``source`` to ``target`` may be without; "": nothing.

        With a ``number``: its name, for an actor that came to ``source`` without it.
        """
        memory = self._memories.get(number or self._newest.get(source, 0))
        usable = memory is not None and memory.whole and target not in memory.refused
        return memory.name if memory is not None and usable else ""

    def offer(self, name: str, target: str) -> int:
        """The number of the bundle of that memory, for a node; 0 if there is none."""
        for number, memory in self._memories.items():
            if memory.whole and memory.name == name:
                memory.at.setdefault(target, self._clock.now() + _SECONDS)
                return number
        return 0

    # -- messages of executors -----------------------------------------------------------------

    def heard(self, node: str, message: Message) -> bool:
        """An executor's message; returns whether it is about memory.

        Raises:
            BadMessage: the message asks for a piece that cannot exist.
        """
        number = getattr(message, "number", 0)
        if (memory := self._memories.get(number)) is None:
            return isinstance(message, steering.MemoryHere)
        match message:
            case steering.ReadPiece():
                piece = steering.BundlePiece(number, message.start)
                if memory.whole and memory.file is not None and node in memory.at:
                    memory.at[node] = self._clock.now() + _SECONDS
                    try:
                        piece = cut(memory.file.path, message)
                    except OSError as error:
                        self._refuse(memory, node, str(error))
                self._tell(node, piece)
            case steering.MemoryHere(why=why) if node in memory.at:
                if why:
                    self._refuse(memory, node, why)
                else:
                    memory.here[node] = self._clock.now() + _SURE_SECONDS
                    memory.refused.discard(node)
            case steering.Packed() | steering.BundlePiece() if node == memory.source:
                if not (memory.whole or memory.failed):
                    self._take(number, memory, message)
        return True

    def _take(
        self, number: int, memory: _Memory, message: steering.Packed | steering.BundlePiece
    ) -> None:
        if isinstance(message, steering.Packed) and not message.memory:
            self._fail(memory, message.why or "it has no name")
            return
        try:
            if memory.file is None:
                memory.file = Incoming(number, self._folder / str(number))
            if isinstance(message, steering.BundlePiece):
                memory.file.take(message)
            else:
                memory.name = message.memory
        except (BadBundle, OSError) as error:
            self._fail(memory, str(error))
            return
        memory.deadline = self._clock.now() + _SECONDS
        memory.whole = memory.file.whole and memory.name != ""
        if not memory.whole:
            self._tell(memory.source, memory.file.wish)

    def _fail(self, memory: _Memory, why: str) -> None:
        _log.debug("actors of %s move with the memory that they share: %s", memory.source, why)
        memory.failed, memory.deadline = True, self._clock.now() + _ANEW_SECONDS
        if memory.file is not None:
            memory.file.close()

    def _give_up_late(self, memory: _Memory) -> None:
        if not (memory.whole or memory.failed) and self._clock.now() >= memory.deadline:
            self._fail(memory, _NO_SIGN)

    def _refuse(self, memory: _Memory, node: str, why: str) -> None:
        _log.debug("memory of actors of %s is not brought to %s: %s", memory.source, node, why)
        memory.refused.add(node)  # an actor that is without it may still be on its way there

    # -- the end of it -------------------------------------------------------------------------

    def lost(self, node: str) -> None:
        """The node's executor is gone; another one has a template of its own."""
        if (number := self._newest.pop(node, None)) is not None:
            memory = self._memories[number]
            if not memory.whole and not memory.failed:
                self._fail(memory, f"{node} is gone")
        for memory in self._memories.values():
            memory.at.pop(node, None)
            memory.here.pop(node, None)
            memory.refused.discard(node)

    def keep(self, needed: Collection[str], numbers: Collection[int] = ()) -> None:
        """Remove memory of nodes that are gone unless a bundle is without it, by its name.

        That with one of these ``numbers`` stays, too. What is late is given up.
        """
        newest = {*self._newest.values()}
        for number, memory in tuple(self._memories.items()):
            self._give_up_late(memory)
            if number not in newest and number not in numbers and memory.name not in needed:
                del self._memories[number]
                if memory.file is not None:
                    memory.file.close()
                    memory.file.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all of it. May be called twice."""
        for memory in self._memories.values():
            if memory.file is not None:
                memory.file.close()
        self._memories, self._newest = {}, {}
        remove(self._folder)

    def __repr__(self) -> str:
        return f"<Memories {[*self._memories]} in {self._folder}>"
