"""By which names a dashboard without a token lets itself be called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from deploy.dashboard.answers import Answers
from deploy.dashboard.app import app_of
from deploy.dashboard.sources import Folders


def answered(folder: Path, listens: str, called: str) -> tuple[int, Any]:
    """What it answers whoever calls it so."""
    told: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    scope = {
        "type": "http", "method": "GET", "path": "/api/runs", "root_path": "", "query_string": b"",
        "headers": [(b"host", called.encode())] if called else [], "scheme": "http",
        "server": ("localhost", 80), "client": ("localhost", 1), "http_version": "1.1",
    }  # fmt: skip
    anyio.run(app_of(Answers(Folders(folder)), host=listens), scope, receive, send)
    return told[0]["status"], json.loads(told[1]["body"])


@pytest.mark.parametrize(
    ("listens", "called"),
    [
        ("127.0.0.1", "127.0.0.1:8365"), ("127.0.0.1", "LocalHost"), ("127.0.0.1", "[::1]:8365"),
        ("127.0.0.2", "127.0.0.2:8365"), ("[::1]", "[::1]"),
    ],
)  # fmt: skip
def test_this_machine_is_answered(tmp_path: Path, listens: str, called: str) -> None:
    assert answered(tmp_path, listens, called)[0] == 200


@pytest.mark.parametrize(
    "called", ["", "evil.example", "127.0.0.3", "127.0.0.1.evil.example", "x@127.0.0.1", "[::1"]
)
def test_who_uses_another_name_is_told_what_to_open(tmp_path: Path, called: str) -> None:
    status, found = answered(tmp_path, "127.0.0.2", called)
    assert status == 400
    assert "open the address that `artos dashboard` has printed" in found["error"][0]
