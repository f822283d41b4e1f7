"""What our modules log goes where an entry point says; a user's logging is the user's."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from artos.runs.loader import load_object
from artos.system.logging_setup import PACKAGES, logging_to, to_stderr

OURS, USERS = logging.getLogger("head.toy"), logging.getLogger("users_own")


def test_ours_goes_there_and_only_there_as_long_as_that_lasts() -> None:
    roots: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: roots.append(record.getMessage())  # type: ignore[method-assign]
    logging.root.addHandler(handler)
    before = [*logging.root.handlers], logging.root.level
    outer: list[str] = []
    inner: list[str] = []
    try:
        with logging_to(outer.append):
            with logging_to(inner.append):
                OURS.info("worker %s is here", "w1")
                USERS.warning("mine")
                assert ([*logging.root.handlers], logging.root.level) == before
            OURS.warning("it left")
        OURS.warning("nobody set up anything")
    finally:
        logging.root.removeHandler(handler)
    assert (inner, outer) == (["worker w1 is here"], ["it left"])
    assert roots == ["mine", "nobody set up anything"]
    for logger in map(logging.getLogger, PACKAGES):
        assert (logger.handlers, logger.level, logger.propagate) == ([], logging.NOTSET, True)


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "full"), ValueError("shut")])
def test_a_log_that_cannot_be_written_ends_nothing(error: Exception) -> None:
    def write(text: str) -> None:
        raise error

    with logging_to(write):
        OURS.error("is anybody there?")


def test_words_of_others_do_not_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(to_stderr):
        OURS.warning("refused %s", "w1\x1b[2J")
    assert capsys.readouterr().err == "refused w1\\x1b[2J\n"


def test_a_user_who_sets_logging_up_does_not_silence_ours(
    tmp_path: Path, logged: list[str]
) -> None:
    """``logging.config`` turns off every logger that is there and that it does not name."""
    file = tmp_path / "users_logging.py"
    file.write_text("import logging.config\nlogging.config.dictConfig({'version': 1})\nx = 1\n")
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        assert load_object(f"{file}:x") == 1
        OURS.warning("actor 0 is restarted")
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    assert logged == ["actor 0 is restarted"]
