"""The file of a head's state: what was saved is there, whatever died, and damage is told."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from artos.errors import Refused
from artos.pool.accounts import Account
from head.daemon.quotas import Quota, Quotas
from head.daemon.roster import Known
from head.daemon.run import Run, Seconds, State
from head.daemon.run_queue import QueueState
from head.daemon.store import Store
from head.daemon.unsaved import Table, Unsaved

STATE = State(
    (Run("r2", {"workload": "ppo"}, "r2", places={0: "w1"}), Run("r1", {}, "r1")),
    (Known("w1", 4, "drained"),),
    QueueState((Account("ppo", seconds=7.5),), 3),
    Quotas({"ann": Quota(slots=2)}),
    {"user ann": Seconds(1.5, 0.5)},
)


def row(name: str = "r3") -> Unsaved:
    changes = Unsaved()
    changes.put(Table.RUN, name, Run(name, {}, name))
    return changes


def saved(folder: Path, *names: str) -> None:
    with Store(folder) as store:
        store.load()
        for name in names:
            store.save(row(name))


def names(folder: Path) -> list[str]:
    with Store(folder) as store:
        return [run.name for run in store.load().runs]


def test_a_head_that_never_ran_has_nothing(tmp_path: Path) -> None:
    assert names(tmp_path) == []
    assert list(tmp_path.iterdir()) == [], "nothing is written before something is saved"


def test_a_file_of_an_older_version_is_moved_here_once(tmp_path: Path) -> None:
    old = tmp_path / "state.json"
    old.write_bytes(content := msgspec.json.encode(STATE))
    for _ in range(2):  # the first head is killed before it saves
        with Store(tmp_path) as store:
            assert msgspec.json.encode(store.load()) == content
    saved(tmp_path, "r3")
    assert not old.exists()
    with Store(tmp_path) as store:
        state = store.load()
    assert [run.name for run in state.runs] == ["r2", "r1", "r3"]
    assert msgspec.json.encode(msgspec.structs.replace(state, runs=STATE.runs)) == content


def test_a_head_killed_while_it_moved_an_old_file_has_moved_it(tmp_path: Path) -> None:
    saved(tmp_path, "r1")
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(STATE))
    assert names(tmp_path) == ["r1"]
    assert not (tmp_path / "state.json").exists()


def test_nothing_is_saved_of_what_cannot_be(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.load()
        store.save(row("r1"))
        changes = row("r2")
        changes.put(Table.RUN, "r3", Run("r3", {}, "\ud800"))
        with pytest.raises(ValueError, match="surrogates"):
            store.save(changes)
        changes.drop(Table.RUN, "r3")
        assert [run.name for run in changes.rows.values()] == ["r2"], "to be tried again"
        store.save(changes)
        assert not changes.rows
    assert names(tmp_path) == ["r1", "r2"]


def test_a_full_disk_is_an_os_error_and_the_next_save_has_it_all(tmp_path: Path) -> None:
    saved(tmp_path, "r1")
    with Store(tmp_path) as store:
        store.load()
        pages = "PRAGMA max_page_count"
        store._db.execute(f"{pages} = 1")
        changes = row("r2")
        changes.put(Table.RUN, "r3", Run("r3", {"much": "x" * 100_000}, "r3"))
        with pytest.raises(OSError, match="full"):
            store.save(changes)
        store._db.execute(f"{pages} = 1000000")
        store.save(changes)
    assert names(tmp_path) == ["r1", "r2", "r3"]


# -- damage ----------------------------------------------------------------------------------------


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:6000])


def overwritten(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:4096] + bytes(len(content) - 4096))


def altered(statement: str) -> Callable[[Path], None]:
    def alter(file: Path) -> None:
        with closing(sqlite3.connect(file)) as db, db:
            db.execute(statement)

    return alter


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "no SQLite": lambda file: file.write_bytes(b'{"runs": ['),
    "cut": cut,
    "overwritten": overwritten,
    "half a row": altered("UPDATE rows SET value = substr(value, 5)"),
    "no JSON in a row": altered("UPDATE rows SET value = 1"),
    "a strange table": altered("UPDATE rows SET kind = 'strange' WHERE name = 'r5'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_and_kept(damage: str, tmp_path: Path) -> None:
    saved(tmp_path, *(f"r{n}" for n in range(100)))
    DAMAGES[damage](file := tmp_path / "state.sqlite")
    content = file.read_bytes()
    with pytest.raises(Refused, match=r"state\.sqlite is damaged .*: move it away; the head then"):
        names(tmp_path)
    assert file.read_bytes() == content


def test_the_log_of_a_file_that_was_moved_away_is_not_read(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.load()
        store.save(row("old"))
        log = (tmp_path / "state.sqlite-wal").read_bytes()
    (tmp_path / "state.sqlite").unlink()
    (tmp_path / "state.sqlite-wal").write_bytes(log)
    saved(tmp_path, "new")
    assert names(tmp_path) == ["new"]


# -- kill -9 ---------------------------------------------------------------------------------------

SAVING = """
import sys
from pathlib import Path
from head.daemon.run import Run
from head.daemon.store import Store
from head.daemon.unsaved import Table, Unsaved

store, changes = Store(Path(sys.argv[1])), Unsaved()
epoch = max((run.epoch for run in store.load().runs), default=0)
while True:
    epoch += 1
    for name in ("r1", "r2", "r3"):
        changes.put(Table.RUN, name, Run(name, {}, "x" * 10_000, epoch=epoch))
    changes.put(Table.NODE, f"w{epoch}", {"name": f"w{epoch}", "slots": 1})
    changes.drop(Table.NODE, f"w{epoch - 1}")
    store.save(changes)
    print(epoch, flush=True)
"""


@pytest.mark.processes
def test_what_was_saved_is_there_after_kill_9_and_nothing_by_halves(tmp_path: Path) -> None:
    told = 0
    for number in (1, 2, 5, 40, 150):
        with subprocess.Popen(
            [sys.executable, "-c", SAVING, str(tmp_path)], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process:  # fmt: skip
            for _ in range(number):
                told = int(process.stdout.readline())
            process.kill()
        with Store(tmp_path) as store:
            state = store.load()
        (epoch,) = {run.epoch for run in state.runs}
        assert epoch >= told
        assert [run.name for run in state.runs] == ["r1", "r2", "r3"]
        assert [node.name for node in state.nodes] == [f"w{epoch}"]
