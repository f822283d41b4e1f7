"""The actor data block: one writer, cyclic arrays and cursors per key (paper §4.2, Figure 9)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from artos.buffer.doorbell import Doorbell, fence, ordered
from artos.buffer.key_header import KeyHeader
from artos.buffer.layout import (
    KEY_HEADER_BYTES,
    LAYOUT_VERSION,
    MAGIC,
    PREAMBLE_BYTES,
    WORD,
    BlockSpec,
    Layout,
    description,
    words_of,
)
from artos.buffer.segment import Segment
from artos.clock import Deadline
from artos.errors import DeadlineExceeded, LayoutMismatch, Overwritten, UnknownKey
from artos.specs.keys import VERSION_KEY, DataKey, poison

if TYPE_CHECKING:
    from artos.protocol.lag import Drawn

_MAGIC, _LAYOUT, _TEXT_BYTES, _SIZE, _INCARNATION, _INTENT, _INTENT_STEP, _WAITING = range(8)
_SPACE_DOORBELL = 256

INCARNATIONS = 1 << 20
"""The largest number of processes that may write an actor's block in one place."""


class ActorBlock:
    """One actor's experience: allocate → write in place → commit; claim → read → acknowledge.

    Invariants: a row is visible only after its commit. A writer killed at any point leaves either
    nothing or a whole commit (``recover`` finishes one that was cut short). With
    ``on_full="wait"`` no row is overwritten before every consumer acknowledged it; with
    ``"overwrite"`` the oldest rows go, and ``guard`` tells a reader that it was lapped.
    """

    drawn: Drawn | None = None
    """Notes the rows that a learner draws from here."""

    def __init__(self, segment: Segment, spec: BlockSpec, layout: Layout) -> None:
        self.segment, self.spec = segment, spec
        memory = segment.memory
        self._preamble = words_of(memory, 0, PREAMBLE_BYTES // WORD)
        self._keys = {key.name: key for key in spec.all_keys}
        self.headers = {
            name: KeyHeader(words_of(memory, offset, KEY_HEADER_BYTES // WORD))
            for name, offset in layout.headers.items()
        }
        self.arrays: dict[str, NDArray[Any]] = {}
        for name, offset in layout.arrays.items():
            key, shape = self._keys[name], (spec.capacity, *self._keys[name].row_shape(spec.envs))
            self.arrays[name] = np.ndarray(shape, np.dtype(key.dtype), memory, offset)
        self._names = tuple(self.headers)
        self._all = (1 << len(self._names)) - 1
        self._consumers = {consumer.name: n for n, consumer in enumerate(spec.consumers)}
        self._consumed_by = {
            name: tuple(n for n, consumer in enumerate(spec.consumers) if name in consumer.keys)
            for name in self._names
        }

    @classmethod
    def create(cls, path: Path, spec: BlockSpec, *, base: int = 0, term: int = 1) -> Self:
        """Create the file at full size, every page present and every row poisoned.

        ``base`` is the step of the first row it will hold. ``term`` counts the places that the
        actor has had, so that its incarnations here have numbers that no earlier place used.

        Raises:
            ShmTooSmall: there is not enough shared memory; nothing is left behind.
        """
        layout = Layout(spec)
        segment = Segment.create(path, layout.size)
        segment.memory[PREAMBLE_BYTES : PREAMBLE_BYTES + len(layout.text)] = layout.text
        block = cls(segment, spec, layout)
        for key in spec.all_keys:
            header = block.headers[key.name]
            header.describe(key, spec.envs, spec.capacity, layout.arrays[key.name])
            header.begin(base, len(spec.consumers))
            poison(block.arrays[key.name])
        block._preamble[_INCARNATION] = (term - 1) * INCARNATIONS
        facts = (0, LAYOUT_VERSION, len(layout.text), layout.size)
        for at, fact in enumerate(facts):
            block._preamble[at] = fact
        block._space = Doorbell(segment.memory, _SPACE_DOORBELL, create=True)
        fence()
        block._preamble[_MAGIC] = MAGIC  # last, so a half-created file is not a block
        return block

    @classmethod
    def attach(cls, path: Path) -> Self:
        """Map an existing block.

        Raises:
            LayoutMismatch: not a block, half created, or of another layout version.
        """
        segment = Segment.attach(path)
        spec = description(str(path), segment.memory, MAGIC, PREAMBLE_BYTES, BlockSpec)
        layout = Layout(spec)
        if layout.size != len(segment):
            found = f"{len(segment)} bytes instead of {layout.size}"
            raise LayoutMismatch(str(path), found, LAYOUT_VERSION)
        block = cls(segment, spec, layout)
        block._space = Doorbell(segment.memory, _SPACE_DOORBELL)
        return block

    _space: Doorbell

    # -- writing (the actor) -------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        """How many processes have written this block before the present one."""
        return self._preamble[_INCARNATION]

    @incarnation.setter
    def incarnation(self, number: int) -> None:
        self._preamble[_INCARNATION] = number

    def begin_incarnation(self) -> int:
        """Start writing as a new process: finish or drop what the last process left half done."""
        self.recover()
        self.incarnation += 1
        return self.incarnation

    @property
    def written(self) -> int:
        """Rows committed in every key."""
        return min(header.written for header in self.headers.values())

    def free(self) -> int:
        """Rows that can be allocated now without waiting."""
        released = min(header.released for header in self.headers.values())
        return released + self.spec.capacity - self.spec.history - self.written

    def room(self) -> int:
        """The row below which some keys may be written now without waiting for consumers."""
        gone = self.written
        if self.spec.on_full == "wait":
            gone = min(header.released for header in self.headers.values())
        return gone + self.spec.capacity - self.spec.history

    def begin_term(self, term: int, base: int) -> None:
        """Take rows from the actor's new place from now on: its old rows from ``base`` on are void.

        ``incarnation`` becomes ``term`` last, so a reader that sees the new value sees no void row.
        Repeating this, also after it was interrupted, changes nothing more.

        Raises:
            ValueError: rows before ``base`` are missing.
        """
        self.recover()
        if term == self.incarnation:
            return
        if base > self.written:
            raise ValueError(f"actor {self.spec.actor} has {self.written} rows, not {base}")
        # ``reserved`` stays: void rows have overwritten older rows, and readers must know that.
        self.commit(base)
        ordered()
        self._preamble[_INCARNATION] = term

    def allocate(self, rows: int, seconds: float = 60.0) -> int:
        """Reserve the next ``rows`` rows and return the step number of the first.

        With ``on_full="wait"`` this waits until consumers have released enough rows.

        Raises:
            DeadlineExceeded: no room within ``seconds``; names the consumer that holds the rows.
        """
        if self.spec.on_full == "wait":
            deadline, usable = Deadline(seconds), self.spec.capacity - self.spec.history
            if rows > usable:
                raise ValueError(f"{rows} rows never fit a block with room for {usable}")
            while self.free() < rows:
                # Say so, then look again: a release from now on sees the word, or is seen here.
                self._preamble[_WAITING] = 1
                fence()
                if self.free() < rows and not self._space.wait(deadline.left) and deadline.passed:
                    name, header = min(self.headers.items(), key=lambda item: item[1].released)
                    holders = [c.name for c in self.spec.consumers if name in c.keys]
                    raise DeadlineExceeded(
                        f"room in the block of actor {self.spec.actor}: rows of {name!r} from step "
                        f"{header.released} are held by {', '.join(holders) or 'no consumer'}",
                        deadline.seconds,
                    )
            self._preamble[_WAITING] = 0
        # Otherwise the oldest rows go. One that reads them sees it in ``reserved`` (``guard``).
        start = self.written
        self.reserve(start + rows, self._names)
        return start

    def reserve(self, stop: int, keys: Sequence[str]) -> None:
        """Announce that rows of ``keys`` below ``stop`` may be touched, before writing them."""
        for name in keys:
            header = self.headers[name]
            # Never back: a writer that died may have touched later rows than this one will.
            header.set_reserved(max(header.reserved, stop))
        ordered()

    def index(self, step: int) -> int:
        """Position of the row of ``step`` in the cyclic arrays."""
        return step % self.spec.capacity

    def commit(self, stop: int, keys: Sequence[str] | None = None) -> None:
        """Publish every row below ``stop`` of ``keys`` (default: all keys at once)."""
        names = self._names if keys is None else keys
        ordered()  # the rows come before anything that says so
        # The keys' counters cannot be raised at once, so what is intended is written down first.
        # Killed before the mask is stored, the writer leaves nothing; after that, a whole commit.
        self._preamble[_INTENT_STEP] = stop
        mask = self._all if keys is None else sum(1 << self._names.index(name) for name in keys)
        self._preamble[_INTENT] = mask
        self._finish(names, stop)

    def recover(self) -> None:
        """Finish a commit whose writer was killed in the middle; otherwise change nothing."""
        # Whoever finds the writer dead does this, and so does its successor.
        mask, stop = self._preamble[_INTENT], self._preamble[_INTENT_STEP]
        if mask:
            self._finish([n for i, n in enumerate(self._names) if mask >> i & 1], stop)

    def _finish(self, names: Sequence[str], stop: int) -> None:
        ordered()
        for name in names:
            self.headers[name].set_written(stop)
        ordered()
        self._preamble[_INTENT] = 0

    # -- reading -------------------------------------------------------------------------------

    def key(self, name: str) -> DataKey:
        """The declaration of a key.

        Raises:
            UnknownKey: the block has no such key.
        """
        try:
            return self._keys[name]
        except KeyError:
            raise UnknownKey(name, self._names) from None

    def committed(self, keys: Sequence[str]) -> int:
        """Rows committed in all of ``keys``."""
        return min(self.headers[name].written for name in keys)

    def oldest(self, name: str = VERSION_KEY) -> int:
        """The oldest step of a key that is certainly not being overwritten."""
        return max(0, self.headers[name].reserved - self.spec.capacity)

    def spans(self, start: int, stop: int) -> tuple[slice, ...]:
        """The one or two slices of a cyclic array that hold steps ``start`` to ``stop``."""
        first, count = self.index(start), stop - start
        until_end = self.spec.capacity - first
        if count <= until_end:
            return (slice(first, first + count),)
        return (slice(first, self.spec.capacity), slice(0, count - until_end))

    def views(self, name: str, start: int, stop: int) -> tuple[NDArray[Any], ...]:
        """Rows ``start`` to ``stop`` in place, as one view or, across the wrap, two."""
        array = self.arrays[self.key(name).name]
        return tuple(array[span] for span in self.spans(start, stop))

    def read(self, name: str, start: int, stop: int, out: NDArray[Any]) -> None:
        """Copy rows ``start`` to ``stop`` (stacks not rebuilt) into ``out``.

        Raises:
            Overwritten: the writer lapped this read; ``out`` must not be used.
        """
        at = 0
        for view in self.views(name, start, stop):
            out[at : at + len(view)] = view
            at += len(view)
        self.guard(start, (name,))

    def guard(self, start: int, names: Sequence[str]) -> None:
        """Raise ``Overwritten`` if rows from ``start`` may have been overwritten by now."""
        ordered()  # as with a sequence lock: copy first, then see whether the writer came by
        oldest = max(self.oldest(name) for name in names)
        if start < oldest:
            raise Overwritten(self.spec.actor, start, oldest)

    # -- consuming (the process that runs the triggers) ----------------------------------------

    def acknowledge(self, consumer: str, claimed: int, acknowledged: int) -> None:
        """Move a consumer's cursor; rows that all consumers of a key are done with are released."""
        number = self._consumers[consumer]
        for name in self.spec.consumers[number].keys:
            self.headers[name].set_cursor(number, claimed, acknowledged)
        cursors = [self.headers[c.keys[0]].cursor(n)[1] for n, c in enumerate(self.spec.consumers)]
        for name, numbers in self._consumed_by.items():
            # A key without consumers is kept as long as the slowest consumer needs its rows.
            done = [cursors[n] for n in numbers] if numbers else cursors
            self.headers[name].set_released(min(done))
        fence()
        if self._preamble[_WAITING]:  # a ring costs a system call, so only for one that sleeps
            self._space.ring()

    def __repr__(self) -> str:
        return f"<ActorBlock actor={self.spec.actor} written={self.written} free={self.free()}>"
