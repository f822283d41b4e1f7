"""What the head asks of the processes of a workload, wherever they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from artos.protocol.invocations import Invoke
from triggers.passers import MessagePasser


class Members(Protocol):
    """The processes (or inline parts) of a workload, as the coordinator sees them."""

    @property
    def passers(self) -> Mapping[int, MessagePasser[Invoke]]:
        """What carries invocations to each member, by member number."""

    def waits_for_slot(self, member: int) -> bool:
        """Whether its invocations wait for what is not its own doing, e.g. for a free slot."""

    def unplaced(self, member: int) -> str:
        """What the member waits for, in words, while it has no place to run at; "" if it has."""

    def end(self, member: int) -> None:
        """Kill what is left of the member, so that nobody writes its memory any more.

        A commit that an actor's process was killed in is finished, and its pin is dropped.
        """

    def start(self, member: int) -> None:
        """Empty the member's mailbox and start it anew."""

    def prepare(self, member: int) -> None:
        """Have an actor that takes no part yet, or not any more, ready for its next invocation.

        One that runs for the first time reports ``Ready`` like any other. It is sent nothing before
        this was called. Must not block.
        """

    def retire(self, member: int) -> None:
        """An actor that was prepared gets no more invocations than it has: give back what it holds.

        It may be prepared again. Must not block.
        """
