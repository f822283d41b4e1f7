"""How a registration that ended without an answer is told."""

from __future__ import annotations

import pytest

from artos.errors import Refused
from artos.reference import Reference
from deploy import registration


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("kill -9 $$", r"was killed \(SIGKILL\): if it was nobody, memory ran out.*$"),
        ("kill -SEGV $$", r"crashed \(Segmentation fault\)$"),
        ("echo so it is >&2; exit 7", r"ended with exit status 7; its last words:\nso it is"),
    ],
)
def test_an_end_without_an_answer(script: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "command", lambda *_: ["sh", "-c", script])
    with pytest.raises(Refused, match=f"^building my:table {words}"):
        registration.register_apart(Reference("my:table"), 1)
