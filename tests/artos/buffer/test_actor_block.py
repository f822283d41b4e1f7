"""The actor block against a plain model: cursors, commits, kills between any two stores, wraps."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from buffer_helpers import Fuse, Killed, arm, new_block, temporary_folder
from helpers import PATIENCE
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import Consumer
from artos.buffer.shm_folder import ShmFolder
from artos.errors import DeadlineExceeded, Overwritten, UnknownKey
from artos.specs.keys import VERSION_KEY, DataKey

KEYS = (DataKey("early", (2,), "int64"), DataKey("late", (), "int64", per_env=False))
NAMES = ("early", "late", VERSION_KEY)
CONSUMERS = (Consumer("stage", ("early",)), Consumer("learner", ("early", "late")))


def write(block: ActorBlock, start: int, stop: int, mark: int) -> None:
    """Rows whose every element says which step and which writer they are of."""
    for step in range(start, stop):
        for name in NAMES:
            block.arrays[name][block.index(step)] = step * 1000 + mark


def read(block: ActorBlock, name: str, start: int, stop: int) -> list[int]:
    """The rows as single numbers; every element of a row must agree."""
    array = block.arrays[name]
    out = np.empty((stop - start, *array.shape[1:]), array.dtype)
    block.read(name, start, stop, out)
    rows = [set(row.ravel().tolist()) for row in out]
    assert all(len(values) == 1 for values in rows), "a torn row"
    return [values.pop() for values in rows]


class BlockMachine(RuleBasedStateMachine):
    """One writer that may be killed anywhere, two consumers of different keys, and plain lists.

    ``committed[name]`` lists what the writer published, the cursors are plain numbers.
    """

    @initialize(capacity=st.integers(1, 7), envs=st.integers(1, 2))
    def create(self, capacity: int, envs: int) -> None:
        self._folder = temporary_folder()
        path = self._folder.__enter__()
        self.writer = new_block(
            path, KEYS, capacity, envs=envs, consumers=CONSUMERS, on_full="wait"
        )
        self.reader = ActorBlock.attach(self.writer.segment.path)
        self.capacity, self.mark = capacity, 0
        self.committed: dict[str, list[int]] = {name: [] for name in NAMES}
        self.allocated: tuple[int, int] | None = None
        self.cursors = {"stage": [0, 0], "learner": [0, 0]}
        self.keys = {consumer.name: consumer.keys for consumer in CONSUMERS}

    @property
    def written(self) -> int:
        return min(len(rows) for rows in self.committed.values())

    @property
    def released(self) -> int:
        return min(acknowledged for _, acknowledged in self.cursors.values())

    @rule(rows=st.integers(1, 8))
    def allocate(self, rows: int) -> None:
        if rows > self.capacity:
            with pytest.raises(ValueError, match="never fit"):
                self.writer.allocate(rows, 0)
        elif rows > self.released + self.capacity - self.written:
            with pytest.raises(DeadlineExceeded, match="held by"):
                self.writer.allocate(rows, 0)
        else:
            assert self.writer.allocate(rows, 0) == self.written
            self.allocated = (self.written, self.written + rows)

    @precondition(lambda self: self.allocated)
    @rule(share=st.floats(0, 1))
    def write_some_and_die(self, share: float) -> None:
        start, stop = self.allocated
        write(self.writer, start, start + round(share * (stop - start)), self.mark)
        self._reborn()

    @precondition(lambda self: self.allocated)
    @rule()
    def commit(self) -> None:
        start, stop = self.allocated
        write(self.writer, start, stop, self.mark)
        self.writer.commit(stop)
        self._publish(NAMES, start, stop)
        self.allocated = None

    @precondition(lambda self: self.allocated)
    @rule(first=st.sampled_from([("early",), ("early", VERSION_KEY), ("late",)]))
    def commit_in_two_stages(self, first: tuple[str, ...]) -> None:
        start, stop = self.allocated
        write(self.writer, start, stop, self.mark)
        self.writer.commit(stop, first)
        self._publish(first, start, stop)
        self._look()
        rest = [name for name in NAMES if name not in first]
        self.writer.commit(stop, rest)
        self._publish(rest, start, stop)
        self.allocated = None

    @precondition(lambda self: self.allocated)
    @rule(stores=st.integers(0, 12))
    def die_while_committing(self, stores: int) -> None:
        start, stop = self.allocated
        write(self.writer, start, stop, self.mark)
        arm(self.writer, Fuse(stores))
        try:
            self.writer.commit(stop)
        except Killed:
            pass
        else:
            self._publish(NAMES, start, stop)
        heads = {self.reader.headers[name].written for name in NAMES}
        assert heads <= {start, stop}
        mark = self.mark
        self._reborn()
        if self.written == start and self.writer.written == stop:
            self._publish(NAMES, start, stop, mark)

    @precondition(lambda self: self.allocated)
    @rule(
        first=st.sampled_from([("early",), ("early", VERSION_KEY), ("late",)]),
        stores=st.integers(0, 10),
    )
    def die_between_two_stages(self, first: tuple[str, ...], stores: int) -> None:
        """Rows of which some keys were published stay; its heir writes the other keys again."""
        start, stop = self.allocated
        write(self.writer, start, stop, self.mark)
        rest = [name for name in NAMES if name not in first]
        arm(self.writer, Fuse(stores))
        with suppress(Killed):
            for names in (first, rest):
                self.writer.commit(stop, names)
        mark = self.mark
        self._reborn()
        heads = {name: self.reader.headers[name].written for name in NAMES}
        assert set(heads.values()) <= {start, stop}
        for names in (first, rest):
            assert len({heads[name] for name in names}) == 1, "a stage is whole"
        assert heads[rest[0]] <= heads[first[0]], "stages come in order"
        self._publish([name for name in NAMES if heads[name] == stop], start, stop, mark)
        if heads[rest[0]] == start and heads[first[0]] == stop:
            write(self.writer, start, stop, mark)
            self.writer.commit(stop, rest)
            self._publish(rest, start, stop, mark)

    def _publish(self, names, start: int, stop: int, mark: int | None = None) -> None:
        mark = self.mark if mark is None else mark
        for name in names:
            self.committed[name] += [step * 1000 + mark for step in range(start, stop)]

    def _reborn(self) -> None:
        path = self.writer.segment.path
        self.writer = ActorBlock.attach(path)
        self.mark += 1
        assert self.writer.begin_incarnation() == self.mark
        self.allocated = None

    @rule(name=st.sampled_from(["stage", "learner"]), rows=st.integers(0, 8))
    def claim(self, name: str, rows: int) -> None:
        claimed, acknowledged = self.cursors[name]
        available = self.reader.committed(self.keys[name])
        self.cursors[name][0] = min(claimed + rows, available)
        self.reader.acknowledge(name, self.cursors[name][0], acknowledged)

    @rule(name=st.sampled_from(["stage", "learner"]))
    def acknowledge(self, name: str) -> None:
        claimed = self.cursors[name][0]
        self.cursors[name][1] = claimed
        self.reader.acknowledge(name, claimed, claimed)

    @rule(name=st.sampled_from(["stage", "learner"]))
    def consumer_dies(self, name: str) -> None:
        number = [consumer.name for consumer in CONSUMERS].index(name)
        self.reader = ActorBlock.attach(self.reader.segment.path)
        for key in self.keys[name]:
            assert self.reader.headers[key].cursor(number) == tuple(self.cursors[name])
        acknowledged = self.cursors[name][1]
        self.cursors[name][0] = acknowledged  # its heir gets the same rows again
        self.reader.acknowledge(name, acknowledged, acknowledged)

    @invariant()
    def _look(self) -> None:
        if not hasattr(self, "reader"):
            return
        for name in NAMES:
            rows = self.committed[name]
            header = self.reader.headers[name]
            assert header.written == len(rows)
            # not released by everybody, so never overwritten: this is "wait"
            held = self.released
            assert read(self.reader, name, held, len(rows)) == rows[held:]
        assert self.writer.free() == self.released + self.capacity - self.written
        assert self.reader.committed(NAMES) == self.written

    def teardown(self) -> None:
        if hasattr(self, "_folder"):
            self._folder.__exit__(None, None, None)


TestBlockMachine = BlockMachine.TestCase
TestBlockMachine.settings = settings(max_examples=50, stateful_step_count=30)


# -- every interleaving ------------------------------------------------------------------------


def interleavings(counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every order in which parties with that many moves each can take turns."""
    if not any(counts):
        yield ()
        return
    for party, left in enumerate(counts):
        if left:
            rest = tuple(c - (p == party) for p, c in enumerate(counts))
            for tail in interleavings(rest):
                yield (party, *tail)


def restart(block: ActorBlock) -> None:
    for header in block.headers.values():
        header.set_written(0)
        header.set_reserved(0)
        header.set_released(0)
        for number in range(len(CONSUMERS)):
            header.set_cursor(number, 0, 0)


def test_every_interleaving_of_a_writer_and_two_consumers(folder: ShmFolder) -> None:
    """Four commits of two rows into three to five rows, consumers taking what is there."""
    orders = list(interleavings((4, 3, 3)))
    assert len(orders) == 4200
    for capacity, width in ((3, 2), (4, 2), (5, 2)):
        writer = new_block(folder.path, KEYS, capacity, consumers=CONSUMERS, on_full="wait")
        reader = ActorBlock.attach(writer.segment.path)
        for order in orders[:: 3 if capacity > 3 else 1]:
            restart(writer)
            run_interleaving(writer, reader, order, width)


def run_interleaving(
    writer: ActorBlock, reader: ActorBlock, order: tuple[int, ...], width: int
) -> None:
    taken = {"stage": 0, "learner": 0}
    for party in order:
        if party == 0:
            if writer.free() < width:
                continue  # it would wait here
            start = writer.allocate(width, 0)
            write(writer, start, start + width, 7)
            writer.commit(start + width)
            continue
        consumer = CONSUMERS[party - 1]
        start, stop = taken[consumer.name], reader.committed(consumer.keys)
        for name in consumer.keys:
            assert read(reader, name, start, stop) == [s * 1000 + 7 for s in range(start, stop)]
        reader.acknowledge(consumer.name, stop, stop)
        taken[consumer.name] = stop
    assert reader.headers["early"].released == min(taken.values())
    assert reader.headers["late"].released == taken["learner"]


@pytest.mark.parametrize("stores", range(40))
def test_killed_between_any_two_stores(folder: ShmFolder, stores: int) -> None:
    """Allocate, write and commit with a kill before store number ``stores``: all rows or none."""
    block = new_block(folder.path, KEYS, 4, consumers=CONSUMERS, on_full="wait")
    block.allocate(1)
    write(block, 0, 1, 0)
    block.commit(1)
    doomed = ActorBlock.attach(block.segment.path)
    arm(doomed, Fuse(stores))
    try:
        write(doomed, (start := doomed.allocate(3, 0)), start + 3, 1)
        doomed.commit(start + 3)
        finished = True
    except Killed:
        finished = False
    next_writer = ActorBlock.attach(block.segment.path)
    next_writer.begin_incarnation()
    assert next_writer.written in ((4,) if finished else (1, 4))
    if finished:
        assert stores > 12
    for name in NAMES:
        assert next_writer.headers[name].written == next_writer.written
        assert read(next_writer, name, 0, 1) == [0]
        rest = list(range(1, next_writer.written))
        assert read(next_writer, name, 1, next_writer.written) == [s * 1000 + 1 for s in rest]
    next_writer.acknowledge("stage", 1, 1)
    next_writer.acknowledge("learner", 1, 1)
    start = next_writer.allocate(next_writer.free(), 0)
    assert start == next_writer.written


# -- single promises ---------------------------------------------------------------------------


def test_rows_a_dead_writer_touched_stay_gone(folder: ShmFolder) -> None:
    """A new writer that reserves less than the dead one does not bring back what that spoilt."""
    block = new_block(folder.path, KEYS, 8)
    write(block, (start := block.allocate(8)), 8, 0)
    block.commit(start + 8)
    doomed = ActorBlock.attach(block.segment.path)
    doomed.allocate(5)
    write(doomed, 8, 12, 1)  # and is killed here, having overwritten rows 0 to 3
    heir = ActorBlock.attach(block.segment.path)
    heir.begin_incarnation()
    heir.allocate(1)
    with pytest.raises(Overwritten) as caught:
        read(block, "early", 2, 4)
    assert caught.value.oldest == 5
    assert read(block, "early", 5, 8) == [5000, 6000, 7000]


def test_lapped_reader_is_told(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 4)
    write(block, block.allocate(4), 4, 0)
    block.commit(4)
    (view,) = block.views("early", 1, 4)
    seen = view.copy()
    block.guard(1, ("early",))
    write(block, block.allocate(2), 6, 1)
    with pytest.raises(Overwritten) as caught:
        block.guard(1, ("early", "late"))
    assert (caught.value.actor, caught.value.start, caught.value.oldest) == (0, 1, 2)
    assert (view[0] != seen[0]).all(), "the view shows what overwrote it, which is why guard exists"
    block.guard(2, ("early",))


def test_unwritten_rows_are_poisoned(folder: ShmFolder) -> None:
    keys = [
        DataKey(dtype, (3,), dtype) for dtype in ("float16", "float32", "uint8", "int64", "bool")
    ]
    block = new_block(folder.path, keys, 3, envs=2)
    assert np.isnan(block.arrays["float32"]).all()
    assert np.isnan(block.arrays["float16"]).all()
    assert (block.arrays["uint8"] == 0xA5).all()
    assert (block.arrays["int64"].view(np.uint8) == 0xA5).all()
    assert block.arrays["bool"].all()
    assert block.written == 0


def test_writer_sleeps_until_rows_are_released(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 4, consumers=CONSUMERS, on_full="wait")
    block.commit(block.allocate(4) + 4)
    got: list[int] = []
    writer = threading.Thread(target=lambda: got.append(block.allocate(2, 30)))
    writer.start()
    consumer = ActorBlock.attach(block.segment.path)
    while not consumer._preamble[7]:  # the word in which a waiting writer says so
        assert writer.is_alive()
    consumer.acknowledge("stage", 4, 4)
    consumer.acknowledge("learner", 1, 1)
    assert not got, "one row is not enough"
    consumer.acknowledge("learner", 2, 2)
    writer.join(PATIENCE)
    assert got == [4]


def test_the_wait_for_room_names_who_holds_it(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 4, actor=3, consumers=CONSUMERS, on_full="wait")
    block.commit(block.allocate(4) + 4)
    block.acknowledge("learner", 4, 4)
    with pytest.raises(DeadlineExceeded, match=r"actor 3.*step 0 are held by stage"):
        block.allocate(1, 0.01)


def test_views_wrap_and_unknown_keys_are_named(folder: ShmFolder) -> None:
    block = new_block(folder.path, KEYS, 5)
    for start, stop in itertools.combinations(range(12), 2):
        if stop - start <= 5:
            steps = [i for span in block.spans(start, stop) for i in range(5)[span]]
            assert steps == [s % 5 for s in range(start, stop)]
    with pytest.raises(UnknownKey, match="early, late, policy_version"):
        block.views("earl", 0, 1)
