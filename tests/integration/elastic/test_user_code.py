"""User code that holds what an image cannot: said with the culprit's name, and the run goes on."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from elastic import needs_criu
from elastic_runs import ElasticRun, assert_exact, assert_nothing_left

from workers.checkpoint.criu import common_memory

pytestmark = [pytest.mark.processes, needs_criu]

Start = Callable[..., ElasticRun]


@pytest.fixture
def port(home: Path) -> Iterator[int]:
    """A server that user code connects to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number: int = server.getsockname()[1]
        (home / "port").write_text(str(number))
        yield number


def test_a_connection_to_somewhere(start: Start, home: Path, port: int) -> None:
    run = start("hindered.py:connected", park="checkpoint", start="clone")
    found = run.done()
    culprit = f"to 127.0.0.1:{port}"
    template, *actors = [line for line in run.said.splitlines() if "cannot be checkpointed" in line]
    assert "actors cannot be started by clone" in template
    assert "an open TCP connection" in template
    assert culprit in template
    assert "close it before a round ends, or keep actors in memory" in template
    for actor in (0, 1):
        (why,) = [x for x in actors if f"actor {actor} waits in memory from now on" in x]
        assert culprit in why
    assert found["starts"]["fork"]["count"] == 2
    assert not {"clone", "restore"} & found["starts"].keys()
    assert_exact(run.folder, 128)
    assert_nothing_left(home)


def test_a_pool_of_threads_goes_through_images(start: Start, home: Path) -> None:
    run = start("hindered.py:threaded", park="checkpoint", start="clone")
    found = run.done()
    assert found["starts"]["clone"]["count"] == 2
    assert found["starts"]["restore"]["count"] >= 8
    assert [len(lives) for lives in assert_exact(run.folder, 192).values()] == [1, 1]
    assert_nothing_left(home)


def test_what_cannot_be_forked_is_cloned(start: Start, home: Path) -> None:
    run = start("hindered.py:threaded", park="checkpoint")
    found = run.done()
    assert found["starts"]["clone"]["count"] == 2
    assert "fork" not in found["starts"]
    assert "fork" not in run.said, "nothing is missed"
    assert_exact(run.folder, 192)
    assert_nothing_left(home)


@pytest.mark.long
@pytest.mark.skipif(not common_memory.SUPPORTED, reason="images of forks hold all of their memory")
def test_what_can_be_is_forked_and_its_image_holds_what_the_others_have_not(
    start: Start, home: Path
) -> None:
    run = start(
        "ppo", "--actors", 3, "--total-steps", 3072, park="checkpoint", image_mb=100,
        steps=64,
    )  # fmt: skip
    found = run.done()
    assert found["starts"]["fork"]["count"] == 3
    assert found["starts"]["restore"]["count"] >= 3
    assert "--set image_mb=N" not in run.said, "an image of all its memory has 150 MB"
    assert_nothing_left(home)


def test_a_pool_of_threads_does_not_go_through_a_fork(start: Start, home: Path) -> None:
    run = start("hindered.py:threaded", "--deadline", 10, start="fork", park="freeze")
    found = run.done()
    assert "user code started 2 threads ahead (ThreadPoolExecu)" in run.said
    assert found["starts"]["cold"]["count"] == 2
    assert_exact(run.folder, 192)
    assert_nothing_left(home)
