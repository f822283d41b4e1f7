"""Episodes of this node's actors that are being continued beside them, as the run asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from artos.protocol.message import Message
from artos.protocol.steering import ActorBranched, BranchActor
from artos.runs.plan import Site
from artos.runtime.branch_result import result
from workers.actors.branches import Branches

_NOT_HERE = "actor {} has no process there any more: ask again"


class NodeBranches:
    """Carries out orders to branch on ``cpus``, and ``tell`` the run what comes of each."""

    def __init__(
        self, branches: Branches, site: Site, cpus: Sequence[int], tell: Callable[[Message], None]
    ) -> None:
        self._branches, self._site, self._cpus, self._tell = branches, site, cpus, tell

    def ask(self, message: BranchActor, *, here: bool) -> None:
        """Have an order carried out, if its actor is ``here``."""
        number, member, order = message.number, message.member, message.order
        file = self._site.branch_path(number)
        weights = file.with_name(f"{file.name}.weights")

        def tell(data: bytes) -> None:
            weights.unlink(missing_ok=True)
            self._tell(ActorBranched(number, data))

        fault = "" if here else _NOT_HERE.format(member.rank)
        if here and message.content:
            order = replace(order, sent=str(weights))
            try:
                weights.write_bytes(message.content)
            except OSError as error:
                fault = f"no room for the weights in {weights.parent}: {error.strerror}"
        if fault:
            tell(result(member.rank, order, fault))
        else:
            order = replace(order, file=str(file), cpus=tuple(self._cpus))
            self._branches.ask(member, order, tell)
