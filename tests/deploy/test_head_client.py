"""A client of a head: which answer is to which request, and what it says where none comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers import PATIENCE

from artos.errors import DeadlineExceeded, Refused
from artos.protocol import control
from artos.protocol.message import Message, Refusal
from artos.transport.keys import make_keys
from artos.transport.messenger import HEAD, Messenger
from deploy.client.head_client import HeadClient

ANSWER = control.Answer(data={"actors": 3})


class Link:
    """A messenger to a head that says, to each request, what comes next in ``says``."""

    link_fault = None

    def __init__(self) -> None:
        self.says: list[Sequence[Message]] = []
        self._heard: list[Message] = []
        self.ring: Any = None

    def send(self, peer: str, message: Message) -> None:
        self._heard += self.says.pop(0)
        self.ring()

    def take(self) -> list[tuple[str, Message]]:
        heard, self._heard = self._heard, []
        return [(HEAD, each) for each in heard]

    def close(self, seconds: float) -> None: ...


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Link:
    link = Link()

    def connect(head: str, keys: Any, me: str, ring: Any) -> Link:
        link.ring = ring
        return link

    monkeypatch.setattr(Messenger, "connect", connect)
    return link


@pytest.fixture
def client(link: Link, tmp_path: Path) -> Iterator[HeadClient]:
    make_keys(tmp_path / "keys")
    with HeadClient("tcp://127.0.0.1:1", tmp_path / "keys") as client:
        yield client


def ask(client: HeadClient, seconds: float = PATIENCE) -> dict[str, Any]:
    found = client.exchange(control.ScaleRun("mine", 3), seconds)
    return found.data


def test_a_refusal_is_an_answer(client: HeadClient, link: Link) -> None:
    link.says = [[Refusal("not understood")], [ANSWER]]
    with pytest.raises(Refused, match="not understood"):
        ask(client)
    assert ask(client) == {"actors": 3}


def test_the_refusal_of_a_request_that_was_given_up_is_not_that_of_the_next(
    client: HeadClient, link: Link
) -> None:
    link.says = [[], [Refusal("not understood"), ANSWER]]
    with pytest.raises(DeadlineExceeded, match=r"busy or stopped.*; ask again"):
        ask(client, 0.1)
    assert ask(client) == {"actors": 3}


def test_who_submits_again_is_told_to_look_first(client: HeadClient, link: Link) -> None:
    link.says = [[]]
    with pytest.raises(DeadlineExceeded, match=r"look with `artos list` before"):
        client.exchange(control.Submit({}, ""), 0.1)
