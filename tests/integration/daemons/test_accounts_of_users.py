"""Two users share a cluster whose daemons are root: each has processes and files of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import SUPPORT
from other_users import readable_by_all, why_no_user
from real_cluster import Cluster, Command, end_all

from artos.buffer.shm_folder import PREFIX
from artos.pool.view import read_pool
from artos.transport.keys import make_keys
from artos.transport.roles import Holder, KeyRole

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_no_user()), reason=why_no_user()),
]
USERS = {"ann": 64_311, "ben": 64_312}
ACCOUNTS = '[accounts]\nann = "artos-ann"\nben = "artos-ben"\n'
ROWS = 4000
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
        yield Place(Path(folder), Path(shm))


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


def submit(cluster: Cluster, user: str, run: str, *flags: object) -> Command:
    wanted = ("counting.py:workload", "--total-steps", ROWS, "--run-dir", run, "--wait")
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
            if any(f"{run}{end}" in " ".join(each.cmdline()) for end in ("-1.json", "/", ".", '"'))
        ]  # fmt: skip
        found[module] = {uid for each in processes for uid in each.uids()}
    return found


def test_users_have_processes_and_files_of_their_own(cluster: Cluster, place: Place) -> None:
    cluster.start_worker("w1")
    cluster.alive("w1")
    waits = {user: submit(cluster, user, f"of-{user}") for user in USERS}
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

    # What a user puts into the folder of a run leads root nowhere.
    (log := cluster.runs / "of-ann" / "logs" / "mine.log").symlink_to(place.secret)
    said = start(cluster, "ann", "logs", "of-ann", "--log", "mine")
    assert said.wait() == 0
    assert json.loads(said.out)["text"] == ""
    log.unlink()

    # A head that is started again finds both; a run process that was killed goes on.
    cluster.head.kill()
    (killed,) = [p for p in cluster.processes("head.run ") if "of-ann" in " ".join(p.cmdline())]
    cluster.start_head()
    killed.send_signal(signal.SIGKILL)
    cluster.until(lambda: cluster.status()[1]["of-ann"]["restarts"] == 1)
    for user in USERS:
        (cluster.folder / user / "slow").unlink()
        assert waits[user].wait() == 0, cluster.story()
        assert json.loads(waits[user].out)["steps"] == ROWS

    got = cluster.folder / "got"
    assert start(cluster, "ann", "get", "of-ann", got).wait() == 0, cluster.story()
    assert json.loads((got / "summary.json").read_text())["outcome"] == "done"
    said = cluster.refused("submit", "--resume", "of-ann")
    assert f"belongs to user {USERS['ann']}" in said, "also to an admin"
    assert cluster.status()[1]["of-ann"]["user"] == "ann"
    cluster.until(lambda: cluster.left() == [])
    assert cluster.stop() == {"w1": 0, "head": 0}
    assert [*place.shm.iterdir()] == []
    for user in USERS:
        left = {path.name for path in (cluster.runs / ".accounts" / f"artos-{user}").iterdir()}
        assert left == {"code"}
