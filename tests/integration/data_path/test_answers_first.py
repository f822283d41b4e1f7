"""What servers on a node answered is in the run's records before the rows that were made from it.

The link loses, repeats and reorders; servers, the agent and the replay process begin anew.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from artos.errors import BadMessage
from artos.protocol import codec
from artos.protocol.data import AnswersPiece, AnswersTaken, Greet
from artos.runs.answers import Answers, AnswersFile, files
from artos.runs.plan import Plan, Site
from artos.runs.run_config import CONFIG
from artos.runs.tape import FOLDER
from artos.specs.keys import DataKey
from artos.specs.members import LEARNER, Member
from artos.specs.reference import Reference
from artos.specs.servers import ServerSpec
from head.replay.answers import KeptAnswers
from workers.agent.answers import PIECE, WINDOW, AnswersSent

SERVERS = ("sums", "marks")
KEYS = (DataKey("sum", (3,)),)
ME = "w1"
PLAN = Plan(
    Reference("nobody:nothing"), "told", "none", 0, 1, 2, 4, 8, "wait", 10**9, (), (), (), {}, {},
    servers=tuple(ServerSpec(name, (), KEYS, 4) for name in SERVERS), resumes=1,
)  # fmt: skip


class World:
    """A node with two servers, their agent, a link, and the replay process of a run."""

    def __init__(self, tmp: Path, most_bytes: int = 1 << 30, *, checks: bool = True) -> None:
        self.run, self.node = tmp / "run", tmp / "artos.run.w1.0123456789abcdef"
        for folder in (self.run / "logs", self.node):
            folder.mkdir(parents=True)
        (self.run / CONFIG).touch()
        self.site = Site(str(tmp), Member(LEARNER), PLAN.members, str(self.run / "logs"))
        self.most, self.greeting, self.checks = most_bytes, 0, checks
        self.to_head: list[Any] = []
        self.to_node: list[AnswersTaken] = []
        self.asked = dict.fromkeys(SERVERS, 0)
        self.servers: dict[str, AnswersFile] = {}
        self.head = KeptAnswers(PLAN, self.site, self.most)
        self.agent = AnswersSent(self.node, SERVERS)
        for name in SERVERS:
            self.start(name)

    def start(self, name: str) -> None:
        """A process of a server begins; one before it was killed, perhaps as it wrote."""
        if name in self.servers:
            self.servers[name].append(b"\x07" * 5)
            self.servers[name].close()
        self.servers[name] = AnswersFile.begin(self.node, PLAN.servers[SERVERS.index(name)])

    def answer(self, name: str, requests: int = 1) -> None:
        """It answers the next requests."""
        self.asked[name] += requests
        last = self.asked[name]
        numbers = np.arange(last - requests, last) + 1
        sums = np.repeat(numbers.astype(np.float32), 3).reshape(-1, 3)
        ones = np.ones(requests, np.int64)
        self.servers[name].write((0 * ones, numbers, ones), {"sum": sums}, last)

    def greet(self) -> None:
        """The agent begins anew with what has not arrived."""
        self.greeting += 1
        self.to_head.append(Greet(ME, 1, {}, self.greeting, self.agent.greet()))

    def ship(self) -> None:
        """A turn of the agent; rows, if there may be any, say what there had been by then."""
        before = dict(self.asked)
        if self.agent.look():
            self.greet()
        while (piece := self.agent.next_piece()) is not None:
            assert len(piece.content) <= PIECE
            self.to_head.append(piece)
        if not self.agent.behind:
            self.to_head.append((self.agent.sent, before))

    def deliver(self, at: int = 0) -> None:
        """The head is handed something."""
        match self.to_head.pop(at):
            case Greet() as greet:
                self.to_node += self.head.greet(ME, greet)
            case AnswersPiece() as piece:
                if not self.head.take(ME, piece):
                    number, process = piece.server, piece.process
                    self.to_node.append(AnswersTaken(process, self.head.taken(ME, number, process)))
            case (answered, before):
                if self.head.has(ME, answered) and self.checks:
                    self.check(before)

    def hear(self) -> None:
        """So is the agent."""
        self.agent.take_report(self.to_node.pop(0), self.greeting)

    def settle(self) -> None:
        """Until nothing is under way."""
        self.greet()
        is_under_way = True
        while is_under_way:
            self.ship()
            is_under_way = self.agent.behind or self.agent.waits
            while self.to_head:
                self.deliver()
            while self.to_node:
                self.hear()

    def answers(self, name: str) -> Answers:
        """What a replay finds."""
        found = Answers()
        for path in files(self.run, name):
            assert found.add(path, 1, KEYS)
        return found

    def check(self, asked: dict[str, int]) -> None:
        """All of that is there."""
        for name, most in asked.items():
            found = self.answers(name)
            for number in {*range(1, most + 1, 1 + most // 500), most} - {0}:
                told = found.get(0, number)
                assert told is not None, (name, number)
                assert told.arrays["sum"].tolist() == [[number] * 3]

    def close(self) -> None:
        """Close all files."""
        for each in (self.head, self.agent, *self.servers.values()):
            each.close()


@pytest.fixture
def world(tmp_path: Path) -> Any:
    world = World(tmp_path)
    yield world
    world.close()


@pytest.mark.parametrize("seed", range(40))
def test_rows_never_come_before_what_they_were_made_from(seed: int, world: World) -> None:
    chance = random.Random(seed)

    def lose() -> None:
        if world.to_head:
            world.to_head.pop(chance.randrange(len(world.to_head)))

    def overtake() -> None:
        if world.to_head:
            world.deliver(chance.randrange(len(world.to_head)))

    def repeat() -> None:
        if world.to_head:
            world.to_head.append(chance.choice(world.to_head))

    def new_agent() -> None:
        world.agent.close()
        world.agent = AnswersSent(world.node, SERVERS)
        world.to_node.clear()

    def new_head() -> None:
        world.head.close()
        world.head = KeptAnswers(PLAN, world.site)

    often = [
        lambda: world.answer(chance.choice(SERVERS), chance.randrange(1, 9)),
        world.ship,
        lambda: world.deliver() if world.to_head else None,
        lambda: world.hear() if world.to_node else None,
    ]
    seldom = [lambda: world.start(chance.choice(SERVERS)), world.greet, lose, overtake, repeat,
              new_agent, new_head]  # fmt: skip
    for _ in range(300):
        chance.choice(often if chance.random() < 0.85 else seldom)()
    world.settle()
    world.check(world.asked)
    for name in SERVERS:
        left = sorted(world.node.glob(f"{name}-*.answers"))
        assert len(left) == 1, "what has arrived of those before it takes no room"


def test_what_has_arrived_takes_no_room_on_the_node(world: World) -> None:
    """However much it is, little is under way at a time."""
    world.checks = False
    for _ in range(8):
        world.answer("sums", 20_000)
        world.settle()
    (file,) = world.node.glob("sums-*.answers")
    assert file.stat().st_size > 4 * WINDOW
    assert file.stat().st_blocks * 512 <= 2 * WINDOW
    world.answer("sums", 60_000)
    world.ship()
    sent = [each for each in world.to_head if isinstance(each, AnswersPiece)]
    assert sum(len(each.content) for each in sent) <= WINDOW
    assert not any(isinstance(each, tuple) for each in world.to_head), "so rows wait"
    assert (world.agent.behind, world.agent.waits) == (True, True)
    world.settle()
    world.check(world.asked)


def test_a_server_that_was_not_asked_has_a_file(world: World) -> None:
    """So it is known that what it answers would be recorded; also in the next life of the head."""
    world.head.close()
    world.head = KeptAnswers(PLAN, world.site)
    assert [file.name for file in files(world.run, "sums")] == ["sums-0.answers"]
    assert world.answers("sums").get(0, 1) is None


@pytest.mark.parametrize("why", ["it is full", "it is read-only", "it is lost"])
def test_a_run_goes_on_where_it_cannot_be_recorded(
    why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once."""
    world = World(tmp_path, most_bytes=400 if why == "it is full" else 1 << 30, checks=False)
    world.answer("sums")
    world.settle()
    if why == "it is read-only":
        for name in SERVERS:
            world.start(name)
        (world.run / FOLDER).rename(world.run / "elsewhere")
        (world.run / FOLDER).touch()
    if why == "it is lost":
        last = files(world.run, "sums")[-1]
        last.write_bytes(last.read_bytes()[:-1])
        world.head.close()
        world.head = KeptAnswers(PLAN, world.site)
    for _ in range(3):
        for name in SERVERS:
            world.answer(name, 9)
        world.settle()
    (said,) = caplog.messages
    assert said.startswith("what servers answer is not recorded from here on: ")
    if why == "it is full":
        found = world.answers("sums")
        assert found.get(0, 1) is not None
        assert found.get(0, world.asked["sums"]) is None
    world.close()


def test_who_is_no_server_is_refused(world: World) -> None:
    """And nobody can write of a process of another node."""
    for server in (len(SERVERS), 2**31 - 1):
        with pytest.raises(BadMessage, match="has no server"):
            world.head.take(ME, AnswersPiece(server, "x", 0, memoryview(b"abc")))
    assert world.head.take("w2", AnswersPiece(0, "0-0.f", 0, memoryview(b"abc"))) == ""
    assert world.head.take(ME, AnswersPiece(0, "0-0.f", 3, memoryview(b"abc"))) == "gap"
    assert world.head.take("w2", AnswersPiece(0, "0-0.f", 0, memoryview(b"abc"))) == "repeated"
    assert [*world.head.greet("w3", Greet("w3", 1, {}, 7, ((99, "a", 5), (0, "b", 0))))] == [
        AnswersTaken("a", 0, 7), AnswersTaken("b", 0, 7),
    ]  # fmt: skip
    for _ in range(1200):
        for process in ("a", "b"):
            world.head.take("w4", AnswersPiece(1, process, 0, memoryview(b"abc")))
    assert len(files(world.run, "marks")) < 1010


def test_a_name_that_leaves_the_folder_is_none() -> None:
    piece = AnswersPiece(0, "../x", 0, memoryview(b"abc"))
    for message in (piece, Greet(ME, 1, {}, 1, ((0, "a/b", 1),))):
        with pytest.raises(BadMessage):
            codec.decode(codec.encode(message))
    good = msgspec.structs.replace(piece, process="0-0.f")
    assert bytes(codec.decode(codec.encode(good)).content) == b"abc"
