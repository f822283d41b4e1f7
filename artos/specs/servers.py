"""What ARTOS asks of a role that answers: central inference, a reward model, a judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from artos.specs.keys import ANSWER, DataKey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from artos.specs.contracts import Actor


class ServerSpec(msgspec.Struct, frozen=True):
    """A server as plain data: what a request of ``rows`` rows at most holds, and its answer."""

    name: str
    asks: tuple[DataKey, ...]
    answers: tuple[DataKey, ...]
    rows: int
    seats: int = 1
    """Requests that one actor may have under way at once."""
    of: str = ""
    """Whose weights it answers by; "" if by none."""
    threads: int = 1
    device: str = "cpu"
    batch: int = 1
    wait: float = 0.0

    @property
    def target(self) -> str:
        """What a table calls it."""
        return f"{self.name}.{ANSWER}"


@dataclass(frozen=True)
class ServerContext:
    """A server's place in a run: its own name, the run's seed, and the actor of the workload."""

    name: str
    actor: Actor
    seed: int
    device: str = "cpu"
    """As torch names it."""


class Server:
    """The answering role: one process, which answers what actors ask it for, many at a time.

    Write ``asks``, ``answers`` and ``answer``; everything else has a default. A server keeps
    nothing of an actor from one request to the next: one that was killed is started again, and
    answers what it had not answered. What belongs to an actor, such as a recurrent state, comes
    with the request.

    Requests are answered together as the trigger ``"NAME.answer"`` of the table says. Without such
    a line it is ``RequestTrigger(batch, wait)``: once there are ``batch`` of them, or ``wait``
    seconds after the first.
    """

    batch: int = 1
    wait: float = 0.0
    threads: int = 1
    """Threads that its process computes with."""
    device: str = "cpu"
    """Where it computes: ``"cpu"``, ``"cuda:N"``, or ``"pool"``, where it leases a device."""
    on_devices: bool = False
    """Whether it computes on ``context.device``, whatever that is."""
    reads_weights: bool = False
    """Whether it answers by the newest version of weights, which ``bind`` then gets."""
    of: str = ""
    """The learner whose weights these are; "" for those that actors act with."""

    def asks(self, actor: Actor) -> Sequence[DataKey]:
        """What a request holds: arrays (rows, *shape) by name."""
        raise NotImplementedError

    def answers(self, actor: Actor) -> Sequence[DataKey]:
        """What an answer holds: arrays (rows, *shape) by name, as many rows as were asked."""
        raise NotImplementedError

    def rows(self, actor: Actor) -> int:
        """The most rows of one request; by default one for each environment of an actor."""
        return actor.envs

    def seats(self, actor: Actor) -> int:
        """How many requests one actor may have under way at once."""
        return 1

    def faults(self, actor: Actor) -> Iterable[str]:
        """Why it cannot answer for this actor, each with what to change."""
        return ()

    def setup(self, context: ServerContext) -> None:
        """Become the server of a run, once in its process."""

    def bind(self, params: NDArray[np.float32], version: int) -> None:
        """Answer with these weights, (N,) float32, from now on; only if it ``reads_weights``.

        They may be a view into shared memory, and stay as they are until the next ``bind``.
        """

    def answer(self, asked: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Answer B rows, of one request or of several: arrays (B, *shape) by name.

        Which requests come together depends on time, so an answer must depend on its own row only.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close what it holds open."""
