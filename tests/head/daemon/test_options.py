"""What daemons and commands are told: head.toml, flags, environment; all faults at once."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from helpers import ROOT

from artos.errors import Refused
from deploy.cli.__main__ import main
from head.daemon.options import HeadOptions, head_options
from head.daemon.quotas import Quota, Quotas
from head.records.run_folder import RunFolder
from workers.daemon.daemon import WorkerOptions

UNITS = ROOT / "deploy" / "launchers" / "systemd"


def test_a_file_says_all_and_flags_come_first(tmp_path: Path) -> None:
    config = tmp_path / "head.toml"
    config.write_text(
        'listen = "tcp://10.0.0.1:5555"\nkeys = "keys"\nruns = "/srv/runs"\ndeadline = 5\n'
    )
    assert head_options(config, {"listen": None}) == HeadOptions(
        "tcp://10.0.0.1:5555", tmp_path / "keys", Path("/srv/runs"), 5.0
    )
    changed = head_options(config, {"listen": "tcp://10.0.0.2:1", "keys": Path("other")})
    assert (changed.listen, changed.keys, changed.host) == (
        "tcp://10.0.0.2:1", Path("other"), "10.0.0.2",
    )  # fmt: skip


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    config = tmp_path / "head.toml"
    config.write_text(
        'listen = "somewhere"\ndeadline = -1\nruns = 3\ndeadlin = 2\ndevices = "gpu,cpu:"\n'
    )
    with pytest.raises(Refused) as refused:
        head_options(config, {})
    told = "\n".join(refused.value.faults)
    for words in (
        "listen",
        "deadline = -1",
        "runs = 3",
        "'deadlin'",
        "did you mean",
        "keys is",
        "'gpu'",
        "'cpu:'",
    ):
        assert words in told
    assert len(refused.value.faults) == 7


def test_quotas_are_read_and_refused_with_all_else(tmp_path: Path, capsys) -> None:
    config = tmp_path / "head.toml"
    config.write_text("[quotas.users]\nann = { slots = 4 }\n")
    flags = {"listen": "tcp://127.0.0.1:1", "keys": tmp_path}
    assert head_options(config, flags).quotas == Quotas({"ann": Quota(slots=4)})
    config.write_text(
        'deadline = 0\ndevices = "cpu:a"\n[quotas.users]\nann = { slots = 0 }\n'
        "ben = { devices = 2 }\n[quotas.group]\n"
    )
    assert main(["head", "--listen", "tcp://127.0.0.1:1", "--config", str(config)]) == 2
    said = capsys.readouterr().err
    for words in (
        "keys is missing",
        "deadline = 0",
        "quotas.users.ann: slots must be a whole number of 1 or more, not 0",
        "quotas.users.ben: devices = 2, but the cluster has 1",
        "unknown quotas.group",
    ):
        assert words in said


@pytest.mark.parametrize("number", ["0", "-1", "nan", "inf", "1e300"])
def test_seconds_are_those_of_a_clock(number: str, tmp_path: Path) -> None:
    config = tmp_path / "head.toml"
    config.write_text(f"deadline = {number}\n")
    with pytest.raises(Refused, match=r"deadline = .*: must be positive, at most 1e\+08"):
        head_options(config, {"listen": "tcp://127.0.0.1:1", "keys": tmp_path})
    worker = WorkerOptions("tcp://h:1", tmp_path, "w1", stop_seconds=float(number))
    with pytest.raises(Refused, match=r"--stop-seconds must be positive, at most 1e\+08"):
        worker.checked_slots()


def test_a_worker_whose_file_could_not_be_written_is_refused(tmp_path: Path) -> None:
    worker = WorkerOptions("tcp://h:1", tmp_path, "w1", joined=tmp_path / "no" / "joined")
    with pytest.raises(Refused, match=r"--joined .*: its folder cannot be written"):
        worker.checked_slots()


@pytest.mark.parametrize("text", ["listen = ", None])
def test_no_file_and_no_toml_are_refused(text: str | None, tmp_path: Path) -> None:
    config = tmp_path / "head.toml"
    if text is not None:
        config.write_text(text)
    with pytest.raises(Refused, match=r"head\.toml"):
        head_options(config, {"listen": "tcp://127.0.0.1:1", "keys": tmp_path})


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1", "127.0.0.1:1", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:x"]
)
def test_what_is_no_address_is_refused_by_all(
    address: str, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ZeroMQ takes port 99999 for 34463."""
    for flags in (["head", "--listen"], ["worker", "--name", "w1", "--head"], ["list", "--head"]):
        assert main([*flags, address, "--keys", str(keys)]) == 2
        assert "write tcp://" in capsys.readouterr().err


def test_a_head_that_cannot_listen_says_what_to_do_and_leaves_no_folder(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--keys", str(keys), "--runs", str(tmp_path / "runs")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        assert main(["head", "--listen", address, *flags]) == 2
    assert f"{address}: something listens there already" in capsys.readouterr().err
    assert main(["head", "--listen", "tcp://192.0.2.1:1", *flags]) == 2
    assert "no network of this machine has that address" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_all_faults_of_a_worker_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        WorkerOptions(
            "localhost", tmp_path, "a/b", 10_000, stop_seconds=0, devices="gpu"
        ).checked_slots()
    assert len(refused.value.faults) == 5
    assert WorkerOptions("tcp://h:1", tmp_path, "w1", slots=1).checked_slots() == 1


@pytest.mark.parametrize(
    ("many", "fault"), [(0, "it must be 1 or more"), (101, "at most 100 runs")]
)
def test_no_fewer_than_one_run_a_slot_and_no_more_than_can_share(
    tmp_path: Path, many: int, fault: str
) -> None:
    with pytest.raises(Refused, match=f"--runs-per-slot {many}: {fault}"):
        WorkerOptions("tcp://h:1", tmp_path, "w1", slots=1, runs_per_slot=many).checked_slots()
    assert WorkerOptions("tcp://h:1", tmp_path, "w1", slots=1, runs_per_slot=100).checked_slots()


COMMANDS = [
    ("submit", "ppo"), ("drain", "w"), ("worker",),
    *((*command, "--head", "") for command in (("list",), ("status",), ("top",), ("logs", "r"))),
    ("status", "r"), ("logs", "r"), ("stop", "r"), ("scale", "r", "2"),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_a_head_every_command_says_what_to_give(
    command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ARTOS_HEAD", raising=False)
    monkeypatch.delenv("ARTOS_KEYS", raising=False)
    assert main(list(command)) == 2
    said = capsys.readouterr().err
    assert "ARTOS_HEAD" in said
    assert "ARTOS_KEYS" in said


def test_keys_that_are_not_there_are_refused(tmp_path: Path, capsys) -> None:
    flags = ["--head", "tcp://127.0.0.1:1", "--keys", str(tmp_path)]
    assert main(["list", *flags]) == 2
    assert "artos keys" in capsys.readouterr().err
    assert main(["head", "--listen", "tcp://127.0.0.1:*", "--keys", str(tmp_path)]) == 2
    assert "artos keys" in capsys.readouterr().err


def test_scale_without_a_head_looks_for_a_folder(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("ARTOS_HEAD", "tcp://127.0.0.1:1")
    monkeypatch.setenv("ARTOS_KEYS", str(tmp_path))
    RunFolder.create(tmp_path, {}).close()
    assert main(["scale", str(tmp_path), "3"]) == 2
    assert "there is no live run in" in capsys.readouterr().err


# -- systemd ---------------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    assert main(["keys", str(folder)]) == 0
    return folder


def install(tmp_path: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    places = {"UNITS": str(tmp_path), "ETC": str(tmp_path / "etc"), "ARTOS": "/bin/true", **more}
    return subprocess.run(
        [UNITS / "install.sh", *map(str, arguments)], env={**os.environ, **places},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_head_is_installed_by_one_line(keys: Path, tmp_path: Path) -> None:
    done = install(tmp_path, "head", "tcp://10.0.0.1:5555", keys)
    assert done.returncode == 0, done.stderr
    unit = (tmp_path / "artos-head.service").read_text()
    assert "ExecStart=/bin/true head --config" in unit
    assert "@" not in unit
    options = head_options(tmp_path / "etc" / "head.toml", {})
    assert (options.listen, options.keys) == ("tcp://10.0.0.1:5555", keys)


def test_a_worker_is_installed_by_one_line(keys: Path, tmp_path: Path) -> None:
    done = install(tmp_path, "worker", "tcp://10.0.0.1:5555", keys, "--name", "w1")
    assert done.returncode == 0, done.stderr
    assert "@" not in (tmp_path / "artos-worker.service").read_text()
    assert (tmp_path / "etc" / "worker.env").read_text().splitlines() == [
        "ARTOS_HEAD=tcp://10.0.0.1:5555", f"ARTOS_KEYS={keys}", "WORKER_FLAGS=--name w1",
    ]  # fmt: skip


def test_a_worker_with_images_gets_criu_and_no_capabilities(keys: Path, tmp_path: Path) -> None:
    words = ("worker", "tcp://10.0.0.1:5555", keys)
    done = install(tmp_path, *words, IMAGES="yes", ARTOS_CRIU="/opt/artos/criu")
    assert done.returncode == 0, done.stderr
    assert "Capabilit" not in (tmp_path / "artos-worker.service").read_text()
    assert "ARTOS_CRIU=/opt/artos/criu" in (tmp_path / "etc" / "worker.env").read_text()


@pytest.mark.parametrize(
    ("role", "file", "more", "lacks"),
    [
        ("head", "head.toml", "/srv/runs", 'runs = "/srv/runs"'),
        ("worker", "worker.env", "--stop-seconds 90", "WORKER_FLAGS=--stop-seconds 90"),
    ],
)
def test_settings_that_are_there_are_kept_and_what_they_lack_is_said(
    role: str, file: str, more: str, lacks: str, keys: Path, tmp_path: Path
) -> None:
    words = (role, "tcp://10.0.0.1:5555", keys)
    assert install(tmp_path, *words).returncode == 0
    settings = tmp_path / "etc" / file
    settings.write_text(f"{settings.read_text()}# edited\n")
    again = install(tmp_path, *words)
    assert (again.returncode, again.stderr) == (0, "")
    assert "restart" not in again.stdout
    before = settings.read_text()
    other = install(tmp_path, *words, more)
    assert other.returncode == 0
    assert other.stderr.splitlines() == [
        f"install.sh: kept {settings}, which does not say:",
        lacks,
        f"if it should, edit it, then: systemctl restart artos-{role}",
    ]
    assert settings.read_text() == before


def test_a_service_whose_unit_has_changed_goes_on_as_it_was_and_that_is_said(
    keys: Path, tmp_path: Path
) -> None:
    words = ("worker", "tcp://10.0.0.1:5555", keys)
    assert "restart" not in install(tmp_path, *words).stdout
    other = install(tmp_path, *words, ARTOS="/bin/false")
    assert "goes on as it was until: systemctl restart artos-worker" in other.stdout


@pytest.mark.parametrize("daemon", ["head", "worker"])
def test_a_unit_has_the_time_that_its_settings_say(daemon: str) -> None:
    """Daemons keep to their own: a shorter one of systemd's would kill what still saves."""
    unit = (UNITS / f"artos-{daemon}.service").read_text().splitlines()
    assert "TimeoutStopSec=infinity" in unit


@pytest.mark.parametrize("daemon", ["head", "worker"])
def test_a_unit_outlives_an_actor_for_which_memory_ran_out(daemon: str) -> None:
    """Else systemd ends a service as soon as the kernel has killed a process of it."""
    assert "OOMPolicy=continue" in (UNITS / f"artos-{daemon}.service").read_text().splitlines()


@pytest.mark.parametrize("arguments", [(), ("judge", "tcp://h:1", "."), ("head", "tcp://h:1", "/")])
def test_a_line_that_is_wrong_is_refused(arguments, tmp_path: Path) -> None:
    done = install(tmp_path, *arguments)
    assert done.returncode == 2
    assert "install.sh:" in done.stderr
