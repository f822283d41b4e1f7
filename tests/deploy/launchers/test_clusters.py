"""The record of a cluster, the commands of its units, and what `artos up` refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from artos.buffer.shm_folder import ShmFolder
from artos.errors import Refused
from artos.protocol.views import ClusterView, NodeView
from artos.system.usable_cpus import usable_cpus
from artos.transport.address import published
from artos.transport.keys import make_keys
from artos.transport.roles import Holder, KeyRole
from deploy.cli.__main__ import main
from deploy.launchers import bringing_up
from deploy.launchers.cluster import HEAD, RECORD, VARIABLE, Cluster, faults, known, load
from deploy.launchers.engines import kubernetes, slurm
from deploy.launchers.launcher import Here, Unit, names
from deploy.launchers.unit import (
    await_head,
    forget_rows,
    head_command,
    worker_words,
    write_config,
)
from head.daemon.options import config_for_engine, head_options


def cluster(folder: Path, **more: object) -> Cluster:
    given = {"name": folder.name, "engine": "slurm", "folder": str(folder), "least": 1, "most": 1}
    return Cluster(**{**given, **more})  # type: ignore[arg-type]


def test_a_record_is_found_by_name_and_forgotten_with_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    lab = cluster(tmp_path / "lab", worker_options=("--time=60",))
    lab.save()
    assert known() == ["lab"]
    assert load(lab.path) == lab
    assert lab.path.stat().st_mode & 0o777 == 0o700
    (lab.keys).mkdir()
    (lab.runs / "ppo-1").mkdir()
    lab.forget()
    assert known() == []
    assert not lab.keys.exists()
    assert (lab.runs / "ppo-1").exists()
    with pytest.raises(Refused, match="there is no cluster 'lab'"):
        load(lab.path)


def test_a_record_that_was_moved_names_its_new_folder(tmp_path: Path) -> None:
    lab = cluster(tmp_path / "lab")
    lab.save()
    (tmp_path / "lab").rename(tmp_path / "moved")
    assert load(tmp_path / "moved").folder == str(tmp_path / "moved")


@pytest.mark.parametrize(("config", "seconds"), [("", 120.0), ("stop_seconds = 600", 660.0)])
def test_down_waits_as_long_for_the_head_as_its_runs_may_take_to_save(
    config: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    cluster(tmp_path / "lab", config=config).save()
    waited: dict[str, float] = {}

    def end(launcher: object, indexes: object, most: float, what: str, say: object) -> None:
        waited[what] = most

    monkeypatch.setattr(bringing_up, "_end", end)
    monkeypatch.setattr(slurm.Engine, "units", lambda _: [])
    bringing_up.down("lab", print)
    assert waited["the head: its runs save"] == seconds


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text('{"name": 3}')
    with pytest.raises(Refused, match="is no record of a cluster"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "a/b"}, "--name 'a/b'"),
        ({"name": "x" * 41}, "at most 40"),
        ({"least": 3, "most": 2}, "--nodes 3..2"),
        ({"least": 0, "most": 0}, "--nodes 0..0"),
        ({"notice": 0.0}, "--notice 0"),
    ],
)
def test_what_makes_no_cluster(tmp_path: Path, given: dict[str, object], said: str) -> None:
    (fault,) = faults(cluster(tmp_path / "lab", **given))
    assert said in fault


def test_a_node_is_a_worker_of_its_cluster_by_name(tmp_path: Path) -> None:
    lab = cluster(tmp_path / "my-lab")
    assert lab.node(3) == "my-lab-3"
    assert lab.index("my-lab-3") == 3
    assert [lab.index(name) for name in ("my-lab", "lab-3", "my-lab-x", "other-my-lab-3")] == [
        None, None, None, None,
    ]  # fmt: skip


# -- units -------------------------------------------------------------------------------------


def test_a_worker_takes_what_its_unit_has_but_never_more_than_it_may_use(tmp_path: Path) -> None:
    usable = len(usable_cpus())
    for here, slots in ((Here(), usable), (Here(1), 1), (Here(10_000), usable)):
        words = worker_words(cluster(tmp_path), 0, here)
        assert words[words.index("--slots") + 1] == str(slots)
    words = worker_words(cluster(tmp_path, slots=1, notice=60.0), 0, Here(8, "cuda:0"))
    assert words[words.index("--slots") + 1] == "1"
    assert words[words.index("--devices") + 1] == "cuda:0"
    assert float(words[words.index("--stop-seconds") + 1]) < 60.0


def test_workers_of_a_cluster_have_its_labels(tmp_path: Path) -> None:
    words = worker_words(cluster(tmp_path, labels=("avx512", "room=b")), 0, Here())
    assert words[-4:] == ["--label", "avx512", "--label", "room=b"]
    assert faults(cluster(tmp_path, labels=("no word",))) == [
        "--label 'no word': write a word, or NAME=WORD"
    ]


def test_workers_look_where_their_machines_are_said_to_be_taken_back(tmp_path: Path) -> None:
    words = worker_words(cluster(tmp_path, notice_at="http://10.0.0.1/notice"), 0, Here())
    assert words[words.index("--notice") + 1] == "http://10.0.0.1/notice"
    assert "--notice" not in worker_words(cluster(tmp_path), 0, Here())
    (fault,) = faults(cluster(tmp_path, notice_at="ftp://10.0.0.1/notice"))
    assert fault.startswith("a notice at ftp://10.0.0.1/notice: write a file, or http://")


@pytest.mark.parametrize("name", ["dqn-1", "sweep/of/dqn-1"])
def test_rows_of_killed_runs_stay_in_memory_until_their_cluster_ends(
    name: str, tmp_path: Path
) -> None:
    lab = cluster(tmp_path / "lab")
    lab.save()
    run, other = lab.runs / name, tmp_path / "dqn-2"
    for each in (run, other):
        each.mkdir(parents=True)
        killed = ShmFolder.create(each.name)
        killed.keep_for(each)
        killed.leave()
    forget_rows(lab)
    (kept,) = ShmFolder.left_by(run)
    kept.leave()
    lab.end_file.touch()
    forget_rows(lab)
    assert ShmFolder.left_by(run) == []
    (others,) = ShmFolder.left_by(other)
    others.remove()


def test_runs_share_the_slots_of_a_clusters_workers_if_they_may(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--runs-per-slot" not in worker_words(cluster(tmp_path), 0, Here())
    words = worker_words(cluster(tmp_path, runs_per_slot=3), 0, Here())
    assert words[words.index("--runs-per-slot") + 1] == "3"
    up = ("up", "--on", "kubernetes", "--nodes", "1", "--runs-per-slot", "3", "--dry-run")
    assert main(up) == 0
    assert r"\"runs_per_slot\":3" in capsys.readouterr().out


def test_a_head_that_starts_again_on_its_machine_listens_at_its_port(tmp_path: Path) -> None:
    lab = cluster(tmp_path / "lab")
    lab.save()
    assert "tcp://0.0.0.0:0" in head_command(lab, Here())
    with published(lab.address, "tcp://10.0.0.1:7711"):
        assert "tcp://0.0.0.0:7711" in head_command(lab, Here())
        assert "tcp://0.0.0.0:0" in head_command(lab, Here(), any_port=True)
        elsewhere = msgspec.json.decode(lab.address.read_bytes()) | {"host": "another"}
        lab.address.write_bytes(msgspec.json.encode(elsewhere))
        assert "tcp://0.0.0.0:0" in head_command(lab, Here())


def test_a_head_has_the_admins_and_quotas_that_its_cluster_was_given(tmp_path: Path) -> None:
    """What ``artos up --config`` was given is what the head reads, on whatever machine it is."""
    file = tmp_path / "mine.toml"
    file.write_text('admins = ["ann"]\n[quotas.users]\nben = {slots = 2}\n')
    lab = cluster(tmp_path / "lab", config=config_for_engine(file))
    lab.save()
    file.unlink()
    there = load(lab.path)
    write_config(there)
    command = head_command(there, Here())
    read = Path(command[command.index("--config") + 1])
    options = head_options(read, {"listen": "tcp://0.0.0.0:0", "keys": lab.keys})
    assert options.admins == ("ann",)
    assert options.quotas.users["ben"].slots == 2
    lab.forget()
    assert not read.exists()


def test_a_worker_of_another_version_says_so(tmp_path: Path) -> None:
    lab = cluster(tmp_path / "lab")
    lab.save()
    with published(lab.address, "tcp://10.0.0.1:7711"):
        other = msgspec.json.decode(lab.address.read_bytes()) | {"version": "0.0.1"}
        lab.address.write_bytes(msgspec.json.encode(other))
        with pytest.raises(Refused, match=r"is ARTOS 0\.0\.1"):
            await_head(lab)


# -- the commands ------------------------------------------------------------------------------


def test_a_shell_takes_over_what_up_prints_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is in the paths, and whatever the engine's client prints meanwhile."""
    folder = tmp_path / "it's mine $HOME"

    def up(wanted: Cluster, wait: float, say: object) -> bringing_up.Started:
        print("Ray says hello")
        return bringing_up.Started(
            wanted.name, wanted.engine, str(folder), str(folder / "keys"), f"file:{folder}/head"
        )

    monkeypatch.setattr(bringing_up, "up", up)
    assert main(("up", "--on", "slurm", "--nodes", "2", "--env")) == 0
    script = capsys.readouterr().out + 'printf "%s\\n%s" "$ARTOS_HEAD" "$ARTOS_KEYS"'
    told = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.split("\n") == [f"file:{folder}/head", f"{folder}/keys"]


@pytest.mark.parametrize(
    ("engine", "up", "down", "paths"),
    [
        (
            "slurm", "  runs, logs and keys: {}\n", "its runs and logs stay in {}\n",
            ("{}/runs", "{}/logs"),
        ),
        (
            "kubernetes",
            "  keys: {}/keys; runs: in volume runs-lab-head-0; logs: those of its pods\n",
            "its runs stay in volume runs-lab-head-0\n", ("runs-lab-head-0", ""),
        ),
    ],
)  # fmt: skip
def test_where_runs_and_logs_are_is_told(
    engine: str, up: str, down: str, paths: tuple[str, str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    lab = cluster(tmp_path / "lab", engine=engine)
    started = bringing_up.Started(lab.name, engine, lab.folder, str(lab.keys), "file:head.json")
    monkeypatch.setattr(bringing_up, "up", lambda *_: started)
    monkeypatch.setattr(bringing_up, "down", lambda *_, **__: lab)
    assert main(("up", "--on", engine, "--nodes", "1", "--name", "lab")) == 0
    assert up.format(lab.folder) in capsys.readouterr().out
    assert main(("down", "lab")) == 0
    assert down.format(lab.folder) in capsys.readouterr().out
    assert main(("down", "lab", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["logs"]) == tuple(path.format(lab.folder) for path in paths)


@pytest.mark.parametrize("flags", [(), ("--env",), ("--json",)])
def test_the_head_of_a_network_of_its_own_is_reached_by_a_forwarded_port(
    flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Its own name means nothing at the desk."""

    def up(wanted: Cluster, wait: float, say: object) -> bringing_up.Started:
        lab, units = cluster(tmp_path / "lab", engine="kubernetes"), (HEAD, 0)
        there = [Unit(index, f"u{index}") for index in units]
        asked = bringing_up.Asked(1.0, 0.0)
        return bringing_up._look_at_units(lab, kubernetes.Engine(lab), there, asked)

    monkeypatch.setattr(bringing_up, "up", up)
    assert main(("up", "--on", "kubernetes", "--nodes", "1", *flags)) == 0
    told = capsys.readouterr()
    forward = "kubectl port-forward service/lab-head 7700"
    if flags == ("--json",):
        found = json.loads(told.out)
        assert (found["name"], found["head"]) == ("lab", "tcp://lab-head:7700")
        assert (found["address"], found["forward"]) == ("tcp://127.0.0.1:7700", forward)
    else:
        assert "export ARTOS_HEAD=tcp://127.0.0.1:7700" in told.out
        assert f"run: {forward} &" in (told.err if flags else told.out)
        assert "lab-head:" not in told.out


@pytest.mark.parametrize(
    ("units", "missing"),
    [
        (
            [Unit(HEAD, "head", ready=False), Unit(0, "w0"), Unit(1, "w1", "waits", why="no CPU")],
            [r"the head \(.*, it runs but does not answer\)", r"1 of 2 workers \(.*, no CPU\)"],
        ),
        (
            [Unit(HEAD, "head"), Unit(0, "w0"), Unit(1, "w1", ready=False)],
            [r"1 of 2 workers \(.*, worker 1 runs but has not joined the head\)"],
        ),
        (
            [Unit(HEAD, "head"), *(Unit(index, f"w{index}", ready=False) for index in range(10))],
            [r"2 of 2 .*, workers 0, 1, 2, 3, 4, 5, 6, 7 and 2 more run but have not joined .*"],
        ),
    ],
)
def test_what_runs_but_is_not_with_the_head_is_missing(
    tmp_path: Path, units: list[Unit], missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes.Engine, "refusal", lambda *_: "")
    lab = cluster(tmp_path / "lab", engine="kubernetes", least=2, most=2)
    started = bringing_up._look_at_units(
        lab, kubernetes.Engine(lab), units, bringing_up.Asked(1.0, 0.0)
    )
    assert len(started.missing) == len(missing)
    for said, pattern in zip(started.missing, missing, strict=True):
        assert re.fullmatch(pattern, said)
    assert "lab-1" not in {node.name for node in started.nodes}


def gone(name: str, seconds: float) -> NodeView:
    return NodeView(name=name, alive=False, slots=1, silent_seconds=seconds)


@pytest.mark.parametrize(
    ("units", "nodes", "again_at", "since"),
    [
        ([Unit(0, "w0", "waits", since=500.0)], [], 900.0, 500.0),
        ([Unit(0, "w0", "runs", since=200.0)], [gone("lab-0", 50.0)], 900.0, 950.0),
        ([Unit(0, "w0", "ends", since=200.0)], [], 0.0, 100.0),
        ([Unit(0, "w0", "waits")], [], 0.0, 100.0),
        ([], [gone("lab-0", 800.0), gone("lab-1", 50.0)], 900.0, 950.0),
        ([], [gone("desk", 50.0)], 0.0, 100.0),
        ([Unit(0, "w0")], [], 900.0, None),
    ],
)
def test_since_when_a_worker_is_missing_is_told_if_anybody_knows(
    units: list[Unit], nodes: list[NodeView], again_at: float, since: float | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The head of one that it no longer hears, else its engine, else the first `artos up`."""
    lab = cluster(tmp_path / "lab")
    view = ClusterView(nodes=tuple(nodes), version="1")
    monkeypatch.setattr(bringing_up, "published_in", lambda _: SimpleNamespace(endpoint="tcp://x"))
    monkeypatch.setattr(
        bringing_up, "HeadClient",
        lambda *_, **__: nullcontext(SimpleNamespace(cluster=lambda: view)),
    )  # fmt: skip
    monkeypatch.setattr(slurm.Engine, "units", lambda _: units)
    monkeypatch.setattr(slurm.Engine, "refusal", lambda *_: "")
    monkeypatch.setattr(bringing_up.time, "time", lambda: 1_000.0)
    asked = bringing_up.Asked(100.0, again_at)
    (missing,) = bringing_up._wait(lab, slurm.Engine(lab), asked, 0.0, print).missing
    then = datetime.fromtimestamp(again_at if since is None else since).astimezone()
    before = "before " if since is None else ""
    assert missing.startswith(f"1 of 1 workers (since {before}{then:%Y-%m-%d %H:%M:%S}")


def test_what_a_worker_said_long_before_is_not_why_it_is_missing(tmp_path: Path) -> None:
    lab = cluster(tmp_path / "lab")
    lab.save()
    lab.log(0).write_text("artos: no room here\n")
    os.utime(lab.log(0), (500.0, 500.0))
    assert bringing_up._last_line(lab, [0], 400.0) == "no room here"
    assert bringing_up._last_line(lab, [0], 530.0) == "no room here", "the head hears it later"
    assert bringing_up._last_line(lab, [0], 600.0) == ""


def test_when_a_cluster_was_asked_for_is_that_of_its_record(tmp_path: Path) -> None:
    lab = cluster(tmp_path / "lab")
    lab.save()
    os.utime(lab.path / RECORD, (100.0, 100.0))
    assert lab.asked_at == 100.0


def test_dry_run_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    words = ("up", "--on", "slurm", "--nodes", "2..8", "--name", "lab", "--dry-run")
    assert main(words) == 0
    assert "#SBATCH --array=0,1" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("up", "--on", "slum", "--nodes", "2"), "did you mean slurm?"),
        (("up", "--on", "ssh", "--nodes", "two"), "--nodes 'two': write N or MIN..MAX"),
        (("up", "--on", "ssh", "--nodes", "2"), "give --hosts FILE"),
        (("up", "--on", "ssh", "--nodes", "1", "--hosts", "/nowhere"), "--hosts /nowhere"),
        (("down", "lab"), "there is no cluster 'lab'"),
    ],
)
def test_wrong_commands_are_refused_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    monkeypatch.setenv(VARIABLE, str(tmp_path / "clusters"))
    assert main(words) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "clusters").exists()


def test_a_quote_that_is_not_closed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(("up", "--on", "ssh", "--nodes", "1", "--head-options=-p '1"))
    assert "--head-options: -p '1: No closing quotation" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("engine", "flags", "said"),
    [
        ("ssh", (), ["give --hosts FILE"]),
        ("ssh", ("--hosts", "{}/hosts"), ["--hosts names 1 hosts for --nodes 2"]),
        (
            "ssh",
            ("--hosts", "{}/odd"),
            ["ssh: --hosts: '-v' is no host: write one a line", "'desk1 desk2' is no host"],
        ),
        ("ray", ("--worker-options=GPU",), ["give --slots", "option 'GPU'"]),
        ("kubernetes", ("--worker-options=cpus=3",), ["--worker-options 'cpus=3'"]),
        ("slurm", ("--hosts", "{}/hosts"), ["slurm: --hosts makes no difference"]),
        ("ray", ("--hosts", "{}/hosts", "--slots=1"), ["ray: --hosts makes no difference"]),
        (
            "kubernetes",
            ("--hosts", "{}/hosts", "--python=/opt/python"),
            [
                "--hosts makes no difference",
                "--python makes no difference: it is that of the image",
            ],
        ),
        ("ssh", ("--head-options=-v",), ["ssh: --head-options makes no difference"]),
        ("slurm", ("--no-scaling",), ["slurm: --no-scaling: nobody else would start its workers"]),
        ("slurm", ("--slots=8", "--runs-per-slot=16"), ["so 8 slots take 12"]),
        ("slurm", ("--runs-per-slot=0",), ["--runs-per-slot 0: it must be 1 or more"]),
    ],
)
def test_a_dry_run_refuses_what_the_engine_would_not_understand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
    engine: str, flags: tuple[str, ...], said: list[str],
) -> None:  # fmt: skip
    (tmp_path / "hosts").write_text("desk1\n# desk2\n")
    (tmp_path / "odd").write_text("-v\ndesk1 desk2\n")
    given = [flag.format(tmp_path) for flag in flags]
    assert main(("up", "--on", engine, "--nodes", "2", "--dry-run", *given)) == 2
    told = capsys.readouterr().err
    assert [words for words in said if words not in told] == []


def test_what_is_wrong_in_a_config_is_told_at_once_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "clusters"))
    (tmp_path / "head.toml").write_text('runs = "mine"\nadmin = ["ann"]\n')
    words = ("up", "--on", "ssh", "--nodes", "1", "--config", str(tmp_path / "head.toml"))
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "did you mean admins?" in said
    assert "itself tells the head runs: remove the line" in said
    assert not (tmp_path / "clusters").exists()


def test_keys_of_a_cluster_that_cannot_be_asked_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its pods have copies: a key that is revoked in the folder alone is still accepted."""
    lab = cluster(tmp_path / "lab", engine="kubernetes")
    lab.save()
    make_keys(lab.keys, Holder(KeyRole.USER, "ann"))
    revoke = ("keys", str(lab.keys), "--user", "ann", "--revoke")
    monkeypatch.setattr(
        kubernetes.Engine, "faults", staticmethod(lambda _: ["kubernetes: no context"])
    )
    assert main(revoke) == 2
    assert "no context" in capsys.readouterr().err
    assert (lab.keys / "users" / "ann.key").exists()
    monkeypatch.setattr(kubernetes.Engine, "faults", staticmethod(lambda _: []))
    monkeypatch.setattr(kubernetes.Engine, "hand_out_keys", lambda _: 90.0)
    assert main(revoke) == 0
    assert "refused once the head's copy of the keys is new, in about 90" in capsys.readouterr().out


def test_keys_in_a_folder_that_the_head_reads_count_from_now_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = cluster(tmp_path / "lab")
    lab.save()
    make_keys(lab.keys, Holder(KeyRole.USER, "ann"))
    assert main(("keys", str(lab.keys), "--user", "ann", "--revoke")) == 0
    assert "refused from now on" in capsys.readouterr().out


def test_every_engine_is_found_by_its_file() -> None:
    assert {*names()} == {"kubernetes", "ray", "slurm", "ssh"}
    assert HEAD not in range(1000)


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ("slurm", "cannot be found: run this on a machine that submits jobs"),
        ("ssh", "there is no ssh on this machine (Debian: openssh-client)"),
        ("ray", "it is not installed here: pip install ray"),
        ("kubernetes", "Invalid kube-config file"),
    ],
)
def test_an_engine_that_is_not_here_is_named_and_nothing_is_left(
    engine: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ray", None)
    lab = cluster(tmp_path / "lab", engine=engine, hosts=("a",) if engine == "ssh" else ())
    with pytest.raises(Refused, match=f"{engine}: ") as caught:
        bringing_up.up(lab, 1.0, print)
    assert says in str(caught.value)
    assert not lab.path.exists()
