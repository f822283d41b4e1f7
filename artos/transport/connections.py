"""The connections of a listening socket, and which to close if there are too many. Pure."""

from __future__ import annotations


class Connections:
    """Connections by their descriptors. A connection that has sent nothing yet is a stranger's.

    If there are more than ``strangers`` of these, the one that has waited longest is closed (a real
    peer needs only a moment). If there are more than ``most`` connections, the newest is closed.
    """

    MOST_ENDED = 10_000
    """Routes that are remembered as ended; the last ones are."""

    def __init__(self, strangers: int, most: int) -> None:
        self._most_strangers, self._most = strangers, most
        self._strangers: dict[int, None] = {}
        self._routes: dict[int, bytes] = {}
        self._descriptors: dict[bytes, int] = {}
        self._ended: dict[bytes, None] = {}

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
        """This connection is closed; may be called twice."""
        self._strangers.pop(descriptor, None)
        route = self._routes.pop(descriptor, None)
        if route is not None and self._descriptors.get(route) == descriptor:
            del self._descriptors[route]
            self._ended[route] = None
            if len(self._ended) > self.MOST_ENDED:
                del self._ended[next(iter(self._ended))]

    def leads(self, descriptor: int, route: bytes) -> bool:
        """Whether a frame has come over this connection by this route before."""
        return self._routes.get(descriptor) == route

    def heard(self, descriptor: int, route: bytes) -> None:
        """A frame came over this connection by this route, so it is not a stranger's any more."""
        if descriptor in self._strangers:
            del self._strangers[descriptor]
            self._routes[descriptor] = route
            self._descriptors[route] = descriptor
            self._ended.pop(route, None)

    def has_ended(self, route: bytes) -> bool:
        """Whether the last connection of this route was closed, and no other has come since."""
        return route in self._ended

    def of(self, route: bytes) -> int | None:
        """The connection of a route; None if it is closed."""
        return self._descriptors.get(route)
