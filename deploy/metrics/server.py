"""``GET /metrics``: asks for what is known at each scrape, and can slow nobody who trains."""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from artos.clock import Clock
from artos.errors import ArtosError
from artos.system.closing import Closing
from artos.transport.address import cannot_listen
from deploy.metrics.exposition import exposition
from deploy.metrics.families import Family

PATH = "/metrics"
_FRESH = 1.0  # seconds
_MOST_SILENT = 10.0
Look = Callable[[], list[Family]]
Answer = tuple[str, str, bytes]
"""Status, media type, body."""


class Metrics:
    """What scrapers are told; those that come within a second of another are told the same.

    ``look`` gives what is known now, or raises. Scrapes may come in several threads.
    """

    def __init__(self, look: Look, clock: Clock, token: str = "") -> None:
        self._look, self._clock, self._token = look, clock, token
        self._lock = threading.Lock()
        self._at, self._known = float("-inf"), list[Family]()

    def answer(self, path: str, accept: str = "", authorization: str = "") -> Answer:
        """The answer to a ``GET``; 503 with the reason where nothing can be told."""
        if path not in (PATH, "/"):
            return "404 Not Found", "text/plain; charset=utf-8", f"see {PATH}\n".encode()
        given = authorization.encode(errors="replace")
        if self._token and not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return "401 Unauthorized", "text/plain; charset=utf-8", b"give the token\n"
        try:
            with self._lock:
                if self._clock.now() - self._at >= _FRESH:
                    self._known = self._look()
                    self._at = self._clock.now()
                known = self._known
            body, media_type = exposition(known, accept)
        except (ArtosError, OSError) as error:
            said = f"{type(error).__name__}: {error}\n"
            return "503 Service Unavailable", "text/plain; charset=utf-8", said.encode()
        return "200 OK", media_type, body


class MetricsServer(Closing):
    """Serves ``metrics`` on a port until it is closed; port 0 is any free one.

    Raises:
        Refused: the port cannot be had.
    """

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        self._metrics = metrics
        kind = _OverIPv6 if ":" in host else _Server
        try:
            self._server = kind((host, port), _Handler)
        except OSError as error:
            raise cannot_listen(f"{host}, port {port}", error) from error
        self._server.set_app(self._app)
        bound = self._server.server_address
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{bound[1]}{PATH}"

    def serve(self) -> None:
        """Answer until ``close`` is called by another thread, or the process is interrupted."""
        self._server.serve_forever()

    def stop(self) -> None:
        """End ``serve``, which goes on in another thread."""
        self._server.shutdown()

    def close(self) -> None:
        """Close the port. May be called twice."""
        self._server.server_close()

    def _app(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("Allow", "GET, HEAD")])
            return [b""]
        status, media_type, body = self._metrics.answer(
            environ["PATH_INFO"],
            environ.get("HTTP_ACCEPT", ""),
            environ.get("HTTP_AUTHORIZATION", ""),
        )
        start_response(status, [("Content-Type", media_type), ("Content-Length", str(len(body)))])
        return [body]


class _Server(ThreadingMixIn, WSGIServer):
    """A scraper that says nothing keeps its own thread alone, and not for long."""

    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that went away is no error."""


class _OverIPv6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _MOST_SILENT

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are no news."""
