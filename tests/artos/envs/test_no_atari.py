from __future__ import annotations

import sys

import pytest

from artos.envs.make import make_vector
from artos.errors import Refused


def test_without_the_extra_the_refusal_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(Refused, match=r"pip install 'artos\[atari\]'"):
        make_vector("PongNoFrameskip-v4", 1)
