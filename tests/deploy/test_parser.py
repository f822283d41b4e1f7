"""The command line: what is nearly right is recognised, numbers are read as people write them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from artos.errors import Refused
from artos.runs.exit_status import ExitStatus
from artos.specs.actor_count import Manual, Schedule, parse_actors
from artos.specs.counts import count
from artos.version import VERSION
from deploy.cli.__main__ import main
from deploy.cli.completion import SHELLS
from deploy.cli.parser import Parser


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str, str]:
    """Exit status, standard output and standard error of a command that ends while parsing."""
    with pytest.raises(SystemExit) as end:
        main(words)
    return (end.value.code, *capsys.readouterr())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("rnu ppo", "there is no command 'rnu': did you mean run"),
        ("run ppo --sed 4 --total-step 3", "there is no flag --sed: did you mean --seed"),
        ("run ppo --sed 4 --total-step 3", "there is no flag --total-step: did you mean --total-"),
        ("run ppo --total 3", "there is no flag --total"),
        ("run ppo --nothing-like-it=3", "there is no flag --nothing-like-it\n"),
        ("scale --actor 3", "there is no flag --actor\n"),
        ("--verison", "there is no flag --verison: did you mean --version?"),
        ("--verison rnu", "--version?; there is no command 'rnu'"),
        ("run ppo -x", "-x"),
        ("run ppo another", "another"),
        ("run ppo --total-steps 1.5", "--total-steps: 1.5: write a whole number"),
        ("run ppo --seed one", "--seed: one: write a whole number (4, 5_000, 1e6)"),
        ("completion ksh", "bash"),
        ("", "explain "),
    ],
)
def test_what_nothing_is_called(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = said(capsys, *words.split())
    assert (status, out) == (2, "")
    assert told in err


def test_every_argument_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = []

    def look(_: Parser, commands: Mapping[str, Parser], words: Sequence[str]) -> argparse.Namespace:
        lacking.extend(
            f"{name} {action.dest}"
            for name, command in commands.items()
            for action in command.arguments
            if not action.help
        )
        sys.exit()

    monkeypatch.setattr("deploy.cli.entry.parse", look)
    with pytest.raises(SystemExit):
        main(["list"])
    assert set(lacking) <= {"sweep folder"}


def test_what_follows_two_dashes_is_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--json", "--", "--nothing"]) == 2
    assert "unknown workload '--nothing'" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--version") == (0, f"artos {VERSION}\n", "")


def test_as_a_module_from_a_folder_with_names_like_ours(tmp_path: Path) -> None:
    for name in ("deploy", "workers", "triggers"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the user own file')\n")
    command = [sys.executable, "-m", "artos", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"artos {VERSION}\n", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_commands_and_flags(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("explain", "total-steps"):
        assert word in script


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the script does is asked of bash itself."""
    assert main(["completion", "bash"]) == 0
    (tmp_path / "artos.bash").write_text(capsys.readouterr().out)
    (tmp_path / "my_algo.py").touch()
    ask = (
        'COMP_WORDS=(artos "$@") COMP_CWORD=$#; _shtab_artos artos "${@: -1}"; echo "${COMPREPLY}"'
    )
    for words, completed in {
        "expl": "explain",
        "run --to": "--total-steps",
        "run my": "my_algo.py",
    }.items():
        command = ["bash", "-c", f"source ./artos.bash; {ask}", "bash", *words.split()]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [completed], done.stderr


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("-1", -1), ("1e6", 10**6), ("5_000", 5000), ("1.5e3", 1500), ("3.0", 3),
     ("9223372036854775807", 2**63 - 1)],
)  # fmt: skip
def test_a_count(text: str, number: int) -> None:
    assert count(text) == number


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "write a"), ("many", "write a"), ("1.5", "write a whole number"), ("1e-1", "write a"),
     ("1." + "0" * 40 + "1", "write a"), ("1,000", "write a"), ("1e19", "64 bits"),
     ("1e999999999", "64 bits"), ("inf", "64 bits"), ("nan", "64 bits"),
     ("9223372036854775808", "64 bits")],
)  # fmt: skip
def test_no_count(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        count(text)


def test_numbers_of_actors_are_counts() -> None:
    assert parse_actors("1e1") == Manual(10, 10)
    assert parse_actors("1..1e1") == Manual(1, 10)
    assert parse_actors("0:1,1e2:3") == Schedule({0: 1, 100: 3})
    for text in ("1.5", "0:1.5", "1..2.5"):
        with pytest.raises(Refused, match="write a number"):
            parse_actors(text)


def test_flags_that_exclude_one_another_are_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "nothing", "--actor", "1"]) == 2
    assert "there is no run 'nothing'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["logs", "nothing", "--actor", "1", "--learner"])
    assert "not allowed with" in capsys.readouterr().err


def test_ctrl_c_while_the_command_is_imported_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Pressed(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "deploy.cli.entry":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "deploy.cli.entry", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Pressed(), *sys.meta_path])
    assert main(["list"]) == ExitStatus.INTERRUPTED
    assert capsys.readouterr() == ("", "")
