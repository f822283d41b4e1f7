"""What actors hold goes to the node where they go on, and comes back when that one is closed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from remote_head import ONE, STEPS, TWO, Head, sample

from artos.errors import BadMessage
from artos.protocol import steering
from artos.protocol.invocations import Ready
from artos.runtime.held import Held

HELD = steering.HeldState(ONE, 1, content=b"mid-episode")


@pytest.fixture
def head(tmp_path: Path) -> Head:
    """Of a run that goes on: actor 0 held something when the part before ended."""
    Held(b"mid-episode").write(tmp_path / "held-0")
    return Head(tmp_path)


def begun(term: int = 1) -> list[tuple[str, steering.Start]]:
    return [("w1", steering.Start(ONE, term, 0)), ("w2", steering.Start(TWO, term, 0))]


def test_it_comes_before_the_start(head: Head) -> None:
    head.up("w1", "w2")
    head.place({0: "w1", 1: "w2"})
    head.remote.start(ONE)
    head.remote.start(TWO)
    assert head.said() == [("w1", HELD), *begun()]


def test_it_is_sent_until_the_actor_has_taken_it_up(head: Head, tmp_path: Path) -> None:
    """Its first node dies before; from then on it counts no more, whatever becomes of the actor."""
    head.begin()
    head.up("w3")
    head.place({0: "w3", 1: "w2"}, "w1")
    assert head.said() == []
    head.reports()
    head.remote.end(ONE)
    head.remote.start(ONE)
    again = msgspec.structs.replace(HELD, term=2)
    assert head.said() == [("w3", again), ("w3", steering.Start(ONE, 2, 0))]
    head.remote.heard("w1", steering.ActorReport(ONE, 1, Ready(0.1, 1, "cold"), 0))
    assert (tmp_path / "held-0").exists(), "that one was another process"
    head.remote.heard("w3", steering.ActorReport(ONE, 2, Ready(0.1, 1, "cold"), 0))
    assert not (tmp_path / "held-0").exists()
    head.remote.start(ONE)
    assert head.said() == [("w3", steering.Start(ONE, 2, 0))]


def test_once_it_has_sampled_it_counts_no_more(head: Head, tmp_path: Path) -> None:
    """Its node died before it was heard that the actor was ready."""
    head.begin()
    head.call(ONE, sample(7, STEPS))
    head.arrive(0, STEPS)
    head.place({0: "w2", 1: "w2"}, "w1")
    head.reports()
    head.remote.end(ONE)
    head.remote.start(ONE)
    assert head.said()[-1] == ("w2", steering.Start(ONE, 2, STEPS))
    assert not (tmp_path / "held-0").exists()


def test_on_closing_each_node_says_what_its_own_actors_held(head: Head, tmp_path: Path) -> None:
    head.begin()
    with pytest.raises(BadMessage, match="nobody has asked w2"):
        head.remote.heard("w2", steering.HeldState(TWO, 1, content=b"later"))
    head.remote.close(hand_over=True)
    assert [message for _, message in head.said()] == [steering.CloseExecutor(hand_over=True)] * 2
    told = steering.HeldState(TWO, 1, content=b"later")
    head.remote.heard("w1", told)
    assert Held.read(tmp_path / "held-1") is None, "it does not live there"
    head.remote.heard("w2", told)
    head.remote.heard("w1", steering.HeldState(ONE, 1, "cannot pickle 'lock' object"))
    assert Held.read(tmp_path / "held-1") == Held(b"later")
    assert Held.read(tmp_path / "held-0") == Held(why="cannot pickle 'lock' object")


def test_what_is_too_large_to_be_sent_is_not(
    head: Head, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("artos.runtime.held._MOST_SENT", 20)
    head.up("w1")
    head.place({0: "w1"})
    head.remote.start(ONE)
    head.call(ONE, sample(7, STEPS))
    assert [type(message) for _, message in head.said()] == [steering.Start, steering.Call]
    assert "actor 0 starts again: it holds 11 bytes, and 2 actors may send 10 each" in caplog.text
