"""What processes of ours are told about computing, by variables that a user may have set."""

from __future__ import annotations

import pytest

from artos.system.child import computing


def test_threads_and_how_long_they_look_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    found = computing(3)
    assert found["OMP_NUM_THREADS"] == found["MKL_NUM_THREADS"] == "3"
    assert 0 < int(found["GOMP_SPINCOUNT"]) < 300_000  # which is libgomp's own


@pytest.mark.parametrize(("name", "value"), [("GOMP_SPINCOUNT", "7"), ("OMP_WAIT_POLICY", "x")])
def test_what_a_user_has_set_is_left_alone(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert "GOMP_SPINCOUNT" not in computing(3)
