"""The dashboard as an ASGI application: answers in JSON, events, and the page."""

from __future__ import annotations

import hmac
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from artos.errors import (
    ArtosError,
    DeadlineExceeded,
    NoHead,
    NoSuchRun,
    Refused,
    StillCopied,
    WrongKeys,
)
from artos.system.regular_file import contents
from deploy.dashboard.answers import Answers

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_PAGE = Path(__file__).parent / "page"
_PERIOD = 1.0
_TOKEN = "token"
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]/@]+)(:\d*)?")
_YEAR = 365 * 86400
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""What a page may do: run its own module of JavaScript, and ask here."""

_AWAY = (NoHead, WrongKeys, DeadlineExceeded)
"""What is raised where a head does not answer."""

_log = logging.getLogger(__name__)


def app_of(
    answers: Answers, token: str = "", ends: Callable[[], bool] = lambda: False, host: str = ""
) -> Starlette:
    """The application; without a ``token`` it answers only who names it as this machine, or by the
    ``host`` on which it listens.

    Streams of events end once ``ends`` says so.
    """
    routes = [Route(f"/api/{name}", _asking(ask)) for name, ask in answers.of_all().items()]
    for name, ask in answers.of_run().items():
        path = f"/api/runs/{{name}}/{name}".rstrip("/")
        routes.append(Route(path, _asking(ask)))
    routes.append(Route("/api/events", _events(answers, ends)))

    async def metrics(request: Request) -> Response:
        body, kind = await run_sync(answers.metrics, request.headers.get("accept", ""))
        return Response(body, media_type=kind)

    routes.append(Route("/metrics", metrics))
    index = contents(_PAGE / "index.html")
    routes.append(Route("/", lambda _: Response(index, media_type="text/html")))
    middleware = [Middleware(_Headers)]
    if token:
        middleware.append(Middleware(_WithToken, token=token))
    else:  # a page of elsewhere must not read this one under a name that leads here
        middleware.append(Middleware(_Named, names={*LOOPBACK, host} - {""}))
    return Starlette(
        routes=[*routes, Mount("/page", StaticFiles(directory=_PAGE))],
        middleware=middleware,
        exception_handlers={
            ArtosError: _faults,
            HTTPException: _not_here,
            OSError: _faults,
            Exception: _own_fault,
        },
    )


def _asking(ask: Callable[..., Any]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        asked = partial(ask, *request.path_params.values(), request.query_params)
        return _json(await run_sync(asked))

    return answer


def _events(answers: Answers, ends: Callable[[], bool]) -> Callable[[Request], Awaitable[Response]]:
    async def events(request: Request) -> Response:
        name = request.query_params.get("run", "")
        try:
            first = await run_sync(answers.live, name)  # a wrong name is answered as such
        except _AWAY as error:  # the head may come back: who listens is told then
            first = {"error": _words(error)}

        async def stream() -> AsyncIterator[bytes]:
            said, found = b"", first
            while not ends() and not await request.is_disconnected():
                if (data := encoded(found)) != said:
                    said = data
                    yield b"data: " + data + b"\n\n"
                await anyio.sleep(_PERIOD)
                try:
                    found = await run_sync(answers.live, name)
                except (ArtosError, OSError) as error:
                    found = {"error": _words(error)}

        return StreamingResponse(stream(), media_type="text/event-stream")

    return events


def encoded(found: Any) -> bytes:
    """An answer as JSON."""
    try:
        return msgspec.json.encode(found)
    except (UnicodeEncodeError, OverflowError):  # a name that is no text, a number beyond 64 bits
        return json.dumps(msgspec.to_builtins(found)).encode()


def _json(found: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(found), status, headers, media_type="application/json")


def _words(error: Exception) -> list[str]:
    return [*error.faults] if isinstance(error, Refused) else [str(error)]


async def _faults(request: Request, error: Exception) -> Response:
    if isinstance(error, StillCopied):
        return _json({"error": _words(error)}, 503, {"retry-after": "1"})
    if isinstance(error, NoSuchRun):
        status = 404
    elif isinstance(error, _AWAY):
        status = 503
    else:
        status = 422
    return _json({"error": _words(error)}, status)


async def _not_here(request: Request, error: Exception) -> Response:
    here = request.url.path
    status = error.status_code if isinstance(error, HTTPException) else 404
    if status == 405:
        said = f"{here} can only be read: ask with GET"
        return _json({"error": [said]}, status, {"allow": "GET, HEAD"})
    return _json({"error": [f"there is nothing at {here}"]}, status)


async def _own_fault(request: Request, error: Exception) -> Response:
    """What nobody has foreseen; the server logs it."""
    said = f"the dashboard failed ({type(error).__name__}: {error}); its output says where"
    return _json({"error": [said]}, 500)


class _Headers:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await self._app(scope, receive, with_headers)


class _Named:
    """Lets in who calls this machine by one of these names, whatever the port."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _HOST.fullmatch(Headers(scope=scope).get("host", "").lower())
        if scope["type"] != "http" or (found and found[1] in self._names):
            await self._app(scope, receive, send)
        else:
            said = "open the address that `artos dashboard` has printed: it has no other name"
            await _json({"error": [said]}, 400)(scope, receive, send)


class _WithToken:
    """Lets in who has the token: in the address once, then as a cookie; scripts as a bearer."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token
        # Browsers send cookies to all ports of a host: each dashboard there has its own.
        self._cookie = f"artos-token-{sha256(token.encode()).hexdigest()[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        bearer = bearer if scheme.lower() == "bearer" else ""
        if self._is(request.query_params.get(_TOKEN, "")):
            response: Response = RedirectResponse(str(request.url.remove_query_params(_TOKEN)))
            response.set_cookie(
                self._cookie, self._token, max_age=_YEAR, httponly=True, samesite="strict"
            )
            await response(scope, receive, send)
        elif self._is(bearer) or self._is(request.cookies.get(self._cookie, "")):
            await self._app(scope, receive, send)
        else:
            said = "open the address that `artos dashboard` has printed: it has the token"
            await _json({"error": [said]}, 401)(scope, receive, send)

    def _is(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())
