"""Calls that wait for the weights they are about, in order for each member."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from artos.protocol.invocations import Invoke
from artos.protocol.steering import Call
from triggers.passers import MessagePasser


class VersionGate:
    """Passes a call on once ``version`` says that its weights, or any at all, are here."""

    def __init__(
        self, version: Callable[[], int], passers: Mapping[int, MessagePasser[Invoke]]
    ) -> None:
        self._version, self._passers = version, passers
        self._waiting: dict[int, deque[Call]] = {}

    def send(self, call: Call) -> None:
        """Pass it on as soon as may be, after what the member was sent before."""
        self._waiting.setdefault(call.member, deque()).append(call)
        self._let_pass(call.member)

    def look(self) -> None:
        """There may be newer weights."""
        for member in tuple(self._waiting):
            self._let_pass(member)

    def forget(self, member: int) -> None:
        """What the member was sent is void."""
        self._waiting.pop(member, None)

    def holds(self, member: int) -> bool:
        """Whether the member's calls wait here."""
        return member in self._waiting

    def _let_pass(self, member: int) -> None:
        calls, here = self._waiting[member], self._version()
        while calls and here >= max(0, calls[0].version):
            self._passers[member].pass_message(calls.popleft().call)
        if not calls:
            del self._waiting[member]
