"""An executor has actors branched as the run asks, and answers whatever becomes of them."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from host_fixture import ONE, TWO, Host

from artos.errors import BadMessage
from artos.protocol import steering
from artos.protocol.invocations import Branch, Branched
from artos.protocol.message import Message
from artos.specs.members import Member
from workers.actors.actor_record import State
from workers.executor.executor import Executor
from workers.executor.node_branches import NodeBranches

CPUS = (2, 5)
ORDER = Branch("/elsewhere/branch-7", 2, seed=3)


class There:
    """An executor of which the process manager is there, with actor 0 at work and no actor 1."""

    def __init__(self, folder: Path) -> None:
        self.host = host = Host(folder, actors=2, slots=1, park="auto")
        host.up(ONE)
        self.told: list[Message] = []
        self.stays: list[Member] = []
        executor: Any = Executor.__new__(Executor)
        executor._board = SimpleNamespace(members=host.site.members)
        executor._node = SimpleNamespace(blocks={0: None, 1: None}, site=host.site)
        executor._gate = SimpleNamespace(forget=lambda _: None)
        executor._servers, executor._members_here = set(), {ONE}
        executor._actors = host.manager
        executor._migration = SimpleNamespace(
            forget=lambda _: None, remove_bundle=self.stays.append
        )
        branches = host.manager.branches
        executor._branches = NodeBranches(branches, host.site, CPUS, self.told.append)
        self.executor = executor

    def ask(self, member: Member = ONE, weights: bytes = b"") -> None:
        self.executor._obey(steering.BranchActor(member, 7, ORDER, weights))

    @property
    def answer(self) -> Any:
        (message,) = self.told
        assert isinstance(message, steering.ActorBranched)
        assert message.number == 7
        return json.loads(message.content)


@pytest.fixture
def there(tmp_path: Path) -> Iterator[There]:
    made = There(tmp_path)
    yield made
    made.host.manager.stop(0.0)


def test_the_order_is_carried_out_with_what_there_is_here(there: There) -> None:
    there.ask()
    ((member, order),) = there.host.delivered
    assert member == ONE
    assert isinstance(order, Branch)
    assert Path(order.file).parent == Path(there.host.site.folder)
    assert (order.cpus, order.times, order.seed) == (CPUS, 2, 3)
    assert there.stays == [ONE]
    there.host.say(ONE, Branched("fork", 0, 64, 7))
    assert (there.answer["row"], len(there.answer["children"])) == (64, 2)


def test_weights_that_come_with_it_are_here_until_it_is_over(there: There) -> None:
    there.ask(weights=b"theirs")
    ((_, order),) = there.host.delivered
    assert isinstance(order, Branch)
    assert Path(order.sent).read_bytes() == b"theirs"
    there.host.say(ONE, Branched("fork", 0, 64, 7))
    assert len(there.answer["children"]) == 2
    assert not Path(order.sent).exists()


def test_weights_that_find_no_room_are_told(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    there.ask(weights=b"theirs")
    assert there.answer["fault"].startswith("no room for the weights in")
    assert there.host.delivered == []


def test_an_actor_that_is_not_here_is_not_made(there: There) -> None:
    there.ask(TWO)
    assert "actor 1 has no process there" in there.answer["fault"]
    assert there.host.state(TWO) is State.COLD
    with pytest.raises(BadMessage, match="an executor runs actors"):
        there.ask(Member("learner"))


def ended(there: There) -> None:
    there.executor._take_down(steering.End(ONE))
    there.host.manager.step()
    assert there.host.state(ONE) is State.COLD
    assert not there.host.strategy.asked, "no process is made for it"


def closed(there: There) -> None:
    there.host.manager.stop(0.0)


@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.parametrize("what", [ended, closed])
def test_an_order_is_answered_whatever_becomes_of_its_actor(
    what: Callable[[There], None], heard: bool, there: There
) -> None:
    if not heard:
        there.host.manager.moves.image_of(ONE)
        assert there.host.state(ONE) is State.DUMPING
    there.ask()
    assert len(there.host.delivered) == heard
    what(there)
    assert "ended before" in there.answer["fault"]
