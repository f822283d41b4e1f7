"""A policy whose weights are elsewhere: a server says what they say of a row, and here one acts."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from artos.buffer.desk import Desk
from artos.policies.acting import VALUES, ActInfo, Array


class Divided(Protocol):
    """A ``BoundPolicy`` whose ``act`` is ``draw`` of an ``answer``."""

    def answer(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """What the weights say of each row, (B, ...) by name; no chance is in it.

        If ``values`` is an output of the policy, it is among them.
        """

    def draw(self, answer: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """What ``act`` returns, by no weights and a random stream of its own."""


class AskedPolicy:
    """Asks at ``desk`` for an answer, and draws from it as ``own`` does.

    So the random stream stays with its actor, whichever rows are answered together, and a recurrent
    state goes out with the request and comes back with the answer.
    """

    kept: ClassVar[tuple[str, ...]] = ("own",)

    def __init__(self, desk: Desk, own: Divided) -> None:
        self.desk, self.own = desk, own

    def bind(self, flat: NDArray[Any]) -> None:
        """Do nothing: the server has the weights."""

    def ask(self, obs: dict[str, Array], info: ActInfo) -> None:
        """Send off what is seen; ``take`` returns what to do."""
        self.desk.ask({**obs, **info.state})

    def take(self, info: ActInfo) -> dict[str, Array]:
        """What ``act`` returns for what was asked last.

        Raises:
            DeadlineExceeded: the server did not answer in time.
        """
        return self.own.draw(self.desk.take(), info)

    def act(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """Ask and take."""
        self.ask(obs, info)
        return self.take(info)

    def values(self, obs: dict[str, Array], info: ActInfo) -> NDArray[Any]:
        """Values (B, *shape) float32."""
        self.ask(obs, info)
        return self.desk.take()[VALUES]
