"""Where a head listens, as it writes it down: for its user alone, as others reach it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from artos.errors import Refused
from artos.protocol.message import Refusal
from artos.runtime.loop import Waker
from artos.transport.address import FILE, endpoint_of, published, published_in, reachable
from artos.transport.messenger import HEAD, Messenger


def test_an_endpoint_is_itself() -> None:
    assert endpoint_of("tcp://10.0.0.1:7700") == "tcp://10.0.0.1:7700"


def test_it_is_there_for_its_user_alone_while_the_head_is(tmp_path: Path) -> None:
    file = tmp_path / "head.json"
    with published(file, "tcp://10.0.0.1:7700"):
        assert endpoint_of(f"{FILE}{file}") == "tcp://10.0.0.1:7700"
        assert file.stat().st_mode & 0o777 == 0o600
        assert published_in(file).version
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Refused, match="no head has written its address"):
        endpoint_of(f"{FILE}{file}")


def test_the_file_of_a_head_that_took_over_stays(tmp_path: Path) -> None:
    file = tmp_path / "head.json"
    with published(file, "tcp://10.0.0.1:1") as successor:
        assert successor() == ""
        with published(file, "tcp://10.0.0.1:2") as last:
            assert endpoint_of(f"{FILE}{file}") == "tcp://10.0.0.1:2"
            kept = file.read_bytes()
            assert successor() == f"tcp://10.0.0.1:2 on {socket.gethostname()}"
            assert last() == ""
        assert successor() == "", "the one that took over has ended, and nobody after it"
        file.write_bytes(kept)
    assert file.exists()


def test_a_head_of_other_runs_takes_over_nothing(tmp_path: Path) -> None:
    file = tmp_path / "head.json"
    with (
        published(file, "tcp://10.0.0.1:1", tmp_path / "runs") as successor,
        published(file, "tcp://10.0.0.1:2", tmp_path / "others"),
    ):
        assert endpoint_of(f"{FILE}{file}") == "tcp://10.0.0.1:2"
        assert successor() == ""


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"endpoint": 3}', "\x00"])
def test_what_no_head_has_written_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "head.json").write_text(content)
    with pytest.raises(Refused, match="holds no address of a head"):
        published_in(tmp_path / "head.json")


def test_where_it_cannot_be_written_that_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(Refused, match="--publish"),
        published(tmp_path / "none" / "head.json", "tcp://10.0.0.1:1"),
    ):
        pass


def test_one_that_listens_everywhere_is_reached_at_this_machines_address() -> None:
    assert reachable("tcp://10.0.0.1:7700") == "tcp://10.0.0.1:7700"
    found = reachable("tcp://0.0.0.0:7700")
    assert found.endswith(":7700")
    assert "0.0.0.0" not in found


@pytest.mark.processes
def test_who_has_the_file_finds_a_head_that_has_moved(tmp_path: Path) -> None:
    """The first one is gone; the next one listens at another port, and is called without a word."""
    file = tmp_path / "head.json"

    def serve(name: str, ring: Waker) -> Messenger:
        return Messenger.serve(f"ipc://{tmp_path}/{name}", None, ring.ring)

    with Waker() as bell, Waker() as other_bell:
        first = serve("first", bell)
        with published(file, first.endpoint):
            caller = Messenger.connect(f"{FILE}{file}", None, "w1", other_bell.ring)
            caller.send(HEAD, Refusal("one"))
            while not first.take():
                bell.wait(5.0)
        first.close(0.0)
        second = serve("second", bell)
        with published(file, second.endpoint):
            heard: list[object] = []
            while not heard:
                caller.send(HEAD, Refusal("two"))
                bell.wait(1.0)
                heard += [message for _, message in second.take()]
        caller.close(0.0)
        second.close(0.0)
