"""A piece of work may fail: it is counted, logged and answered, and what is around it goes on."""

from __future__ import annotations

import logging

import pytest

from artos.errors import Refused
from artos.system.faults import Faults, Seldom
from artos.system.printable import one_line, printable


def test_a_fault_is_counted_logged_and_answered(logged: list[str]) -> None:
    answers: list[str] = []
    faults = Faults()
    with faults.contained("Load from w1", answers.append):
        raise ValueError("bad \x1b[31m number")
    assert faults.count == 1
    assert logged[0].startswith(
        "Load from w1 failed (1 times so far); all else continues:\nTraceback"
    )
    assert answers == ["Load from w1 failed: ValueError: bad \\x1b[31m number"]


def test_who_fails_often_does_not_fill_the_log(logged: list[str]) -> None:
    faults = Faults()
    for number in range(1000):
        with faults.contained(f"message {number}"):
            raise KeyError(number)
    assert faults.count == 1000
    assert len(logged) == 10
    with faults.contained("another place"):
        raise KeyError
    assert len(logged) == 11


def test_an_answer_that_fails_is_a_fault_too() -> None:
    faults = Faults()

    def answer(why: str) -> None:
        raise OSError(why)

    with faults.contained("x", answer):
        raise ValueError
    assert faults.count == 2


def test_what_others_can_cause_without_end_is_logged_seldom(logged: list[str]) -> None:
    seldom = Seldom(logging.getLogger("artos.toy"))
    for number in range(5000):
        seldom.warning("100%% sure: refused %s", f"a%d{number}")
    assert len(logged) < 70
    assert logged[0] == "100% sure: refused a%d0"
    assert logged[-1].endswith("refused a%d4095 (4096 such lines so far, most of them not shown)")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, Refused])
def test_what_is_meant_to_end_a_process_does(error: type[BaseException]) -> None:
    faults = Faults()
    with pytest.raises(error), faults.contained("x", passing=Refused):
        raise error(["no"])
    assert faults.count == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [("worker-1 ü 漢", "worker-1 ü 漢"), ("\x1b[2J", "\\x1b[2J"), ("a\rb\x9b", "a\\rb\\x9b"),
     ("\u202egnp", "\\u202egnp"), ("\udcff", "\\udcff"), ("a\n\tb", "a\n\tb")],
)  # fmt: skip
def test_nothing_is_left_that_a_terminal_would_obey(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert one_line("a\nartos: all is well") == "a\\nartos: all is well"
