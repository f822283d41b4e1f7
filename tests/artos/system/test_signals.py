"""What requests to stop do, and what they wait for."""

from __future__ import annotations

import os
import signal

import pytest

from artos.system.signals import StopRequests


def stop(times: int = 1) -> None:
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGTERM)


def test_the_first_drains_and_the_second_raises() -> None:
    drained: list[int] = []
    with StopRequests() as requests, requests.draining(lambda: drained.append(1)):
        stop()
        assert drained == [1]
        with pytest.raises(KeyboardInterrupt):
            stop()
        stop()  # whatever is left is being removed
        assert drained == [1]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_is_undisturbed_is_done_to_its_end(times: int) -> None:
    did: list[str] = []
    with StopRequests() as requests, requests.draining(lambda: did.append("drained")):
        try:
            with requests.undisturbed():
                stop(times)
                did.append("a process was made and written down")
        except KeyboardInterrupt:
            did.append("stopped")
        assert did == ["a process was made and written down", "drained"] + ["stopped"] * (times > 1)


def test_while_nothing_is_there_yet_any_raises() -> None:
    with StopRequests(), pytest.raises(KeyboardInterrupt):
        stop()
