"""Messages between node and members: typed, and nothing malformed gets through."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artos.errors import BadMessage
from artos.protocol.invocations import (
    Claim,
    Done,
    Failed,
    FromMember,
    Invoke,
    Ready,
    Stop,
    ToMember,
    decode_from_member,
    decode_to_member,
    encode,
)  # fmt: skip

CALL = Invoke(3, "learner.update", "update", (Claim(1, 0, 8),), stop=8, bind=False, progress=0.25)
DONE = Done(3, 7, {"loss": 0.5}, {"learn": 1.0}, (21.0,), (20,), 1.5)
READY = Ready(1.5, 2, "clone")


@pytest.mark.parametrize("message", [CALL, Stop()], ids=repr)
def test_what_the_node_sends_is_what_the_member_gets(message: ToMember) -> None:
    assert decode_to_member(encode(message)) == message


@pytest.mark.parametrize("message", [DONE, READY, Failed(3, 9, "trace", True)], ids=repr)
def test_what_the_member_sends_is_what_the_node_gets(message: FromMember) -> None:
    assert decode_from_member(encode(message)) == message


def test_a_message_for_the_other_side_is_refused() -> None:
    with pytest.raises(BadMessage, match="Invoke"):
        decode_from_member(encode(CALL))
    with pytest.raises(BadMessage, match="Done"):
        decode_to_member(encode(DONE))


def test_a_field_of_the_wrong_type_is_named() -> None:
    forged = msgspec.msgpack.encode({"type": "Done", "firing": "3", "version": 1})
    with pytest.raises(BadMessage, match=r"\$\.firing"):
        decode_from_member(forged)


def test_a_way_to_start_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BadMessage, match=r"\$\.start"):
        decode_from_member(encode(msgspec.structs.replace(READY, start="lukewarm")))


@given(data=st.binary(max_size=60), cut=st.integers(0, 40))
def test_garbage_and_truncated_messages_change_nothing(data: bytes, cut: int) -> None:
    for bytes_ in (data, encode(DONE)[:cut]):
        with suppress(BadMessage):
            assert isinstance(decode_from_member(bytes_), Ready | Done | Failed)
