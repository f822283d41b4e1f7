"""The script that builds CRIU, on stub machines: what it says, remembers and does not do twice."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import PATIENCE, ROOT

from workers.checkpoint.tiers import rights_missing

TOOLS = (
    "awk bash cat cut dirname echo flock grep id install ln mkdir mktemp nproc printf rm sed sh "
    "sha256sum sleep sort tail tar touch uname xargs"
)


class Machine:
    """A checkout with a .venv of stubs, and a PATH with plain tools and whatever a test adds."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.cache = folder, folder / "bin", folder / "cache"
        self.calls = folder / "calls"
        self.environment = {"PATH": str(self.bin), "ARTOS_CACHE": str(self.cache)}
        for each in ("bin", "deploy/setup", ".venv/bin", ".venv/lib/python3.11/site-packages"):
            (folder / each).mkdir(parents=True)
        for tool in TOOLS.split():
            (self.bin / tool).symlink_to(shutil.which(tool) or "missing")
        shutil.copy(ROOT / "deploy" / "setup" / "criu.sh", folder / "deploy" / "setup")
        self.stub("../.venv/bin/python", "exit 0")
        self.stub("id", "echo 0")

    def stub(self, name: str, script: str) -> None:
        """A command that notes each call."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        note = f'echo "{path.name} $*" >>{self.calls}'
        path.write_text(f"#!/bin/sh\n{note}\n{script}\n")
        path.chmod(0o755)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.folder / "deploy" / "setup" / "criu.sh", *arguments],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.environment,
        )  # fmt: skip

    def setup(self, *arguments: str) -> tuple[int, str]:
        """Exit status and what was said."""
        with self.start(*arguments) as process:
            _, said = process.communicate(timeout=PATIENCE)
        return process.returncode, said

    def called(self, name: str) -> list[str]:
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [line for line in lines if line.split()[0] == name]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def debian(machine: Machine) -> Machine:
    """Debian as root, nothing installed; apt does what a test makes of it."""
    if "ID=debian" not in Path("/etc/os-release").read_text().splitlines() or rights_missing():
        pytest.skip("on Debian with root's capabilities only: the script sees through stubs there")
    machine.stub("dpkg-query", "exit 1")
    machine.stub("apt-get", "echo 'E: Could not resolve the mirror' >&2; exit 100")
    return machine


def good_criu(machine: Machine, version: str = "4.2") -> None:
    machine.stub("criu", f'[ "$1" = --version ] && echo "Version: {version}"; exit 0')
    machine.stub("numactl", "exit 0")
    binding = machine.folder / "dist-packages" / "pycriu"
    binding.mkdir(parents=True)
    machine.stub("python3", f"echo {binding}")


def test_a_good_system_criu_is_taken_as_it_is(machine: Machine) -> None:
    good_criu(machine)
    status, said = machine.setup()
    assert (status, said) == (0, f"setup: CRIU: {machine.bin}/criu\n")
    link = machine.folder / ".venv/lib/python3.11/site-packages/pycriu"
    assert link.readlink() == machine.folder / "dist-packages" / "pycriu"
    assert not (machine.cache / "criu-missing").exists()


def test_the_second_run_does_nothing(machine: Machine) -> None:
    good_criu(machine)
    machine.setup()
    machine.calls.unlink()
    assert machine.setup() == (0, "")
    assert machine.setup("--again") == (0, "")
    assert {line.split()[0] for line in machine.calls.read_text().splitlines()} == {"id"}


def test_another_venv_gets_the_binding_again(machine: Machine) -> None:
    good_criu(machine)
    machine.setup()
    (machine.folder / ".venv/lib/python3.11/site-packages/pycriu").unlink()
    assert machine.setup()[0] == 0
    assert (machine.folder / ".venv/lib/python3.11/site-packages/pycriu").is_dir()


def test_two_at_once_do_it_once(machine: Machine) -> None:
    good_criu(machine)
    with machine.start() as one, machine.start() as two:
        said = [process.communicate(timeout=PATIENCE)[1] for process in (one, two)]
    assert (one.returncode, two.returncode) == (0, 0)
    assert sorted(map(bool, said)) == [False, True]
    assert len(machine.called("python3")) == 1


def test_packages_that_cannot_be_written_are_told(machine: Machine) -> None:
    """Not a folder here, as root writes to any; so nor can it be noted that this has failed."""
    good_criu(machine)
    packages = machine.folder / ".venv/lib/python3.11/site-packages"
    packages.rmdir()
    packages.symlink_to("nowhere")
    for _ in range(2):
        status, said = machine.setup()
        assert status == 1
        assert f"{packages.relative_to(machine.folder)}, where its Python binding goes" in said
        assert "to change that: artos setup criu as its owner" in said
    assert "cannot be written" in (machine.cache / "criu-missing").read_text()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda machine: good_criu(machine, "3.17.1"),
        lambda machine: machine.stub("criu", "echo 'Version: 4.2'; [ $1 = --version ]"),
        lambda machine: None,
    ],
    ids=["too old", "criu check complains", "none"],
)
def test_elsewhere_than_on_debian_the_commands_are_named(
    machine: Machine, spoil: Callable[[Machine], None]
) -> None:
    spoil(machine)
    status, said = machine.setup()
    assert status == 1, said
    for word in ("no CRIU from 4.1 on", "dnf install criu", "ARTOS_CRIU", "everything else works"):
        assert word in said


def test_a_failing_apt_is_quoted_kept_and_not_tried_again(debian: Machine) -> None:
    status, said = debian.setup()
    assert status == 1, said
    assert "E: Could not resolve the mirror" in said
    assert "Traceback" not in said
    reason, fix = (debian.cache / "criu-missing").read_text().splitlines()
    assert "E: Could not resolve the mirror" in reason
    assert fix.startswith("apt-get update && apt-get install ")
    assert fix.endswith("artos setup criu")
    tried = len(debian.called("apt-get"))
    status, again = debian.setup()
    assert status == 1, said
    assert again == ("setup: still not possible: checkpointing actors (`artos doctor` says why)\n")
    assert len(debian.called("apt-get")) == tried
    assert debian.setup("--again")[0] == 1
    assert len(debian.called("apt-get")) == 2 * tried


def test_a_new_criu_is_noticed_after_a_failure(debian: Machine) -> None:
    assert debian.setup()[0] == 1
    good_criu(debian)
    assert debian.setup()[0] == 0
    assert not (debian.cache / "criu-missing").exists()


def test_where_nobody_may_checkpoint_the_command_is_named_and_nothing_is_tried(
    debian: Machine,
) -> None:
    debian.stub("id", "[ $1 = -u ] && echo 1000 || echo somebody")
    debian.stub("unshare", "exit 1")
    status, said = debian.setup()
    assert status == 1, said
    assert "CRIU needs root, or user namespaces" in said
    assert "as root: artos setup criu" in said
    assert debian.called("apt-get") == []


def test_an_asked_for_criu_that_does_not_work_is_not_replaced(machine: Machine) -> None:
    good_criu(machine)
    machine.environment["ARTOS_CRIU"] = "/nowhere/criu"
    status, said = machine.setup()
    assert status == 1, said
    assert "ARTOS_CRIU=/nowhere/criu does not work" in said
