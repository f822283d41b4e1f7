"""Which way actors are spawned: early, by the best strategy, by the next one if that fails."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from artos.clock import ManualClock
from artos.errors import TemplateFailed
from artos.protocol.invocations import FromMember
from artos.specs.members import Member
from artos.system.child import Child
from workers.actors.spawners.spawner import Kind, Spawned, Spawner
from workers.host.slots import Slot


def spawned(member: Member, kind: Kind) -> Spawned:
    return Spawned(member, Child(os.getpid(), Path(os.devnull)), kind)


class Way:
    """Makes what it is asked for as soon as it is ready, or fails."""

    def __init__(self, kind: Kind, *, ready: bool = True, fails: bool = False) -> None:
        self.kind, self.ready, self.fails = kind, ready, fails
        self.optional = False
        self.asked: list[int] = []
        self.refusals = 0

    def __call__(self) -> Way:
        return self

    def request(self, member: Member, slot: Slot | None) -> None:
        del slot
        self.refusals -= 1
        if self.refusals >= 0:
            raise BlockingIOError(errno.EAGAIN, "too many processes")
        self.asked.append(member)

    def heard(self, message: FromMember) -> None:
        del message

    def poll(self) -> list[Spawned]:
        if self.fails:
            raise TemplateFailed(self.kind, "not for this one")
        asked, self.asked = (self.asked, []) if self.ready else ([], self.asked)
        return [spawned(member, self.kind) for member in asked]

    def close(self) -> None:
        pass


class First:
    """Makes the first two of what it is asked for."""

    def __init__(self, *, others: bool) -> None:
        self.others, self.left = others, 2

    def spawn(self, member: Member) -> Spawned | None:
        self.left -= 1
        return spawned(member, "fork") if self.left >= 0 else None


def kinds(spawner: Spawner) -> list[tuple[int, Kind]]:
    return [(each.member, each.kind) for each in spawner.poll()]


@pytest.mark.parametrize("others", [True, False])
def test_the_first_actors_do_not_wait_for_the_template(others: bool) -> None:
    made: list[Way] = []
    way = Way("clone", ready=False)

    def strategy() -> Way:
        made.append(way)
        return way

    spawner = Spawner([strategy], First(others=others))
    spawner.request(1)
    spawner.request(2)
    assert kinds(spawner) == [(1, "fork"), (2, "fork")]
    assert len(made) == others, "made ahead only if there may be others"
    spawner.request(3)
    assert kinds(spawner) == []
    way.ready = True
    assert kinds(spawner) == [(3, "clone")]
    assert len(made) == 1


def test_once_the_strategy_has_made_one_nobody_is_spawned_early() -> None:
    first = First(others=True)
    first.left = 1
    spawner = Spawner([Way("clone")], first)
    spawner.request(1)
    spawner.request(2)
    assert kinds(spawner) == [(1, "fork"), (2, "clone")]
    first.left = 1
    spawner.request(3)
    assert kinds(spawner) == [(3, "clone")]


def test_who_was_spawned_early_is_not_made_again_by_the_next_strategy() -> None:
    first = First(others=True)
    first.left = 1
    spawner = Spawner([Way("clone", fails=True), Way("cold")], first)
    spawner.request(1)
    spawner.request(2)
    assert kinds(spawner) == [(1, "fork"), (2, "cold")]


def test_few_are_set_up_at_once() -> None:
    spawner = Spawner([Way("clone")], most=2)
    for member in (1, 2, 3, 4, 5):
        spawner.request(member)
    assert kinds(spawner) == [(1, "clone"), (2, "clone")]
    assert kinds(spawner) == []
    spawner.ready(2)
    assert kinds(spawner) == [(3, "clone")]
    spawner.withdraw(4)
    spawner.withdraw(1)
    assert kinds(spawner) == [(5, "clone")], "who died, or is not wanted any more, holds no place"
    spawner.request(6)
    spawner.request(7)
    spawner.hurry(7)
    spawner.ready(5)
    assert kinds(spawner) == [(7, "clone")], "it is needed now"
    spawner.close()
    spawner.ready(3)
    assert kinds(spawner) == [], "nothing is begun at the end"


def test_a_template_may_be_made_before_anybody_is_asked_for() -> None:
    way = Way("clone", ready=False)
    spawner = Spawner([Way("fork", fails=True), way])
    assert not spawner.warm
    spawner.warm_up()
    assert kinds(spawner) == []
    assert not spawner.warm
    way.ready = True
    assert spawner.warm, "the next strategy, as the first one failed"
    spawner.request(1)
    assert kinds(spawner) == [(1, "clone")]


@pytest.mark.parametrize("optional", [True, False])
def test_only_a_strategy_for_every_environment_is_missed(
    optional: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    way = Way("fork", fails=True)
    way.optional = optional
    spawner = Spawner([way, Way("clone")])
    spawner.request(1)
    assert kinds(spawner) == [(1, "clone")]
    assert ("started by clone instead" in caplog.text) is not optional


def test_what_the_system_does_not_make_is_tried_again_after_a_pause() -> None:
    way, clock = Way("cold"), ManualClock()
    way.refusals = 2
    spawner = Spawner([way], clock=clock)
    for member in (1, 2):
        spawner.request(member)
    assert kinds(spawner) == [], "one try for both: the other one would fail as well"
    clock.advance(1.1)
    assert kinds(spawner) == []
    clock.advance(1.1)
    assert kinds(spawner) == [(1, "cold"), (2, "cold")]
    assert spawner.given_up() == {}


def test_what_is_never_made_is_given_up_and_holds_up_nobody() -> None:
    way, clock = Way("cold"), ManualClock()
    way.refusals = 5
    spawner = Spawner([way], clock=clock)
    spawner.request(1)
    spawner.request(2)
    for _ in range(4):
        assert kinds(spawner) == []
        clock.advance(1.1)
    assert kinds(spawner) == []
    assert [*spawner.given_up()] == [1]
    clock.advance(1.1)
    assert kinds(spawner) == [(2, "cold")]
    assert spawner.given_up() == {}


def test_a_template_that_cannot_be_started_is_done_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def strategy() -> Way:
        raise OSError(errno.EMFILE, "too many files")

    spawner = Spawner([strategy, Way("fork", fails=True), strategy, Way("cold")])
    spawner.request(1)
    assert kinds(spawner) == [(1, "cold")]
    assert caplog.text.count("too many files") == 2
