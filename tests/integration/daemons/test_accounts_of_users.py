"""Two users share a cluster whose daemons are root: what they have there is their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from elastic import why_not
from helpers import PATIENCE, SUPPORT
from other_users import readable_by_all, why_no_user
from real_cluster import Cluster, Command, end_all

from artos.buffer.shm_folder import PREFIX
from artos.pool.view import read_pool
from artos.system.account import SystemAccount
from artos.transport.keys import make_keys
from artos.transport.roles import Holder, KeyRole
from workers.checkpoint.criu.find import find_criu
from workers.checkpoint.tiers import OF_A_USER

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_no_user()), reason=why_no_user()),
]
IMAGES = not why_not()
USERS = {"ann": 64_311, "ben": 64_312}
ACCOUNTS = '[accounts]\nann = "artos-ann"\nben = "artos-ben"\n'
ROWS = {"ann": 20_000, "ben": 3200}
ENDS = ("-1.json", "-2.json", "/", ".", '"')
"""What follows the name of a run on command lines."""
MODULES = ("head.run ", "head.replay ", "artos.runtime.", "workers.executor ", "workers.agent ")


class Place:
    """A folder that all may enter: homes of ann and ben, shared memory, code, one secret file."""

    def __init__(self, folder: Path, shm: Path) -> None:
        folder.chmod(0o755)
        shm.chmod(0o1777)
        self.folder, self.shm, self.code = folder, shm, folder / "code"
        for each in (self.code, folder / "interpreter"):
            each.mkdir()
        shutil.copy(SUPPORT / "counting.py", self.code)
        if IMAGES:
            shutil.copy(find_criu(), folder / "criu")
        self.secret = folder / "secret"
        self.secret.write_text("of root")
        self.secret.chmod(0o600)
        for user, uid in USERS.items():
            (home := folder / user).mkdir(mode=0o700)
            (home / "slow").touch()
            os.chown(home, uid, uid)

    def machine(self, *users: str) -> tuple[str, ...]:
        """What runs a command where these users have accounts."""
        known = self.folder / f"accounts-of-{len(users)}"
        lines = [
            f"artos-{user}:x:{USERS[user]}:{USERS[user]}::{self.folder / user}:/bin/sh"
            for user in users
        ]
        known.write_text("\n".join([Path("/etc/passwd").read_text(), *lines, ""]))
        more = f"mount --bind {known} /etc/passwd"
        return (*readable_by_all(self.folder / "interpreter", more),)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with (
        tempfile.TemporaryDirectory(prefix="artos-accounts-", dir="/tmp") as folder,
        tempfile.TemporaryDirectory(prefix="artos-accounts-", dir="/dev/shm") as shm,
    ):
        monkeypatch.setenv("ARTOS_SHM", shm)
        there = Place(Path(folder), Path(shm))
        monkeypatch.setenv("ARTOS_CRIU", f"{folder}/criu")
        yield there


@pytest.fixture
def cluster(place: Place) -> Iterator[Cluster]:
    there = Cluster(place.folder, config=ACCOUNTS, within=place.machine(*USERS))
    make_keys(there.keys, *(Holder(KeyRole.USER, user) for user in USERS))
    for user in USERS:  # each has a folder without anybody else's key
        (folder := place.folder / f"key-{user}" / "users").mkdir(mode=0o700, parents=True)
        shutil.copy(there.keys / "head.key", folder.parent)
        for end in ("key", "key_secret"):
            shutil.copy(there.keys / "users" / f"{user}.{end}", folder)
    try:
        yield there
    finally:
        end_all(place.folder)
        for left in place.shm.glob(f"{PREFIX}*"):  # of a user, so not reaped by us
            shutil.rmtree(left)
        there.close()


def start(cluster: Cluster, user: str, *arguments: object) -> Command:
    """A command with the user's key, started where the code is."""
    flags = ("--head", cluster.endpoint, "--keys", cluster.folder / f"key-{user}", "--json")
    name = f"{user}{len(cluster.others)}"
    return cluster.start(name, *arguments, *flags, cwd=cluster.folder / "code")


def submit(
    cluster: Cluster, user: str, run: str, *flags: object, workload: str = "counting.py:workload"
) -> Command:
    wanted = (workload, "--total-steps", ROWS[user], "--run-dir", run, "--wait")
    return start(cluster, user, "submit", *wanted, *flags)


def as_user(user: str, *command: str | Path) -> bool:
    """Whether the user's account can do that."""
    uid = USERS[user]
    done = subprocess.run(
        command, user=uid, group=uid, extra_groups=[], cwd="/", capture_output=True, check=False
    )
    return done.returncode == 0


def users_of(cluster: Cluster, run: str) -> dict[str, set[int]]:
    """Whose the processes of a run are, by module."""
    found = {}
    for module in MODULES:
        processes = [
            each for each in cluster.processes(module)
            if any(f"{run}{end}" in " ".join(each.cmdline()) for end in ENDS)
        ]  # fmt: skip
        found[module] = {uid for each in processes for uid in each.uids()}
    return found


def assert_done(cluster: Cluster, user: str, waits: Command) -> None:
    """The run of a user, which may be as fast as it can from here on, learned from all rows."""
    (cluster.folder / user / "slow").unlink()
    assert waits.wait() == 0, cluster.story()
    assert json.loads(waits.out)["steps"] == ROWS[user]


def starts_of(cluster: Cluster, run: str) -> Counter[str]:
    """How often the processes of a run's actors were begun, by kind."""
    lines = (cluster.runs / run / "journal.jsonl").read_text().splitlines()
    found = [line for line in map(json.loads, lines) if line.get("ready", "").startswith("actor")]
    return Counter(line["start"] for line in found)


def assert_images_are_the_accounts_own(cluster: Cluster) -> None:
    """Ben can neither dump an actor of ann's nor bring back an image of hers that he has got."""
    (facts,) = cluster.folder.glob("w1/artos/nodes/*/of-ann/**/facts.json")
    about = facts.parent.stat()
    assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (USERS["ann"], 0o700)
    got = cluster.folder / "ben" / "got"
    shutil.copytree(facts.parent, got)
    for path in (got, *got.iterdir()):
        os.chown(path, USERS["ben"], USERS["ben"])
    assert "Permission denied" in criu_of("ben", "restore", "-D", got)
    actor = next(p for p in cluster.processes(MODULES[2]) if p.uids().real == USERS["ann"])
    said = criu_of("ben", "dump", "-D", got, "-t", actor.pid)
    assert f"Unable to interrupt task: {actor.pid} (Operation not permitted)" in said


def criu_of(user: str, *arguments: object) -> str:
    """What CRIU says when it fails with the rights that a worker gives to executors of a user."""
    uid, binary, rights = USERS[user], os.environ["ARTOS_CRIU"], tuple(OF_A_USER.values())
    account = SystemAccount(f"artos-{user}", uid, uid, (uid,), "/", binary, rights)
    done = subprocess.run(
        [*account.entry, binary, *map(str, arguments), "--unprivileged"], **account.switching,
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode != 0
    return str(done.stderr)


def test_users_have_processes_and_files_of_their_own(cluster: Cluster, place: Place) -> None:
    cluster.start_worker("w1")
    cluster.alive("w1")
    start_by = {"ann": "clone", "ben": "fork"}
    waits = {
        user: submit(cluster, user, f"of-{user}", "--set", f"start={start_by[user]}")
        for user in USERS
    }
    for user in USERS:
        cluster.until_under_way(f"of-{user}")
    for user, uid in USERS.items():
        run, (other,) = cluster.runs / f"of-{user}", USERS.keys() - {user}
        assert users_of(cluster, run.name) == {module: {uid} for module in MODULES}, cluster.story()
        memory = [*place.shm.glob(f"{PREFIX}{run.name}*")]
        assert len(memory) == 2, "the head's and the node's"
        for folder in (run, *memory):
            about = folder.stat()
            assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (uid, 0o700)
            assert as_user(user, "ls", folder)
            assert not as_user(other, "ls", folder)
        closed = (cluster.keys / "head.key_secret", cluster.runs / ".head" / "lock", place.secret)
        assert not any(as_user(user, "cat", path) for path in closed)
        assert cluster.status()[1][run.name]["account"] == f"artos-{user}"
    shared = read_pool(place.shm / "artos-pool-accounts").workloads
    assert {each.workload.partition(".")[0] for each in shared} == {"of-ann", "of-ben"}

    if IMAGES:
        assert_images_are_the_accounts_own(cluster)

    # What a user puts into the folder of a run leads root nowhere.
    (log := cluster.runs / "of-ann" / "logs" / "mine.log").symlink_to(place.secret)
    said = start(cluster, "ann", "logs", "of-ann", "--log", "mine")
    assert said.wait() == 0
    assert json.loads(said.out)["text"] == ""
    log.unlink()

    # A head that is started again finds both; a run process that was killed goes on.
    cluster.head.kill()
    (killed,) = [p for p in cluster.processes("head.run ") if "of-ben" in " ".join(p.cmdline())]
    cluster.start_head()
    killed.send_signal(signal.SIGKILL)
    cluster.until(lambda: cluster.status()[1]["of-ben"]["restarts"] == 1)
    assert_done(cluster, "ben", waits["ben"])

    # A node that is drained hands actors on in mid-episode.
    cluster.start_worker("w2")
    cluster.alive("w1", "w2")
    cluster.ask("drain", "w1")
    cluster.until(lambda: cluster.status()[1]["of-ann"]["facts"]["nodes"] == {"w2": [0, 1]})
    if IMAGES:
        cluster.until(lambda: starts_of(cluster, "of-ann") == {"clone": 2, "moved": 2})
    cluster.until(
        lambda: all(whose == {USERS["ann"]} for whose in users_of(cluster, "of-ann").values())
    )
    assert_done(cluster, "ann", waits["ann"])

    got = cluster.folder / "got"
    assert start(cluster, "ann", "get", "of-ann", got).wait() == 0, cluster.story()
    assert json.loads((got / "summary.json").read_text())["outcome"] == "done"
    said = cluster.refused("submit", "--resume", "of-ann", "--total-steps", 40_000)
    assert f"belongs to user {USERS['ann']}" in said, "also to an admin"
    assert cluster.status()[1]["of-ann"]["user"] == "ann"
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w2": 0, "head": 0}
    assert [*place.shm.iterdir()] == []
    for user in USERS:
        left = {path.name for path in (cluster.runs / ".accounts" / f"artos-{user}").iterdir()}
        assert left == {"code"}


def test_a_run_of_a_user_lives_where_its_device_is(cluster: Cluster, place: Place) -> None:
    shutil.copy(SUPPORT / "placed.py", place.code)
    cluster.start_worker("w1", "--devices", "cpu:a")
    cluster.alive("w1")
    run, ours = "of-ben", {USERS["ben"]}
    waits = submit(cluster, "ben", run, "--device", "pool", workload="placed.py:workload")
    cluster.until_under_way(run)
    assert users_of(cluster, run) == dict.fromkeys(MODULES, ours), cluster.story()
    assert cluster.status()[1][run]["carrier"] == "w1"
    (process,) = cluster.processes("head.run ")
    assert process.ppid() == cluster.workers["w1"].process.pid
    handed = [*cluster.folder.glob(f"w1/artos/nodes/*.runs/{run}/**/*")]
    assert {path.stat().st_uid for path in handed} == ours
    assert not as_user("ann", "ls", handed[0].parent)
    assert not as_user("ann", "ls", cluster.runs / run)

    cluster.workers["w1"].kill()
    cluster.start_worker("w2")
    cluster.until(lambda: cluster.status()[1][run]["restarts"] == 1)
    cluster.until(lambda: users_of(cluster, run) == dict.fromkeys(MODULES, ours))
    assert_done(cluster, "ben", waits)
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w2": 0, "head": 0}
