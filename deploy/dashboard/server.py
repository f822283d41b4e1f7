"""Serves the dashboard until a signal ends it."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable

import uvicorn

from artos.errors import Refused
from artos.system.loopback import is_loopback
from artos.transport.address import cannot_listen
from deploy.dashboard.answers import Answers
from deploy.dashboard.app import app_of

TOKEN = "ARTOS_DASHBOARD_TOKEN"
_LEAST = 16
"""Characters of a token."""
_END_SECONDS = 1


def serve(answers: Answers, host: str, port: int, told: Callable[[str], object]) -> None:
    """Serve on this address; ``told`` is called with the one for browsers once it listens.

    Where it listens on all addresses of this machine, that has the machine's name.

    Beyond this machine a token is needed, which is part of that address: that of the environment
    variable ``ARTOS_DASHBOARD_TOKEN``, or a new one.

    Raises:
        Refused: the address cannot be used, or the token is too short.
    """
    token = "" if is_loopback(host) else os.environ.get(TOKEN, "") or secrets.token_urlsafe(24)
    if token and len(token) < _LEAST:
        raise Refused([f"{TOKEN} must have {_LEAST} characters or more, so that nobody guesses it"])
    with _listening(host, port) as listening:
        server: uvicorn.Server | None = None
        name = f"[{host}]" if ":" in host else host
        app = app_of(answers, token, lambda: server is not None and server.should_exit, name)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", ws="none",
            server_header=False, timeout_graceful_shutdown=_END_SECONDS,
        )  # fmt: skip
        server = uvicorn.Server(config)
        query = f"?token={token}" if token else ""
        if host in ("0.0.0.0", "::"):  # others call this machine by its name
            name = socket.gethostname()
        told(f"http://{name}:{listening.getsockname()[1]}/{query}")
        server.run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise cannot_listen(f"{host}, port {port}", error) from error
