"""Environments whose package is not installed."""

from __future__ import annotations

import sys

import pytest

from artos.envs.make import make_vector
from artos.errors import Refused


@pytest.mark.parametrize(
    ("package", "env", "remedy"),
    [
        ("ale_py", "PongNoFrameskip-v4", r"pip install 'artos\[atari\]'"),
        ("envpool", "envpool:Pong-v5", r"needs EnvPool: pip install envpool"),
    ],
)
def test_the_refusal_says_how_to_get_it(
    package: str, env: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Refused, match=remedy):
        make_vector(env, 1)
