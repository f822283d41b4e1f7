"""deploy/setup/setup.sh with a stub of pip: what it says before it begins, and what it asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers import PATIENCE, ROOT

TOOLS = "bash cat cp cut dirname echo find flock grep mkdir rm sed sha256sum timeout touch"
CUDA = """echo '"requires_dist": ["nvidia-cublas==13"]'"""
PIP = """
case "$*" in
*--report*) {report};;
*install*) echo 'Collecting torch'; echo '  Downloading torch.whl (526.6 MB)'; exit {status};;
*version*) {there};;
esac
"""


class Clone:
    """A clone without .venv, on a machine whose commands are stubs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.calls = folder, folder / "bin", folder / "calls"
        for each in ("bin", "deploy/setup"):
            (folder / each).mkdir(parents=True)
        for tool in TOOLS.split():
            (self.bin / tool).symlink_to(shutil.which(tool) or "missing")
        for name in ("deploy/setup/setup.sh", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder / name)
        self.script("deploy/setup/criu.sh", "exit 0")
        self.script("bin/uname", "echo x86_64")
        self.script(
            "bin/python3.13", '[ "$1" = -m ] || exit 0\nmkdir .venv/bin; cp stub .venv/bin/python'
        )
        self.pip()

    def script(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def pip(self, report: str = "echo torch", status: int = 0, there: str = "exit 1") -> None:
        """What the Python of .venv does; ``there``: whether torch is installed."""
        text = PIP.format(report=report, status=status, there=there)
        self.script("stub", f'echo "$*" >>{self.calls}\n{text}')
        if (self.folder / ".venv/bin/python").exists():
            shutil.copy(self.folder / "stub", self.folder / ".venv/bin/python")

    def setup(self, **environment: str) -> tuple[int, str]:
        """Exit status and what was said."""
        self.calls.write_text("")
        done = subprocess.run(
            [self.folder / "deploy/setup/setup.sh"], env={"PATH": str(self.bin), **environment},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    def installs(self) -> list[str]:
        """What pip was asked to install, without looking only."""
        lines = self.calls.read_text().splitlines()
        return [line for line in lines if " install " in line and "--dry-run" not in line]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    if any(name.startswith("nvidia") for name in os.listdir("/dev")):  # noqa: PTH208
        pytest.skip("there is a GPU here, which no stub hides")
    return Clone(tmp_path)


def test_gigabytes_that_nobody_needs_are_told_before_they_come(clone: Clone) -> None:
    clone.pip(CUDA)
    status, said = clone.setup()
    assert status == 0, said
    before, _, after = said.partition("Downloading torch.whl (526.6 MB)")
    assert "with CUDA: 2.7 GB to download, and there is no GPU here" in before
    assert "make setup TORCH_INDEX=URL" in before
    assert "installing ARTOS" in after
    assert "Collecting" not in said


def test_an_index_that_says_nothing_may_bring_gigabytes(clone: Clone) -> None:
    clone.pip("exit 1")
    assert "with CUDA: 2.7 GB to download, and there is no GPU here" in clone.setup()[1]


def test_with_a_gpu_they_are_right(clone: Clone) -> None:
    clone.pip(CUDA)
    clone.script("bin/nvidia-smi", "echo GPU 0")
    _, said = clone.setup()
    assert "with CUDA: 2.7 GB to download (there is a GPU here)" in said
    assert "TORCH_INDEX" not in said


def test_where_pip_brings_the_small_one_it_says_so(clone: Clone) -> None:
    _, said = clone.setup()
    assert "for CPUs: 0.2 GB" in said
    assert "TORCH_INDEX" not in said


def test_the_index_is_for_torch_alone(clone: Clone) -> None:
    status, said = clone.setup(TORCH_INDEX="https://index.example/cpu")
    assert status == 0, said
    torch, rest = clone.installs()
    assert "--no-deps" in torch
    assert "-i https://index.example/cpu torch==" in torch
    assert "index.example" not in rest


def test_another_index_replaces_what_is_there_and_is_remembered(clone: Clone) -> None:
    clone.setup()
    clone.pip(there="exit 0")
    assert clone.setup() == (0, "")
    status, said = clone.setup(TORCH_INDEX="https://index.example/cpu")
    assert status == 0, said
    assert "--force-reinstall" in clone.installs()[0]
    for environment in ({}, {"TORCH_INDEX": "https://index.example/cpu"}):
        assert clone.setup(**environment) == (0, "")
        assert clone.installs() == []


def test_what_is_there_is_not_announced_again(clone: Clone) -> None:
    clone.setup()
    clone.pip(there="exit 0")
    with (clone.folder / "pyproject.toml").open("a") as file:
        file.write("\n# changed\n")
    status, said = clone.setup()
    assert (status, "PyTorch" in said, "installing ARTOS" in said) == (0, False, True)


def test_a_pip_that_fails_is_no_success(clone: Clone) -> None:
    clone.pip(status=3)
    for _ in range(2):
        status, said = clone.setup()
        assert status == 1
        assert "installing failed" in said
