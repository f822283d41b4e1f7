"""The holders of keys, and which messages each may send: users, nodes and runs differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from artos.protocol import control, steering
from artos.protocol.data import AnswersPiece, Chunk, Greet, Pull
from artos.protocol.message import Message, Refusal
from artos.specs.fields import NAME

Kind = type[Message]

_PEER = rf"({NAME.pattern})(?:/[A-Za-z0-9._-]{{1,64}})?"
_NODE, _USER, _RUN = (re.compile(f"{front}{_PEER}") for front in ("", "user:", "run:"))


class KeyRole(Enum):
    """What a key is for; the value is its name in messages and commands."""

    USER = "user"
    NODE = "node"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a key: a user, a node, or a run that a node carries, of that name."""

    role: KeyRole
    name: str

    def __str__(self) -> str:
        return f"{self.role.value} {self.name}"

    @property
    def peer(self) -> str:
        """The holder's name on a socket; a ``/`` and the name of a connection may follow."""
        return self.name if self.role is KeyRole.NODE else f"{self.role.value}:{self.name}"


BY_HAND = (KeyRole.USER, KeyRole.NODE)
"""Those whose keys are in the folder of a cluster; a run's are made with it."""
OWNER = Holder(KeyRole.USER, "owner")
"""The user whose key is made when no holder is named."""
ANY = Holder(KeyRole.NODE, "any")
"""This key is valid for any node that has no key of its own."""

SAYS: Mapping[KeyRole, frozenset[Kind]] = {
    KeyRole.USER: frozenset(
        {
            control.Submit,
            control.Archive,
            control.ListRuns,
            control.ReadStatus,
            control.ReadLogs,
            control.ReadLimits,
            control.ListFiles,
            control.ReadFile,
            control.ScaleRun,
            control.SetRun,
            control.StopRun,
            control.DrainNode,
            control.UndrainNode,
            control.ReclaimNode,
        }
    ),
    KeyRole.NODE: frozenset(
        {
            control.Hello,
            control.Load,
            control.Shares,
            control.RunEnded,
            control.ExecutorEnded,
            control.Leaving,
            control.Bye,
            control.FetchArchive,
            control.LogPiece,
            steering.ExecutorUp,
            steering.ActorReport,
            steering.Died,
            steering.Packed,
            steering.MemoryHere,
            steering.ReadPiece,
            steering.BundlePiece,
            steering.BundleRejected,
            steering.ExecutorNews,
            steering.ExecutorLog,
            steering.HeldState,
            steering.ActorBranched,
            steering.ExecutorClosed,
            Greet,
            Chunk,
            AnswersPiece,
            Pull,
        }
    ),
    KeyRole.RUN: frozenset({control.RunUp, control.RunNews, control.RunScaled, control.RunSet}),
}
"""What each role may send to a head, a run or a replay process. All else is forbidden."""
_BOTH_MAY = frozenset({Refusal})
_MAY = {role: kinds | _BOTH_MAY for role, kinds in SAYS.items()}


def forbidden(role: KeyRole, kind: Kind) -> str:
    """Why a holder with this role may not send such a message; "" if it may."""
    if kind in _MAY[role]:
        return ""
    others = [other.value for other in BY_HAND if kind in SAYS[other]]
    way = f": use the key of a {others[0]} (artos keys DIR --{others[0]} NAME)" if others else ""
    return f"a {role.value} may not send {kind.__name__}{way}"


def holder_of(peer: str) -> Holder | None:
    """The holder whose name a peer uses; None if the name is invalid."""
    for role, pattern in ((KeyRole.USER, _USER), (KeyRole.NODE, _NODE), (KeyRole.RUN, _RUN)):
        if match := pattern.fullmatch(peer):
            return Holder(role, match[1])
    return None


def foreign(peer: str, node: str) -> str:
    """Why a peer may not speak for that node; "" if it belongs to the node."""
    if holder_of(peer) == Holder(KeyRole.NODE, node):
        return ""
    return f"{peer} does not belong to node {node!r} and may speak for its own node only"


@dataclass(frozen=True, slots=True)
class Register:
    """The keys that are valid now: the holder of each public key."""

    holders: Mapping[str, Holder] = field(default_factory=dict)

    def misnamed(self, key: str, peer: str) -> str:
        """Why the holder of this key may not call itself ``peer``; "" if it may."""
        holder, wanted = self.holders.get(key), holder_of(peer)
        if holder is None or wanted is None:
            return "this key is no longer valid" if wanted else f"{peer!r} is not a valid name"
        free = wanted.role is KeyRole.NODE and wanted not in self.holders.values()
        if holder == wanted or (holder == ANY and free):
            return ""
        return (
            f"this is the key of {holder} and not of {wanted}: use the key of {wanted} "
            f"(artos keys DIR --{wanted.role.value} {wanted.name}) or another name"
        )
