"""Which role may say what, and which key may have which name."""

from __future__ import annotations

import pytest

from artos.errors import NotAllowed
from artos.protocol import codec, control
from artos.transport import authorizer
from artos.transport.authorizer import Authorizer
from artos.transport.roles import (
    ANY,
    SAYS,
    Holder,
    KeyRole,
    Register,
    forbidden,
    foreign,
    holder_of,
)

ANN, W1, W2 = Holder(KeyRole.USER, "ann"), Holder(KeyRole.NODE, "w1"), Holder(KeyRole.NODE, "w2")
R1 = Holder(KeyRole.RUN, "r1")
KEYS = {"ann": ANN, "w1": W1, "any": ANY, "r1": R1}

USERS = {
    "Submit", "Archive", "ListRuns", "ReadStatus", "ReadLogs", "ReadLimits", "ScaleRun", "SetRun",
    "StopRun", "DrainNode", "UndrainNode", "ReclaimNode", "ListFiles", "ReadFile",
}  # fmt: skip
NODES = {
    "Hello", "Load", "ExecutorEnded", "Leaving", "Bye", "FetchArchive", "LogPiece",
    "Shares", "RunEnded", "MemoryHere",
    "ExecutorUp", "ActorReport", "Died", "Packed", "ReadPiece", "BundlePiece", "BundleRejected",
    "ExecutorNews", "ExecutorLog", "HeldState", "ActorBranched", "ExecutorClosed", "Greet", "Chunk",
    "Pull", "AnswersPiece",
}  # fmt: skip
RUNS = {"RunUp", "RunNews", "RunScaled", "RunSet"}
EVERYBODY = {"Refusal"}
KINDS = {kind.__name__: kind for kind in codec.TYPES}


@pytest.mark.parametrize("name", KINDS)
def test_every_message_by_every_role(name: str) -> None:
    """Spelled out a second time: a message that is new is nobody's until somebody decides."""
    for role, may in ((KeyRole.USER, USERS), (KeyRole.NODE, NODES), (KeyRole.RUN, RUNS)):
        why = forbidden(role, KINDS[name])
        assert (why == "") == (name in may | EVERYBODY)
        if why:
            assert f"a {role.value} may not send {name}" in why


def test_roles_share_nothing_and_who_may_is_named() -> None:
    assert len(frozenset().union(*SAYS.values())) == sum(map(len, SAYS.values()))
    assert "--user NAME" in forbidden(KeyRole.NODE, control.Submit)
    assert "--node NAME" in forbidden(KeyRole.USER, control.Hello)
    assert "artos keys" not in forbidden(KeyRole.USER, control.RunUp)


@pytest.mark.parametrize(
    ("peer", "holder"),
    [("w1", W1), ("w1/weights", W1), ("w1/4f2a", W1), ("user:ann", ANN), ("user:ann/1", ANN),
     ("run:r1", R1), ("run:r1/3", R1), ("run:", None),
     ("w1.a", Holder(KeyRole.NODE, "w1.a")), ("user", Holder(KeyRole.NODE, "user")), ("", None),
     ("/x", None), ("w1/", None), ("w1/a/b", None), ("user:", None), ("ann:x", None),
     ("w1\n", None), ("w1#a", None), ("../w1", None), ("w" * 129, None)],
)  # fmt: skip
def test_whom_a_name_is_of(peer: str, holder: Holder | None) -> None:
    assert holder_of(peer) == holder
    if holder is not None:
        assert holder_of(holder.peer) == holder


@pytest.mark.parametrize(
    ("key", "peer", "may"),
    [("w1", "w1", True), ("w1", "w1/weights", True), ("w1", "w2", False), ("w1", "any", False),
     ("w1", "w1.a", False), ("w1", "user:ann", False), ("w1", "user:w1", False),
     ("ann", "user:ann/1", True), ("ann", "ann", False), ("ann", "user:bob", False),
     ("any", "w2", True), ("any", "w2/weights", True), ("any", "any", True),
     ("any", "w1", False), ("any", "w1/weights", False), ("any", "user:ann", False),
     ("any", "user:bob", False), ("r1", "run:r1/2", True), ("r1", "run:r2/2", False),
     ("r1", "r1", False), ("any", "run:r1/1", False), ("w1", "run:w1", False),
     ("gone", "w2", False), ("w1", "", False)],
)  # fmt: skip
def test_a_key_carries_its_name(key: str, peer: str, may: bool) -> None:
    assert (Register(KEYS).misnamed(key, peer) == "") == may


def test_a_node_speaks_for_itself() -> None:
    assert not foreign("w1/4f", "w1")
    for peer, node in (("w1/4f", "w2"), ("user:w1", "w1"), ("w1", "w1/4f"), ("", "")):
        assert foreign(peer, node)


# -- names that are taken --------------------------------------------------------------------------


def test_the_first_key_of_a_living_name_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of the common key got one of its own: it goes on, and its next life has the new."""
    monkeypatch.setattr(authorizer, "_LIVES", 15.0)
    keys = {"any": ANY}
    known = Authorizer(lambda: Register(keys))
    assert not known.claim("w2", "any", 0.0)
    keys["w2"] = W2
    for now in (10.0, 20.0):
        assert not known.claim("w2", "any", now)
    with pytest.raises(NotAllowed, match="a live peer with another key"):
        known.claim("w2", "w2", 34.0)
    assert known.claim("w2", "w2", 35.0)
    with pytest.raises(NotAllowed, match="key of node any and not of node w2"):
        known.claim("w2", "any", 99.0)


def test_a_name_whose_key_was_revoked_is_free_at_once() -> None:
    keys = {"w1": W1}
    known = Authorizer(lambda: Register(keys))
    known.claim("w1", "w1", 0.0)
    keys.clear()
    keys["new"] = W1
    assert not known.knows("w1")
    assert known.claim("w1", "new", 0.0)
    assert known.knows("w1")


def test_what_a_node_is_called_does_not_make_it_a_user() -> None:
    known = Authorizer(lambda: Register({"key": Holder(KeyRole.NODE, "ann"), "ann": ANN}))
    known.claim("ann", "key", 0.0)
    known.claim("user:ann", "ann", 0.0)
    known.permit("user:ann", control.ListRuns())
    with pytest.raises(NotAllowed, match="ListRuns"):
        known.permit("ann", control.ListRuns())
    with pytest.raises(NotAllowed, match="not of user ann"):
        known.claim("user:ann", "key", 99.0)


def test_names_are_bounded_and_those_of_the_silent_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(authorizer, "_MOST_NAMES", 2)
    known = Authorizer(lambda: Register(KEYS))
    for name in ("a", "b"):
        known.claim(name, "any", 0.0)
    with pytest.raises(NotAllowed, match="2 names"):
        known.claim("c", "any", 1.0)
    known.claim("b", "any", 10.0)
    assert not known.claim("c", "any", 16.0)
    assert [known.knows(name) for name in ("a", "b", "c")] == [False, True, True]


def test_one_key_does_not_take_all_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer, "_MOST_OF_A_KEY", 2)
    known = Authorizer(lambda: Register(KEYS))
    for name in ("a", "b"):
        known.claim(name, "any", 0.0)
    with pytest.raises(NotAllowed, match="this key has 2 names"):
        known.claim("c", "any", 1.0)
    known.claim("user:ann", "ann", 1.0)
    assert not known.claim("c", "any", 16.0), "the silent ones gave way"


def test_without_keys_everybody_may_do_anything() -> None:
    known = Authorizer()
    assert known.accepts("")
    assert not known.claim("run-1", "", 0.0)
    assert known.knows("run-1")
    known.permit("run-1", control.RunUp("r", 1, 1, b"", "", "", "", 1))
