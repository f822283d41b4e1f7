"""Decides which peers may talk on a socket, by the valid keys and the names in use. Pure.

A name belongs to the key that first used it, until that key is revoked or its peer falls silent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from artos.errors import NotAllowed
from artos.protocol.message import Message
from artos.transport.roles import KeyRole, Register, forbidden

_LIVES = 15.0  # seconds of silence after which a name is free for another key
_MOST_NAMES = 10_000
_MOST_OF_A_KEY = 5_000


@dataclass(slots=True)
class _Owner:
    key: str
    role: KeyRole
    heard_at: float


class Authorizer:
    """``look_up`` returns the keys that are valid now; None: all peers may do anything.

    A socket without keys can only be reached by this user's own processes.
    """

    def __init__(self, look_up: Callable[[], Register] | None = None) -> None:
        self._look_up = look_up
        self._owners: dict[str, _Owner] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look up the valid keys; call this once a turn. "Valid" below means valid at this time."""
        self._register = self._look_up() if self._look_up else None

    def accepts(self, key: str) -> bool:
        """Whether the key is valid."""
        return self._register is None or key in self._register.holders

    def knows(self, name: str) -> bool:
        """Whether we may send to the peer of this name: it was heard, and its key is valid."""
        owner = self._owners.get(name)
        return self._register is None or (owner is not None and self.accepts(owner.key))

    def has_claimed(self, name: str) -> bool:
        """Whether a peer was heard under this name, with a key that was valid then."""
        return name in self._owners

    def belongs(self, name: str, key: str) -> bool:
        """Whether this key owns that name."""
        return name in self._owners and self._owners[name].key == key

    def claim(self, name: str, key: str, now: float) -> bool:
        """A peer with this valid key uses that name.

        Returns whether another key had the name before.

        Raises:
            NotAllowed: it may not use the name; the message says what to do.
        """
        if self._register is None:
            return False
        owner = self._owners.get(name)
        if owner is None or owner.key != key:
            role = self._admitted_role(self._register, name, key, now)
            self._owners[name] = _Owner(key, role, now)
            return owner is not None
        owner.heard_at = now
        return False

    def permit(self, name: str, message: Message) -> None:
        """Make sure that the peer of this name may send this message.

        Raises:
            NotAllowed: its role may not send such messages.
        """
        if self._register is None:
            return
        if why := forbidden(self._owners[name].role, type(message)):
            raise NotAllowed(why)

    def forget(self, name: str) -> None:
        """Have the name free for any key."""
        self._owners.pop(name, None)

    def _admitted_role(self, register: Register, name: str, key: str, now: float) -> KeyRole:
        if why := register.misnamed(key, name):
            raise NotAllowed(why)
        owner = self._owners.get(name)
        if owner and owner.key in register.holders and now - owner.heard_at < _LIVES:
            raise NotAllowed(f"a live peer with another key is called {name}: wait, or stop it")
        if len(self._owners) >= min(_MOST_NAMES, _MOST_OF_A_KEY):
            for silent, owner in [*self._owners.items()]:
                if now - owner.heard_at >= _LIVES:
                    del self._owners[silent]
            mine = sum(owner.key == key for owner in self._owners.values())
            if mine >= _MOST_OF_A_KEY:
                raise NotAllowed(f"this key has {_MOST_OF_A_KEY} names in use here already")
        if len(self._owners) >= _MOST_NAMES:
            raise NotAllowed(f"{_MOST_NAMES} names are in use here already")
        return register.holders[key].role
