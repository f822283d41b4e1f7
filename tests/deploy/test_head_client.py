"""A client of a head: which answer is to which request, and what it says where none comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE

from artos.errors import DeadlineExceeded, NoHead, Refused
from artos.protocol import control
from artos.protocol.message import Message, Refusal, Restarted
from artos.transport.handshakes import LinkFault
from artos.transport.keys import make_keys
from artos.transport.messenger import HEAD, Messenger
from deploy.client.head_client import HeadClient


def answer_to(asked: Any) -> control.Answer:
    """What a head answers: the number of actors that was asked for."""
    return control.Answer({"actors": asked.actors}, number=asked.number)


class Link:
    """A messenger to a head, which has ``heard`` requests and ``says`` something to each."""

    def __init__(self) -> None:
        self.says: Callable[[Any], Sequence[Message]] = lambda asked: [answer_to(asked)]
        self.link_fault: LinkFault | None = None
        self.heard: list[Any] = []
        self.waiting: list[Message] = []
        """What the client has not taken yet."""
        self.ring: Any = None

    def send(self, peer: str, message: Message) -> None:
        self.heard.append(message)
        self.waiting += self.says(message)
        self.ring()

    def take(self) -> list[tuple[str, Message]]:
        waiting, self.waiting = self.waiting, []
        return [(HEAD, each) for each in waiting]

    def close(self, seconds: float) -> None: ...


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Link:
    link = Link()

    def connect(head: str, keys: Any, me: str, ring: Any) -> Link:
        link.ring = ring
        return link

    monkeypatch.setattr(Messenger, "connect", connect)
    return link


@pytest.fixture(params=[True, False], ids=["patient", "not patient"])
def client(link: Link, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[HeadClient]:
    make_keys(tmp_path / "keys")
    keys = tmp_path / "keys"
    with HeadClient("tcp://127.0.0.1:1", keys, patient=request.param) as client:
        yield client


def ask(client: HeadClient, actors: int = 3, seconds: float = PATIENCE) -> dict[str, Any]:
    found = client.exchange(control.ScaleRun("mine", actors), seconds)
    return found.data


def test_a_refusal_is_an_answer(client: HeadClient, link: Link) -> None:
    link.says = lambda asked: [Refusal("not understood")]
    with pytest.raises(Refused, match="not understood"):
        ask(client)
    link.says = lambda asked: [answer_to(asked)]
    assert ask(client) == {"actors": 3}


def test_the_refusal_of_a_request_that_was_given_up_is_not_that_of_the_next(
    client: HeadClient, link: Link
) -> None:
    link.says = lambda asked: []
    with pytest.raises(DeadlineExceeded, match=r"busy or stopped.*; ask again"):
        ask(client, seconds=0.1)
    link.says = lambda asked: [Refusal("not understood"), answer_to(asked)]
    assert ask(client) == {"actors": 3}


def test_late_answers_are_to_the_requests_that_were_given_up(
    client: HeadClient, link: Link
) -> None:
    link.says = lambda asked: []
    for actors in (1, 2):
        with pytest.raises(DeadlineExceeded):
            ask(client, actors, seconds=0.1)
    link.says = lambda asked: [answer_to(each) for each in link.heard[::-1]]  # in another order
    assert ask(client, 3) == {"actors": 3}


def test_after_a_restart_between_two_requests_answers_are_to_what_was_asked(
    client: HeadClient, link: Link
) -> None:
    assert ask(client, 1) == {"actors": 1}
    link.waiting.append(Restarted())
    assert [ask(client, actors)["actors"] for actors in (2, 3, 4)] == [2, 3, 4]
    assert [each.actors for each in link.heard] == [1, 2, 3, 4]  # two `stop` end a run at once


def test_after_a_restart_that_is_told_late_answers_are_to_what_was_asked(
    client: HeadClient, link: Link
) -> None:
    ask(client, 1)
    link.says = lambda asked: [Restarted()] * (len(link.heard) == 2) + [answer_to(asked)]
    assert [ask(client, actors)["actors"] for actors in (2, 3, 4)] == [2, 3, 4]


def test_what_cannot_be_sent_now_is_not_sent_later(link: Link, tmp_path: Path) -> None:
    make_keys(tmp_path / "keys")
    with HeadClient("tcp://127.0.0.1:1", tmp_path / "keys", patient=False) as client:
        ask(client, 1)
        link.link_fault = LinkFault.NOBODY
        with pytest.raises(NoHead):
            ask(client, 2)
        link.link_fault = None
        assert ask(client, 3) == {"actors": 3}
    assert [each.actors for each in link.heard] == [1, 3]


def test_a_head_that_does_not_number_its_answers_is_of_another_version(
    client: HeadClient, link: Link
) -> None:
    link.says = lambda asked: [control.Answer({"actors": 9})]
    with pytest.raises(Refused, match="use the ARTOS that the head has"):
        ask(client)


def test_who_submits_again_is_told_to_look_first(client: HeadClient, link: Link) -> None:
    link.says = lambda asked: []
    with pytest.raises(DeadlineExceeded, match=r"look with `artos list` before"):
        client.exchange(control.Submit({}, ""), 0.1)
