"""Where the replay buffer takes an actor's rows from."""

from __future__ import annotations

from pathlib import Path

from remote_head import ONE, Head


class Homes(Head):
    """Remembers what the replay buffer was told."""

    def __init__(self, folder: Path) -> None:
        self.homes: dict[int, str] = {}
        super().__init__(folder)

    def _terms(self, terms: dict[int, int], bases: dict[int, int], nodes: dict) -> None:
        self.homes |= nodes
        super()._terms(terms, bases, nodes)


def test_the_replay_buffer_knows_where_an_actor_is_before_anybody_there_does(
    tmp_path: Path,
) -> None:
    head = Homes(tmp_path)
    assert head.homes == {0: "", 1: ""}
    head.up("w1", "w2")
    at_start: list[dict[int, str]] = []
    send = head.send
    head.send = lambda *what: (at_start.append(dict(head.homes)), send(*what))[1]
    head.place({0: "w1", 1: "w2"})
    head.remote.start(ONE)
    assert at_start == [{0: "w1", 1: "w2"}]
    head.place({0: "w2", 1: "w2"}, "w1")
    assert head.homes == {0: "w2", 1: "w2"}
