"""The connections of a listening socket: how many it may have, and which to close. Pure."""

from __future__ import annotations


class Connections:
    """Connections by their descriptors. One that has sent nothing yet is a stranger's.

    There are at most ``strangers`` of those and ``most`` in all: of strangers the one that has
    waited longest is closed (a real peer needs only a moment), and if there is no room at all, the
    newest.
    """

    def __init__(self, strangers: int, most: int) -> None:
        self._most_strangers, self._most = strangers, most
        self._strangers: dict[int, None] = {}
        self._routes: dict[int, bytes] = {}
        self._descriptors: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._strangers) + len(self._routes)

    def opened(self, descriptor: int) -> int | None:
        """A new connection; returns the one to close, if there is one too many."""
        self.closed(descriptor)
        self._strangers[descriptor] = None
        if len(self) > self._most:
            return descriptor
        if len(self._strangers) > self._most_strangers:
            return next(iter(self._strangers))
        return None

    def closed(self, descriptor: int) -> None:
        """That connection is gone; twice is fine."""
        self._strangers.pop(descriptor, None)
        route = self._routes.pop(descriptor, None)
        if route is not None and self._descriptors.get(route) == descriptor:
            del self._descriptors[route]

    def leads(self, descriptor: int, route: bytes) -> bool:
        """Whether something came over it before, by this route."""
        return self._routes.get(descriptor) == route

    def heard(self, descriptor: int, route: bytes) -> None:
        """Something came over it, from the peer at this route, so it is not a stranger's."""
        if descriptor in self._strangers:
            del self._strangers[descriptor]
            self._routes[descriptor] = route
            self._descriptors[route] = descriptor

    def of(self, route: bytes) -> int | None:
        """The connection by which a route leads; None if it is gone."""
        return self._descriptors.get(route)
