"""What is asked of Kubernetes, against a stand-in for its API server; pods run nothing."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import PATIENCE, ROOT, SUPPORT
from inline_runs import commanded
from real_runs import Artos, Outcome

from artos.clock import Deadline, ManualClock
from artos.protocol.views import ClusterView, NodeView, RunView
from deploy.launchers import cluster as clusters
from deploy.launchers.cluster import HEAD, Cluster
from deploy.launchers.keeper import Keeper
from deploy.launchers.launcher import EngineFailed, Launcher, launcher_of
from evaluation.lab.packages import python_with

pytestmark = [pytest.mark.processes, pytest.mark.long]

KMOCK = "kmock==0.8"


class Api:
    """The stand-in, as a process, and the commands of a user of it."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self.folder = process, folder
        context = {
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "clusters": [{"name": "here", "cluster": {"server": self._said()}}],
            "users": [{"name": "me", "user": {"token": "t"}}],
        }  # fmt: skip
        (folder / "config").write_text(json.dumps(context))

    def ask(self, verb: str, value: Any = 0) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps({verb: value})}\n")
        self._process.stdin.flush()
        return self._said()

    def _said(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def begun(self, *words: str, desk: str = "clusters") -> Artos:
        """A command as a process of its own, beside others."""
        (place := self.folder / f"at-{desk}").mkdir()
        return Artos(place, words, **self._at(desk))

    def tried(self, *words: str, desk: str = "clusters") -> Outcome:
        """A command in this process: to import the client takes longer than most of them."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._at(desk).items():
                patch.setenv(name, value)
            return commanded(self.folder, words)

    def artos(self, *words: str) -> Any:
        done = self.tried(*words, "--json")
        assert done.status == 0, done.err
        return done.summary

    def _at(self, desk: str) -> dict[str, str]:
        (there := self.folder / desk).mkdir(exist_ok=True)
        return {**self.variables, clusters.VARIABLE: str(there)}

    @property
    def variables(self) -> dict[str, str]:
        return {
            "PYTHONPATH": str(ROOT), "KUBECONFIG": str(self.folder / "config"),
            clusters.VARIABLE: str(self.folder / "clusters"),
        }  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One for all tests: the client reads where its file is only once."""
    folder = tmp_path_factory.mktemp("kubernetes")
    python = python_with(folder / "python", KMOCK)
    process = subprocess.Popen(
        [python, SUPPORT / "kubernetes_api.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    with process, pytest.MonkeyPatch.context() as patch:
        there = Api(process, folder)
        for name, value in there.variables.items():
            patch.setenv(name, value)
        try:
            yield there
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE)


@pytest.fixture
def api(server: Api) -> Iterator[Api]:
    yield server
    server.ask("room", 100)
    server.ask("quota", 100)
    server.ask("forbid", "")
    server.ask("conflict", "")
    server.ask("held", {})
    server.ask("trouble", [])
    server.tried("down", "lab")  # of a test that failed


def up(api: Api, nodes: str, *words: str) -> dict[str, Any]:
    started: dict[str, Any] = api.artos(
        "up", "--on", "kubernetes", "--nodes", nodes, "--name", "lab", "--wait", "60", *words
    )
    return started


def workers(launcher: Launcher) -> dict[int, str]:
    return {u.index: u.state for u in launcher.units() if u.index != HEAD and u.state != "ends"}


def until(launcher: Launcher, wanted: dict[int, str]) -> None:
    until_so(lambda: workers(launcher) == wanted)


def until_so(condition: Callable[[], bool]) -> None:
    deadline = Deadline(PATIENCE)
    while not condition():
        assert not deadline.passed
        time.sleep(0.1)


def kept() -> Cluster:
    return clusters.load(clusters.clusters() / "lab")


def head(wants: int, nodes: int) -> Any:
    """What the keeper asks of a head."""
    there = (NodeView(name=f"lab-{n}", alive=True, slots=1) for n in range(nodes))
    runs = (RunView(name="r", state="running", wants=wants),) if wants else ()
    view = ClusterView(nodes=tuple(there), runs=runs)
    return SimpleNamespace(cluster=lambda: view)


def test_a_cluster_comes_grows_shrinks_and_goes(api: Api) -> None:
    before = api.ask("objects")
    started = up(api, "1..3")
    assert not started["missing"]
    assert [node["name"] for node in started["nodes"]] == ["lab-0"]
    assert up(api, "1..3")["joined"]
    other = api.tried("up", "--on", "kubernetes", "--nodes", "2", "--name", "lab")
    assert "differs" in other.err
    cluster, clock = kept(), ManualClock()
    launcher = launcher_of(cluster)
    keeper = Keeper(cluster, launcher, clock=clock)
    keeper.turn(head(3, 1))
    until(launcher, {0: "runs", 1: "runs", 2: "runs"})
    keeper.turn(head(3, 3))
    assert workers(launcher) == {0: "runs", 1: "runs", 2: "runs"}
    keeper.turn(head(1, 3))
    clock.advance(61)
    keeper.turn(head(1, 3))
    until(launcher, {0: "runs"})
    assert api.artos("down", "lab")["name"] == "lab"
    assert api.ask("objects") == before
    assert not (cluster.path / "keys").exists()


def test_a_cluster_of_that_name_from_another_desk_is_left_alone(api: Api) -> None:
    up(api, "1")
    there = api.ask("objects")
    other = api.tried("up", "--on", "kubernetes", "--nodes", "1", "--name", "lab", desk="other")
    assert other.status == 2
    assert "has a cluster lab that was not started from" in other.err
    assert "take another --name" in other.err
    assert api.ask("objects") == there
    assert up(api, "1")["joined"]
    api.artos("down", "lab")


def test_of_two_that_come_up_at_the_same_moment_one_does(api: Api) -> None:
    before = api.ask("objects")
    words = ("up", "--on", "kubernetes", "--nodes", "1", "--name", "lab", "--wait", "60")
    desks = ("clusters", "other")
    done = [process.wait() for process in [api.begun(*words, desk=desk) for desk in desks]]
    ((desk, _), (_, refused)) = sorted(
        zip(desks, done, strict=True), key=lambda each: each[1].status
    )
    assert sorted(each.status for each in done) == [0, 2], [each.err for each in done]
    assert "take another --name" in refused.err
    assert api.tried("down", "lab", desk=desk).status == 0
    assert api.ask("objects") == before


def test_keys_that_come_or_go_at_the_desk_do_so_in_the_cluster(api: Api) -> None:
    up(api, "1")
    keys = kept().keys
    made = api.artos("keys", str(keys), "--user", "ann")
    assert made["within"] > 0
    assert api.ask("secret", "lab-user-keys") == ["ann.key", "owner.key", "owner.key_secret"]
    api.ask("forbid", "PUT")
    failed = api.tried("keys", str(keys), "--user", "ann", "--revoke")
    assert failed.status == 1
    assert "403: the keeper may not do that" in failed.err
    assert "its cluster is not: repeat its `artos up`" in failed.err
    api.ask("forbid", "")
    assert "ann.key" in api.ask("secret", "lab-user-keys")
    assert up(api, "1")["joined"]
    assert api.ask("secret", "lab-user-keys") == ["owner.key", "owner.key_secret"]
    told = api.tried("keys", str(keys), "--node", "any", "--revoke").out
    assert "revoked node any: it is refused once the head's copy of the keys is new" in told
    assert api.ask("secret", "lab-node-keys") == []
    api.artos("down", "lab")


def test_nothing_of_another_cluster_is_changed_even_before_it_has_a_head(api: Api) -> None:
    """It may be about to be brought up from another desk, or partly removed by hand."""
    from kubernetes import client, config  # noqa: PLC0415

    before = api.ask("objects")
    up(api, "1")
    config.load_kube_config(os.environ["KUBECONFIG"])
    core, key = client.CoreV1Api(), (kept().keys / "head.key").read_text().strip()
    for unit in ("head", "worker"):
        client.AppsV1Api().delete_namespaced_stateful_set(f"lab-{unit}", "default")
    until_so(lambda: not launcher_of(kept()).units())

    def refused_for(what: str) -> None:
        there = api.ask("objects")
        other = api.tried("up", "--on", "kubernetes", "--nodes", "1", "--name", "lab", desk="other")
        assert other.status == 2
        assert f"as it has {what} (" in other.err
        assert "take another --name" in other.err
        assert api.ask("objects") == there
        assert (
            core.read_namespaced_secret("lab-head-keys", "default").string_data["head.key"] == key
        )
        assert not (api.folder / "other" / "lab" / clusters.RECORD).exists()

    refused_for("ConfigMap lab-record")
    core.delete_namespaced_config_map("lab-record", "default")
    refused_for("Secret lab-head-keys")
    api.artos("down", "lab")
    assert api.ask("objects") == before


def test_a_cluster_whose_end_was_broken_off_comes_up_again(api: Api) -> None:
    up(api, "1")
    launcher = launcher_of(kept())
    (head,) = (unit for unit in launcher.units() if unit.index == HEAD)
    launcher.stop(head)
    until_so(lambda: all(unit.index != HEAD for unit in launcher.units()))
    assert not up(api, "1")["missing"]
    api.artos("down", "lab")


def test_a_cluster_that_cannot_be_removed_is_not_forgotten(api: Api) -> None:
    before = api.ask("objects")
    up(api, "1")
    api.ask("forbid", "DELETE")
    refused = api.tried("down", "lab")
    assert refused.status == 1
    assert "`artos down lab` again" in refused.err
    assert refused.err.count("403") > 2, "each that was left is named"
    api.ask("forbid", "")
    api.artos("down", "lab")
    assert api.ask("objects") == before
    assert not (clusters.clusters() / "lab" / clusters.RECORD).exists()


def test_what_does_not_say_whose_it_is_stays_and_is_named(api: Api) -> None:
    from kubernetes import client, config  # noqa: PLC0415

    up(api, "1")
    config.load_kube_config(os.environ["KUBECONFIG"])
    core, mark = client.CoreV1Api(), kept().mark

    def labelled(value: str) -> None:
        labels = {"metadata": {"labels": {"artos-mark": value}}}
        core.patch_namespaced_config_map("lab-record", "default", labels)

    labelled("")
    refused = api.tried("down", "lab")
    assert refused.status == 1
    assert "ConfigMap lab-record has no label artos-mark" in refused.err
    assert "configmaps/lab-record" in api.ask("objects")
    labelled(mark)
    api.artos("down", "lab")


def test_what_it_has_no_room_for_is_told_in_its_words(api: Api) -> None:
    api.ask("room", 2)  # the head and a worker
    started = up(api, "2", "--wait", "5")
    (missing,) = started["missing"]
    assert missing.startswith("1 of 2 workers (since ")
    assert "0/3 nodes are available" in missing
    api.ask("room", 3)
    until(launcher_of(kept()), {0: "runs", 1: "runs"})
    api.artos("down", "lab")


def test_a_quota_that_it_exceeds_is_told_in_its_words(api: Api) -> None:
    api.ask("quota", 2)  # the head and a worker
    (missing,) = up(api, "2", "--wait", "5")["missing"]
    assert missing.startswith("1 of 2 workers (since ")
    assert "exceeded quota: lab" in missing
    api.ask("quota", 100)
    until(launcher_of(kept()), {0: "runs", 1: "runs"})
    api.artos("down", "lab")


def waiting(containers: str, reason: str, message: str, last: str = "") -> dict[str, Any]:
    """What a pod's status says of a container that does not run, or ended with ``last`` words."""
    state = {"waiting": {"reason": reason, "message": message}}
    ended = {"terminated": {"exitCode": 2, "message": last}} if last else {}
    about = {"name": "worker", "image": "artos", "imageID": "", "ready": False, "restartCount": 0}
    return {containers: [{**about, "state": state, "lastState": ended}]}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {
                "phase": "Pending",
                **waiting("initContainerStatuses", "ErrImagePull", "artos: not found"),
            },
            "ErrImagePull: artos: not found",
        ),
        (
            waiting(
                "containerStatuses",
                "CrashLoopBackOff",
                "back-off restarting worker",
                "it starts\nartos: the head is ARTOS 0.0.1\n",
            ),
            "CrashLoopBackOff: back-off restarting worker (the head is ARTOS 0.0.1)",
        ),
    ],
    ids=["image", "crash"],
)
def test_a_worker_whose_container_does_not_run_is_missing_and_says_why(
    api: Api, status: dict[str, Any], said: str
) -> None:
    api.ask("held", status)
    (missing,) = up(api, "1", "--wait", "5")["missing"]
    assert missing.startswith("1 of 1 workers (since ")
    assert said in missing
    api.artos("down", "lab")


def test_a_worker_that_has_not_reached_the_head_is_missing_and_yet_runs(api: Api) -> None:
    unready = {"type": "Ready", "status": "False", "message": "unready: [worker]"}
    api.ask("held", {"conditions": [unready]})
    started = up(api, "1..2", "--wait", "5")
    assert started["nodes"] == []
    (missing,) = started["missing"]
    assert missing.startswith("1 of 1 workers (since ")
    assert missing.endswith("worker 0 runs but has not joined the head)")
    clock, launcher = ManualClock(), launcher_of(kept())
    keeper = Keeper(kept(), launcher, clock=clock)
    keeper.turn(head(2, 0))
    until(launcher, {0: "runs", 1: "runs"})
    keeper.turn(head(0, 0))
    assert workers(launcher) == {0: "runs", 1: "runs"}, "neither is killed as one that waits is"
    api.artos("down", "lab")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("forbid", "403: the keeper may not do that"),
        ("conflict", "409: the object has been modified"),
    ],
)
def test_a_number_of_workers_that_it_does_not_take_is_told_and_asked_for_again(
    api: Api, how: str, said: str
) -> None:
    up(api, "1..2")
    cluster, clock = kept(), ManualClock()
    launcher = launcher_of(cluster)
    keeper = Keeper(cluster, launcher, clock=clock)
    api.ask(how, "PATCH")
    with pytest.raises(EngineFailed, match=said):
        keeper.turn(head(2, 1))
    assert workers(launcher) == {0: "runs"}
    api.ask(how, "")
    clock.advance(16)
    keeper.turn(head(2, 1))
    until(launcher, {0: "runs", 1: "runs"})
    api.artos("down", "lab")


TROUBLES = {"cut": 0, "too many requests": 429, "an error": 500, "overloaded": 503}


@pytest.mark.parametrize("how", TROUBLES.values(), ids=TROUBLES)
def test_a_keeper_goes_on_when_an_api_with_troubles_is_well_again(api: Api, how: int) -> None:
    """Whichever of its requests fails first; and it does not sleep for as long as it is told to."""
    up(api, "1..3")
    cluster, clock = kept(), ManualClock()
    launcher = launcher_of(cluster)
    keeper = Keeper(cluster, launcher, clock=clock)
    for healthy in range(2):  # to see the pods, and to have more
        api.ask("trouble", [how, healthy])
        with pytest.raises(EngineFailed):
            keeper.turn(head(3, 1))
        keeper.turn(head(3, 1))  # it asks for nothing for a while
        api.ask("trouble", [])
        assert workers(launcher) == {0: "runs"}
        clock.advance(16)
    keeper.turn(head(3, 1))
    until(launcher, {0: "runs", 1: "runs", 2: "runs"})
    keeper.turn(head(1, 3))
    clock.advance(61)
    for healthy in range(3):  # to see the pods, how many there are to be, and to have fewer
        api.ask("trouble", [how, healthy])
        with pytest.raises(EngineFailed):
            keeper.turn(head(1, 3))
        api.ask("trouble", [])
        clock.advance(16)
    keeper.turn(head(1, 3))
    until(launcher, {0: "runs"})
    api.artos("down", "lab")


@pytest.mark.parametrize("how", TROUBLES.values(), ids=TROUBLES)
def test_what_an_api_with_troubles_broke_off_is_repeated(api: Api, how: int) -> None:
    before = api.ask("objects")
    for healthy in (0, 7):
        api.ask("trouble", [how, healthy])
        failed = api.tried("up", "--on", "kubernetes", "--nodes", "1", "--name", "lab")
        assert failed.status == 1
        assert "kubernetes did not" in failed.err.lower()
        api.ask("trouble", [])
    assert not up(api, "1")["missing"]
    api.ask("trouble", [how, 9])
    failed = api.tried("down", "lab")
    assert failed.status == 1
    api.ask("trouble", [])
    api.artos("down", "lab")
    assert api.ask("objects") == before


def test_a_head_that_it_refuses_leaves_nothing(api: Api) -> None:
    before = api.ask("objects")
    api.ask("forbid", "POST")
    refused = api.tried("up", "--on", "kubernetes", "--nodes", "1", "--name", "lab")
    assert refused.status == 1
    assert "403" in refused.err
    assert api.ask("objects") == before
    assert not (clusters.clusters() / "lab" / clusters.RECORD).exists()
