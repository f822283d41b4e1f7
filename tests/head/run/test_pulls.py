"""Pulls of weights do not pile up in front of an actor that is busy, and none comes too late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from named import acting

from artos.protocol.invocations import Invoke
from head.run.concerns.binding import Binding
from head.run.coordination.books import Invocations

ACTOR = 1
(MEMBER,) = acting(ACTOR)


class Play:
    """An actor that does what it is told in order, while versions are published."""

    def __init__(self) -> None:
        self.books = Invocations()
        self.held = {ACTOR: 0}
        self.binding = Binding(self.held, (), each_round=False)
        self.sent: list[Invoke] = []
        self.begun = self.answered = 0
        self.version = self.bound = self.number = 0
        self.wanted = 0
        self.due: dict[int, int] = {}
        self.bounds: list[int] = []

    def _send(self, call: Invoke | None) -> None:
        if call is not None:
            self.sent.append(call)
            self.books.add(MEMBER, call, 0.0)

    def ask(self) -> None:
        self.number += 1
        self.wanted = self.version
        pull = Invoke(self.number, "actors.sync", "sync")
        self._send(self.binding.pull(ACTOR, pull, self.books.last(MEMBER)))

    def grant(self) -> None:
        self.number += 1
        self.due[self.number] = self.wanted
        call = Invoke(self.number, "actors.sample", "sample", (), 4, bind=False)
        self._send(self.binding.before_round(ACTOR))
        self._send(call)

    def act(self) -> None:
        """The actor does the next thing; nobody has heard of it yet."""
        if self.begun < len(self.sent):
            call = self.sent[self.begun]
            self.begun += 1
            if call.bind:
                self.bound = self.version
            if call.stop:
                assert self.bound >= self.due[call.firing], "weights older than were asked for"
            self.bounds.append(self.bound)

    def hear(self) -> None:
        if self.answered < self.begun:
            call = self.books.answer(MEMBER, self.sent[self.answered].firing)
            assert call is not None
            self.answered += 1
            self.held[ACTOR] = self.bounds[self.answered - 1]
            last = self.books.last(MEMBER)
            self._send(self.binding.answered(ACTOR, self.version, last))

    def publish(self) -> None:
        self.version += 1


def test_a_busy_actor_is_asked_once() -> None:
    there = Play()
    there.grant()
    for _ in range(1000):
        there.publish()
        there.ask()
    assert [call.method for call in there.sent] == ["sample", "sync"]
    there.act()
    there.act()
    there.hear()
    there.hear()
    assert (there.bound, len(there.sent)) == (1000, 2), "the one it made was the newest"


def test_one_that_was_made_too_early_is_made_again() -> None:
    there = Play()
    there.ask()
    there.act()
    there.publish()
    there.ask()
    assert len(there.sent) == 1
    there.hear()
    assert len(there.sent) == 2
    there.act()
    assert there.bound == 1


def test_a_round_is_not_granted_before_the_pull_that_was_asked_for_first() -> None:
    there = Play()
    there.ask()
    there.act()
    there.publish()
    there.ask()
    there.grant()
    assert [call.method for call in there.sent] == ["sync", "sync", "sample"]


@given(st.lists(st.sampled_from(["ask", "grant", "act", "hear", "publish"]), max_size=60))
def test_no_round_has_older_weights_than_were_asked_for(steps: list[str]) -> None:
    there = Play()
    for step in steps:
        getattr(there, step)()
        rounds = sum(bool(call.stop) for call in there.sent[there.answered :])
        waiting = len(there.sent) - there.answered
        assert waiting <= 1 + 3 * rounds, "however often somebody asks"
    while there.answered < len(there.sent):
        there.act()
        there.hear()
    assert there.bound >= there.wanted
