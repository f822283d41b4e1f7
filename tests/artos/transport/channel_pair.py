"""Two ends of a channel and a link between them that does as it is told."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import strategies as st

from artos.transport.channel import BEAT, Channel, Envelope

Frame = tuple[Envelope, bytes]


class Pair:
    """Two ends and a link that does as it is told; every message says who put it, and when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lives = [1, 1]
        self.ends = [Channel(1000, "b"), Channel(1000, "a")]
        self.under_way: list[list[Frame]] = [[], []]  # by the end they go to
        self.put_count: dict[tuple[int, int], int] = defaultdict(int)  # by end and life
        self.arrived: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        self.told: list[bool] = []

    def put(self, end: int, padding: int = 0) -> None:
        life = end, self.lives[end]
        text = f"{life[1]} {self.put_count[life]} {'x' * padding}"
        self.ends[end].put(text.encode())
        self.put_count[life] += 1

    def speak(self, end: int) -> None:
        self.under_way[1 - end] += self.ends[end].speak(self.now)

    def deliver(self, end: int, which: int, again: bool = False) -> None:
        if frames := self.under_way[end]:
            which %= len(frames)
            self._hear(end, frames[which] if again else frames.pop(which))

    def lose(self, end: int, which: int) -> None:
        if frames := self.under_way[end]:
            frames.pop(which % len(frames))

    def restart(self, end: int) -> None:
        self.lives[end] += 1
        self.ends[end] = Channel(self.lives[end] * 1000, "x")

    def settle(self) -> None:
        """The link is good from now on; what is still under way arrives, too."""
        for turn in range(2000):
            if turn > 4 and all(end.idle for end in self.ends):
                return
            self.now += BEAT
            for end in (0, 1):
                self.speak(end)
            for end in (0, 1):
                while self.under_way[end]:
                    self.deliver(end, 0)
        pytest.fail("not everything arrived over a good link")

    def _hear(self, end: int, envelope: Envelope) -> None:
        self.told.append(self.ends[end].meet(envelope))
        if message := self.ends[end].hear(envelope, self.now):
            life, number, *_ = map(int, message.split()[:2])
            self.arrived[end, self.lives[end]].append((life, number))


MOVES = st.tuples(
    st.sampled_from(["put", "put", "speak", "speak", "deliver", "deliver", "deliver", "again",
                     "lose", "later", "restart"]),
    st.integers(0, 1), st.integers(0, 20),
)  # fmt: skip


def play(pair: Pair, moves: list[tuple[str, int, int]], restarts: bool) -> None:
    for move, end, number in moves:
        match move:
            case "put":
                pair.put(end, number)
            case "speak":
                pair.speak(end)
            case "deliver" | "again":
                pair.deliver(end, number, again=move == "again")
            case "lose":
                pair.lose(end, number)
            case "later":
                pair.now += number / 10
            case "restart" if restarts:
                pair.restart(end)


def exchange(one: Channel, other: Channel, now: float = 0.0) -> None:
    for _ in range(2):
        for speaker, listener in ((one, other), (other, one)):
            for envelope in speaker.speak(now):
                listener.meet(envelope)
                listener.hear(envelope, now)
