"""Who may talk on one socket: by the keys that are good now, and by who has a name already. Pure.

A name stays with the key that it was first heard with, until that is revoked or silent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from artos.errors import NotAllowed
from artos.protocol.message import Message
from artos.transport.roles import Register, Role, forbidden

_LIVES = 15.0  # seconds after which a name that is not heard is free for another key
_MOST_NAMES = 10_000


@dataclass(slots=True)
class _Owner:
    key: str
    role: Role
    heard_at: float


class Authorizer:
    """``look_up`` finds which keys are good now; None: everybody may do anything.

    (A socket without keys is one that only this user's own processes can reach.)
    """

    def __init__(self, look_up: Callable[[], Register] | None = None) -> None:
        self._look_up = look_up
        self._owners: dict[str, _Owner] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look up the keys; what is "good now" below is as of then. Call it once a turn."""
        self._register = self._look_up() if self._look_up else None

    def accepts(self, key: str) -> bool:
        """Whether the key is good now."""
        return self._register is None or key in self._register.holders

    def knows(self, name: str) -> bool:
        """Whether who has this name may be talked to: it was heard, and its key is good now."""
        owner = self._owners.get(name)
        return self._register is None or (owner is not None and self.accepts(owner.key))

    def has_claimed(self, name: str) -> bool:
        """Whether somebody was heard under this name, with a key that was good then."""
        return name in self._owners

    def belongs(self, name: str, key: str) -> bool:
        """Whether this key has that name."""
        return name in self._owners and self._owners[name].key == key

    def claim(self, name: str, key: str, now: float) -> bool:
        """Somebody with this key, which is good, speaks under that name.

        Returns whether it is another one than had the name before.

        Raises:
            NotAllowed: it may not; says what to do.
        """
        if self._register is None:
            return False
        owner = self._owners.get(name)
        if owner is None or owner.key != key:
            self._owners[name] = _Owner(key, self._role(self._register, name, key, now), now)
            return owner is not None
        owner.heard_at = now
        return False

    def permit(self, name: str, message: Message) -> None:
        """Who has claimed this name says that.

        Raises:
            NotAllowed: its role may not.
        """
        if self._register is None:
            return
        if why := forbidden(self._owners[name].role, type(message)):
            raise NotAllowed(why)

    def forget(self, name: str) -> None:
        """The name is free."""
        self._owners.pop(name, None)

    def _role(self, register: Register, name: str, key: str, now: float) -> Role:
        if why := register.misnamed(key, name):
            raise NotAllowed(why)
        owner = self._owners.get(name)
        if owner and owner.key in register.holders and now - owner.heard_at < _LIVES:
            raise NotAllowed(f"who is called {name} lives and has another key: wait, or stop it")
        if len(self._owners) >= _MOST_NAMES:
            self._forget_the_silent(now)
        if len(self._owners) >= _MOST_NAMES:
            raise NotAllowed(f"there are {_MOST_NAMES} names here already")
        return register.holders[key].role

    def _forget_the_silent(self, now: float) -> None:
        for name, owner in [*self._owners.items()]:
            if now - owner.heard_at >= _LIVES:
                del self._owners[name]
