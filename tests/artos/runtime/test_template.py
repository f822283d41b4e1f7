"""Templates as real processes: forked and woken actors on a real board."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from helpers import python
from stage import HERE, PATIENCE, ROUND, ROUNDS, Rows, Stage, mapped, open_files, rows_here

from artos.clock import Deadline
from artos.protocol.invocations import Failed
from artos.runtime.template import IDENTITY_FD
from artos.specs.members import ACTORS, Member

pytestmark = pytest.mark.processes

CARTPOLE, PONG = "CartPole-v1", "PongNoFrameskip-v4"


@pytest.fixture
def cartpole(tmp_path: Path) -> Iterator[Stage]:
    with Stage(CARTPOLE, tmp_path) as stage:
        yield stage


def plain_rows(env: str, actor: int, logs: Path) -> Rows:
    """Rows of an ordinary actor process in a run of its own."""
    with Stage(env, logs) as stage:
        stage.start_plain(actor)
        stage.ready(Member(ACTORS, actor))
        return stage.rows(actor)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something observable."""
    deadline = Deadline(PATIENCE)
    while not condition():
        assert not deadline.passed, condition
        time.sleep(0.002)


def gone(pid: int) -> bool:
    """Whether a process, child of anybody, is dead."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# -- a fork server -----------------------------------------------------------------------------


@pytest.mark.usefixtures("adopting", "atari")
@pytest.mark.parametrize("env", [CARTPOLE, pytest.param(PONG, marks=pytest.mark.long)])
def test_forked_actors_serve_side_by_side(env: str, tmp_path: Path) -> None:
    """Two at once, asked in turn; each writes what an unprepared actor writes."""
    with Stage(env, tmp_path) as stage:
        server = stage.start_template("fork")
        assert stage.ready(stage.template).whole == (env == CARTPOLE)  # an emulator has threads
        assert psutil.Process(server.pid).num_threads() == 1  # a fork would lose the others
        for actor in (0, 1):
            stage.fork(server, actor)
            assert stage.ready(Member(ACTORS, actor)).incarnation == 1
        for stop in range(ROUND, (ROUNDS + 1) * ROUND, ROUND):
            for actor in (1, 0):
                stage.sample(actor, stop)
            for actor in (0, 1):
                assert stage.done(actor).version == 1
        found = [stage.written(actor) for actor in (0, 1)]
    assert found == [rows_here(env, actor) for actor in (0, 1)]
    assert found[0]["actions"] != found[1]["actions"]
    assert found[1] == plain_rows(env, 1, tmp_path)


@pytest.mark.usefixtures("adopting")
def test_a_forked_actor_is_the_supervisors_child_and_holds_nothing_of_the_server(
    cartpole: Stage,
) -> None:
    server = cartpole.start_template("fork")
    cartpole.ready(cartpole.template)
    child = cartpole.fork(server, 0)
    cartpole.ready(Member(ACTORS, 0))
    assert psutil.Process(child.pid).ppid() == os.getpid()
    assert os.getsid(child.pid) == child.pid
    log = str(cartpole.log(0))
    assert open_files(child.pid) == {0: os.devnull, 1: log, 2: log}
    # What the server still holds are its pipes.
    kinds = {fd: name.partition(":")[0] for fd, name in open_files(server.pid).items()}
    assert sorted(kinds.values()) == sorted(
        [os.devnull, "pipe", "pipe", *2 * [str(cartpole.logs / "template.log")]]
    )


def test_code_is_imported_once_and_not_again_where_a_fork_is_tried(cartpole: Stage) -> None:
    server = cartpole.start_template("fork")
    cartpole.ready(cartpole.template)
    spent = psutil.Process(server.pid).cpu_times()
    assert spent.children_user < spent.user / 2


@pytest.mark.usefixtures("adopting")
def test_a_forked_actor_outlives_the_server_and_stops_when_told(cartpole: Stage) -> None:
    server = cartpole.start_template("fork")
    cartpole.ready(cartpole.template)
    child = cartpole.fork(server, 0)
    cartpole.ready(Member(ACTORS, 0))
    assert server.stdin is not None
    server.stdin.close()
    assert server.wait(PATIENCE) == 0
    cartpole.rows(0, rounds=1)
    cartpole.stop(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]) == 0
    assert not cartpole.said()["actor-0.log"]


@pytest.mark.usefixtures("adopting")
def test_a_killed_server_takes_no_actor_along(cartpole: Stage) -> None:
    server = cartpole.start_template("fork")
    cartpole.ready(cartpole.template)
    cartpole.fork(server, 0)
    cartpole.ready(Member(ACTORS, 0))
    server.kill()
    server.wait()
    assert cartpole.rows(0, rounds=1)


def test_server_and_actors_die_with_the_supervisor(cartpole: Stage) -> None:
    site = msgspec.structs.replace(cartpole.node.site, member=cartpole.template)
    request = msgspec.json.encode(cartpole.identity(0)).decode()
    with python(HERE / "fork_peer.py", "fork", *cartpole.arguments(site), request) as peer:
        assert peer.stdout is not None
        pids = [int(pid) for pid in peer.stdout.readline().split()]
        cartpole.ready(Member(ACTORS, 0))
        peer.send_signal(signal.SIGKILL)
        until(lambda: all(gone(pid) for pid in pids))


def test_an_actor_that_nobody_adopts_ends(cartpole: Stage) -> None:
    """Without PR_SET_CHILD_SUBREAPER it would go on unseen."""
    server = cartpole.start_template("fork")
    cartpole.ready(cartpole.template)
    child = cartpole.fork(server, 0)
    until(lambda: gone(child.pid))
    assert cartpole.node.board.up(Member(ACTORS, 0)).take() is None


@pytest.mark.long
@pytest.mark.usefixtures("adopting")
def test_what_user_code_prints_and_reads_stays_out_of_the_way(tmp_path: Path) -> None:
    with Stage("toys_to_prepare:talking", tmp_path) as stage:
        server = stage.start_template("fork")
        stage.ready(stage.template)
        before = stage.said()["template.log"]
        assert before.splitlines() == 2 * ["the track is open", "heard b''"]
        for actor in (0, 1):
            stage.fork(server, actor)
            stage.ready(Member(ACTORS, actor))
            stage.stop(actor)
            stage._children[-1].end(PATIENCE)
        said = stage.said()
    assert said["template.log"] == before
    for actor in (0, 1):  # nothing that the template had printed, or the trial before it
        assert not said[f"actor-{actor}.log"]


# -- a sleeper ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("atari")
@pytest.mark.parametrize("env", [CARTPOLE, pytest.param(PONG, marks=pytest.mark.long)])
def test_a_woken_template_is_the_actor(env: str, tmp_path: Path) -> None:
    file = tmp_path / "identity"
    with Stage(env, tmp_path) as stage:
        sleeper = stage.start_template("image", str(file))
        stage.ready(stage.template)
        stage.wake(sleeper, file, 1)
        assert stage.ready(Member(ACTORS, 1)).incarnation == 1
        found = stage.rows(1)
        stage.stop(1)
        assert sleeper.wait(PATIENCE) == 0
    assert found == rows_here(env, 1)
    assert found == plain_rows(env, 1, tmp_path)


def test_a_sleeper_holds_only_its_identity_and_its_log(cartpole: Stage) -> None:
    """So its image belongs to no run's memory and to no other process."""
    file = cartpole.logs / "identity"
    sleeper = cartpole.start_template("image", str(file))
    cartpole.ready(cartpole.template)
    until(lambda: cartpole.node.site.folder not in mapped(sleeper.pid))
    log = str(cartpole.logs / "template.log")
    assert open_files(sleeper.pid) == {0: os.devnull, 1: log, 2: log, IDENTITY_FD: str(file)}
    cartpole.wake(sleeper, file, 0)
    cartpole.ready(Member(ACTORS, 0))
    log = str(cartpole.log(0))
    assert open_files(sleeper.pid) == {0: os.devnull, 1: log, 2: log}


def test_woken_without_an_identity(cartpole: Stage) -> None:
    sleeper = cartpole.start_template("image", str(cartpole.logs / "identity"))
    cartpole.ready(cartpole.template)
    sleeper.send_signal(signal.SIGUSR1)
    assert sleeper.wait(PATIENCE) == 1
    assert "write the identity before sending the signal" in cartpole.said()["template.log"]


# -- both --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("adopting")
@pytest.mark.parametrize("kind", ["fork", "image"])
def test_user_code_that_raises_is_reported(kind: str, tmp_path: Path) -> None:
    with Stage("toys_to_prepare:raising_in_templates", tmp_path) as stage:
        template = stage.start_template(kind, *[str(tmp_path / "identity")] * (kind == "image"))
        report = stage.hear(stage.template)
        assert isinstance(report, Failed)
        assert "no template today" in report.trace
        assert template.wait(PATIENCE) == 3


@pytest.mark.long
@pytest.mark.usefixtures("adopting")
def test_global_random_streams_are_each_actors_own(tmp_path: Path) -> None:
    """Clones and forks have the generators' state in common until they know who they are."""
    env, found = "toys_to_prepare:plain", {}
    with Stage(env, tmp_path) as stage:
        server = stage.start_template("fork")
        stage.ready(stage.template)
        for actor in (0, 1):
            stage.fork(server, actor)
            stage.ready(Member(ACTORS, actor))
            found[actor] = stage.rows(actor, rounds=1)
    assert found[0]["observations"] != found[1]["observations"]
    with Stage(env, tmp_path) as stage:
        sleeper = stage.start_template("image", str(tmp_path / "identity"))
        stage.ready(stage.template)
        stage.wake(sleeper, tmp_path / "identity", 1)
        stage.ready(Member(ACTORS, 1))
        assert stage.rows(1, rounds=1) == found[1]
    with Stage(env, tmp_path) as stage:
        stage.start_plain(1)
        stage.ready(Member(ACTORS, 1))
        assert stage.rows(1, rounds=1) == found[1]
