"""Weights in pieces: published whole or not at all; bfloat16 is a rounding and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artos.buffer.model_block import ModelBlock, ObjectSpec
from artos.buffer.object_region import ObjectRegion
from artos.buffer.past_versions import KeepingRegion, past_of
from artos.buffer.shm_folder import ShmFolder
from artos.protocol import codec
from artos.protocol.data import Pull, Weights
from artos.specs.keys import ArraySpec
from artos.transport.bfloat16 import BFLOAT16, narrow, widen
from head.replay.replay import WeightStore
from workers.agent.weights import Assembly

PARAMS = 400_003
ARRAYS = (ArraySpec("params", (PARAMS,)), ArraySpec("learner.moments", (PARAMS,)))


@pytest.fixture
def regions() -> Iterator[tuple[ObjectRegion, ObjectRegion]]:
    """The model on the head, and on a node where the learner's state is left out."""
    folder = ShmFolder.create("test")
    head = ObjectSpec.sized("model_param", ARRAYS, 3)
    node = ObjectSpec.sized("model_param", head.public, 3)
    yield tuple(
        ModelBlock.create(folder.path / name, [spec])["model_param"]
        for name, spec in (("head", head), ("node", node))
    )
    folder.remove()


def publish(region: ObjectRegion, version: int) -> np.ndarray:
    slot = region.allocate()
    slot.arrays["params"][:] = np.random.default_rng(version).normal(size=PARAMS)
    region.commit(slot, version)
    return slot.arrays["params"].copy()


def pieces(region: ObjectRegion, dtype: str = "float32") -> list[Weights]:
    store = WeightStore(region, dtype)
    made = [codec.decode(message) for message in store.newest()]
    assert len(made) > 1
    return made


def test_all_pieces_make_a_version(regions) -> None:
    head, node = regions
    for version in (0, 4, 5):
        values = publish(head, version)
        assembly = Assembly(node)
        assert [assembly.add(piece) for piece in pieces(head)][-2:] == [False, True]
        assert assembly.have == node.version == version
        assert np.array_equal(node.pin(0).arrays["params"], values)
        node.unpin(0)


def test_nothing_is_seen_before_the_last_piece(regions) -> None:
    head, node = regions
    first = publish(head, 0)
    assembly = Assembly(node)
    for piece in pieces(head):
        assembly.add(piece)
    publish(head, 1)
    for piece in pieces(head)[:-1]:
        assert not assembly.add(piece)
        assert node.version == 0
        assert np.array_equal(node.newest.arrays["params"], first)


def test_a_damaged_piece_spoils_its_version_only(regions) -> None:
    head, node = regions
    publish(head, 0)
    assembly = Assembly(node)
    whole = pieces(head)
    content = bytearray(whole[1].content)
    content[0] ^= 1
    spoilt = msgspec.structs.replace(whole[1], content=memoryview(content))
    assert not assembly.add(whole[0])
    assert assembly.add(spoilt), "given up: ask again"
    assert not any(assembly.add(piece) for piece in whole[2:])
    assert node.version == -1
    assert [assembly.add(piece) for piece in whole][-1]
    assert node.version == 0


def test_pieces_of_two_versions_never_mix(regions) -> None:
    head, node = regions
    publish(head, 0)
    old = pieces(head)
    values = publish(head, 1)
    new = pieces(head)
    assembly = Assembly(node)
    for piece in (old[0], old[1], new[2], *new[3:]):
        assert not assembly.add(piece)
    assert node.version == -1
    for piece in (old[0], *new):
        assembly.add(piece)
    assert node.version == 1
    assert np.array_equal(node.newest.arrays["params"], values)


def test_what_was_begun_before_a_break_is_forgotten(regions) -> None:
    head, node = regions
    publish(head, 0)
    whole = pieces(head)
    assembly = Assembly(node)
    assembly.add(whole[0])
    assembly.drop()
    assert not any(assembly.add(piece) for piece in whole[1:])
    assert node.version == -1


def test_older_weights_are_not_taken(regions) -> None:
    head, node = regions
    publish(head, 3)
    old = pieces(head)
    publish(node, 3)
    assembly = Assembly(node)
    assert not any(assembly.add(piece) for piece in old)


@pytest.mark.parametrize("change", [{"total": 4 * PARAMS + 4}, {"dtype": BFLOAT16}, {"start": 4}])
def test_pieces_that_do_not_fit_the_model_are_dropped(regions, change: dict) -> None:
    head, node = regions
    publish(head, 0)
    assembly = Assembly(node)
    for piece in pieces(head):
        assembly.add(msgspec.structs.replace(piece, **change))
    assert node.version == -1


def test_half_the_bytes_as_bfloat16(regions) -> None:
    head, node = regions
    values = publish(head, 0)
    plain = sum(len(piece.content) for piece in pieces(head))
    short = pieces(head, BFLOAT16)
    assert sum(len(piece.content) for piece in short) * 2 == plain
    assembly = Assembly(node)
    for piece in short:
        assembly.add(piece)
    arrived = node.newest.arrays["params"]
    assert np.max(np.abs(arrived - values) / np.abs(values)) <= 2.0**-8


def test_a_version_is_copied_once_and_pins_nothing(
    regions, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, _ = regions
    publish(head, 0)
    store = WeightStore(head, "float32")
    first = [*store.newest()]
    assert all(a is b for a, b in zip(first, store.newest(), strict=True))
    publish(head, 1)
    assert [*store.newest()] != first
    for version in range(2, 10):
        publish(head, version)  # as many as there are slots: none is held


READ = (ArraySpec("params", (PARAMS,)), ArraySpec("learner.count", ()), ArraySpec("reads.told", ()))


@pytest.fixture
def keeping() -> Iterator[tuple[KeepingRegion, KeepingRegion]]:
    """The same with an object that actors read, and two past versions, of each third."""
    folder = ShmFolder.create("test")
    head = ObjectSpec.sized("model_param", READ, 3, 2, 3)
    node = ObjectSpec.sized("model_param", head.public, 3, 2, 3)
    yield tuple(
        ModelBlock.create(folder.path / name, [spec])["model_param"]
        for name, spec in (("head", head), ("node", node))
    )
    folder.remove()


def answer(region: KeepingRegion, pull: Pull) -> list[Weights]:
    """What a replay process sends to a node that asks for weights."""
    store, kept = WeightStore(region, "float32"), []

    def keep(version: int, messages: Iterator[bytes]) -> None:
        if version not in (pull.have, *pull.past):
            kept.extend(messages)

    newest = [*store.newest(keep)]
    return [codec.decode(message) for message in (*kept, *newest)]


def assert_whole(region: KeepingRegion, version: int) -> None:
    slots = region.pin_all(0)
    assert [slot.version for slot in slots] == [version, *past_of(version, 2, 3)]
    for slot in slots:
        assert (slot.arrays["params"] == slot.version).all()
        assert slot.arrays["reads.told"] == slot.version
    region.unpin(0)


def told(region: KeepingRegion, versions: range) -> None:
    for version in versions:
        slot = region.allocate()
        slot.arrays["params"][:] = slot.arrays["reads.told"][...] = version
        region.commit(slot, version)


def test_what_a_node_lacks_of_the_past_comes_before_a_version(keeping) -> None:
    head, node = keeping
    told(head, range(9))
    assembly = Assembly(node)
    for have, more in ((-1, range(9, 10)), (8, range(10, 17)), (9, range(17, 18)), (16, range(0))):
        assert assembly.have == have
        *_, last = [assembly.add(each) for each in answer(head, Pull(have, assembly.past))]
        assert last
        assert_whole(node, assembly.have)
        told(head, more)


def test_a_version_whose_past_was_damaged_is_dropped_too(keeping) -> None:
    head, node = keeping
    told(head, range(9))
    assembly = Assembly(node)
    sent = answer(head, Pull(-1))
    spoilt = msgspec.structs.replace(sent[0], checksum=sent[0].checksum ^ 1)
    added = [assembly.add(each) for each in (spoilt, *sent[1:])]
    assert added.count(True) == 2, "given up twice: ask again"
    assert (assembly.have, assembly.past) == (-1, (6,))
    assert [assembly.add(each) for each in answer(head, Pull(-1, assembly.past))][-1]
    assert_whole(node, 8)


def test_halfway_between_two_bfloat16_the_even_one_is_taken() -> None:
    words = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0xBF818000], np.uint32)
    assert narrow(words.view(np.float32)).tolist() == [0x3F80, 0x3F82, 0x3F81, 0xBF82]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_bfloat16_is_the_nearest_there_is(values: list[float]) -> None:
    exact = np.array(values, np.float32)
    exact = exact[np.abs(exact) < 3e38]
    out = np.empty_like(exact)
    widen(narrow(exact), out)
    words = out.view(np.uint32)
    assert not (words & 0xFFFF).any()
    down, up = (words - 0x10000).view(np.float32), (words + 0x10000).view(np.float32)
    error = np.abs(out - exact)
    for other in (down, up):
        valid = np.isfinite(other)
        assert (error <= np.abs(other - exact))[valid].all()
