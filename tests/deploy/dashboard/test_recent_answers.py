"""Many who ask a dashboard the same at once are one question."""

from __future__ import annotations

import threading

import pytest

from deploy.dashboard.recent import Recent

SECONDS = 60.0


def test_many_who_ask_at_once_are_one_question() -> None:
    asked, now, begun = list[int](), [0.0], threading.Barrier(8)
    recent = Recent(1.0, lambda: now[0])

    def ask() -> int:
        asked.append(1)
        return len(asked)

    def asks() -> None:
        begun.wait(SECONDS)
        assert recent.get("x", ask) == 1

    threads = [threading.Thread(target=asks) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert asked == [1]
    now[0] = 1.0
    assert recent.get("x", ask) == 2
    assert recent.get("y", ask) == 3


def test_many_who_wait_for_one_that_does_not_answer_wait_once() -> None:
    asked, now, begun = list[int](), [0.0], threading.Barrier(8)
    recent, faults = Recent(1.0, lambda: now[0]), list[str]()

    def ask() -> int:
        asked.append(1)
        raise OSError(f"silent {len(asked)}")

    def asks() -> None:
        begun.wait(SECONDS)
        with pytest.raises(OSError, match="silent") as raised:
            recent.get("x", ask)
        faults.append(str(raised.value))

    threads = [threading.Thread(target=asks) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert faults == 8 * ["silent 1"]
    now[0] = 1.0
    assert recent.get("x", lambda: 2) == 2, "it has come back"
