"""A run's code is run without a word only where it is the user's own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artos.envs.make import make_vector
from artos.envs.spec import spec_of
from artos.errors import CheckpointFault, Refused
from artos.runs import run_config
from artos.specs.reference import Reference
from artos.system.archives import Archives, pack
from artos.trained.record import read
from artos.trained.trust import allow, files_of, require_own_places


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a present folder that are not each other's, and a run of this account."""
    for name in ("home", "here", "elsewhere", "run"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write(tmp_path / "run", run_config.sealed(OF_A_RUN))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


OF_A_RUN = {"workload": "mine.py:workload", "settings": {}, "folder": ""}


def of(folder: Path) -> Reference:
    return Reference(f"{folder}/mine.py:workload", {}, str(folder))


def allowed(run: Path, reference: Reference, *, trust: bool, **more: Any) -> None:
    file = run / "config.json"
    config = json.loads(file.read_text()) if file.exists() else {}
    allow(run, config, reference, trust=trust, **more)


@pytest.mark.parametrize("place", ["home", "home/projects", "here", "here/below"])
def test_ones_own_folders(place: str, home: Path) -> None:
    (home / place).mkdir(exist_ok=True)
    allowed(home / "run", of(home / place), trust=False)


@pytest.mark.parametrize("env", ["CartPole-v1", "vector:CartPole-v1", "CartPole-v1(a='b:c')"])
def test_what_is_installed_needs_no_trust(env: str, home: Path) -> None:
    built_in = Reference.of("ppo", {"env": env}, home / "elsewhere", {"ppo": "a.b:ppo"})
    assert files_of(built_in) == ()
    allowed(home / "run", built_in, trust=False)


@pytest.mark.parametrize("env", ["my_env:make", "my_env:make(task=1)", "vector:my_suite:Mine-v0"])
def test_an_object_that_a_setting_names_does(env: str, home: Path) -> None:
    settings = {"env": env}
    named = Reference.of("ppo", settings, home / "elsewhere", {"ppo": "a.b:ppo"})
    with pytest.raises(Refused, match=r"elsewhere, which is neither in your home .* --trust"):
        allowed(home / "run", named, trust=False)


def test_what_came_with_the_run(home: Path) -> None:
    (home / "home" / "r" / "code").mkdir(parents=True)
    with pytest.raises(Refused, match="which came with the run"):
        allowed(home / "home" / "r", of(home / "home" / "r" / "code"), trust=False)


def test_what_everybody_may_write_to(home: Path) -> None:
    (home / "home").chmod(0o777)
    with pytest.raises(Refused, match=r"and everyone may write to .*home: look"):
        allowed(home / "run", of(home / "home"), trust=False)


def test_a_way_out_of_home(home: Path) -> None:
    (home / "home" / "link").symlink_to(home / "elsewhere")
    with pytest.raises(Refused, match="neither in your home"):
        allowed(home / "run", of(home / "home" / "link"), trust=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users(home: Path) -> None:
    os.chown(home / "home", 65533, 65533)
    with pytest.raises(Refused, match="home belongs to another user"):
        allowed(home / "run", of(home / "home"), trust=False)


@pytest.mark.parametrize("folder", ["code", "./code", "/a\0b"])
def test_a_folder_that_is_another_one_wherever_the_record_is_read(folder: str, home: Path) -> None:
    config = {"workload": "mine.py:workload", "settings": {}, "folder": folder}
    (home / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointFault, match=r"config\.json is damaged: .*folder"):
        read(home / "run", trust=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to any group")
def test_what_a_group_may_write_to(home: Path) -> None:
    os.chown(home / "home", -1, 65533)
    allowed(home / "run", of(home / "home"), trust=False)
    (home / "home").chmod(0o775)
    with pytest.raises(Refused, match=r"and a group may write to .*home"):
        allowed(home / "run", of(home / "home"), trust=False)


# -- whose the file is, and what is above it -------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("place", ["home/a/mine.py", "home/a", "home"])
def test_a_file_or_a_folder_above_it_that_is_another_users(place: str, home: Path) -> None:
    (home / "home" / "a").mkdir()
    (home / "home" / "a" / "mine.py").touch()
    allowed(home / "run", of(home / "home" / "a"), trust=False)
    os.chown(home / place, 65533, 65533)
    with pytest.raises(Refused, match=f"a/mine.py, and .*{place} belongs to another user: look"):
        allowed(home / "run", of(home / "home" / "a"), trust=False)


@pytest.mark.parametrize("place", ["home/a/mine.py", "home/a", "home"])
def test_a_file_or_a_folder_above_it_that_everybody_may_write_to(place: str, home: Path) -> None:
    (home / "home" / "a").mkdir()
    (home / "home" / "a" / "mine.py").touch()
    (home / place).chmod(0o777)
    with pytest.raises(Refused, match=f"and everyone may write to .*{place}: look"):
        allowed(home / "run", of(home / "home" / "a"), trust=False)


def test_a_folder_in_which_only_new_things_can_be_made(home: Path) -> None:
    (home / "home" / "a").mkdir()
    (home / "home").chmod(0o1777)
    allowed(home / "run", of(home / "home" / "a"), trust=False)
    (home / "home" / "a").chmod(0o1777)
    with pytest.raises(Refused, match=r"and everyone may write to .*a: look"):
        allowed(home / "run", of(home / "home" / "a"), trust=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_that_is_another_users(home: Path) -> None:
    link = home / "here" / "link"
    link.symlink_to(home / "home")
    allowed(home / "run", of(link), trust=False)
    os.chown(link, 65533, 65533, follow_symlinks=False)
    with pytest.raises(Refused, match="here/link belongs to another user"):
        allowed(home / "run", of(link), trust=False)


@pytest.mark.parametrize("trust", [False, True])
def test_the_file_is_named_always(trust: bool, home: Path, logged: list[str]) -> None:
    allowed(home / "run", of(home / "home"), trust=trust)
    assert logged == [f"runs the code in {home}/home/mine.py"]


@pytest.mark.parametrize("env", ["my_env:make", "vector:my.env:Mine-v0"])
def test_the_file_of_an_environment_is_named(env: str, home: Path, logged: list[str]) -> None:
    file = home / "home" / f"{env.removeprefix('vector:').partition(':')[0].replace('.', '/')}.py"
    file.parent.mkdir(exist_ok=True)
    file.touch()
    named = Reference.of("ppo", {"lr": 1, "env": env}, home / "home", {"ppo": "a.b:ppo"})
    allowed(home / "run", named, trust=False)
    assert logged == [f"runs the code in {file}"]
    file.chmod(0o666)
    with pytest.raises(Refused, match=f"and everyone may write to {file}: look"):
        allowed(home / "run", named, trust=False)


# -- code that was sent along ----------------------------------------------------------------------


@pytest.fixture
def sent(home: Path) -> Path:
    """The folder of a run that a head made elsewhere, with code that it was sent."""
    (home / "here" / "mine.py").write_text("workload = 1\n")
    name, content = pack(home / "here")
    store = Archives(home / "elsewhere" / ".head" / "code")
    store.put(name, content)
    code = store.unpacked(name)
    config = {"workload": "mine.py:workload", "settings": {}, "folder": str(code), "lr": 1e-3}
    write(home / "run", run_config.sealed(config))
    return code


def write(run: Path, config: dict[str, object]) -> None:
    (run / "config.json").write_text(json.dumps(config))


def test_code_that_was_sent_along(sent: Path, home: Path) -> None:
    (sent / "__pycache__").mkdir()
    (sent / "__pycache__" / "mine.cpython-311.pyc").write_bytes(b"planted")
    allowed(home / "run", of(sent), trust=False)
    assert [path.name for path in sent.iterdir()] == ["mine.py"]


@pytest.mark.parametrize("swapped", ["config", "seal", "file", "one more", "archive", "unsealed"])
def test_what_was_swapped_since_is_asked_for(swapped: str, sent: Path, home: Path) -> None:
    config = json.loads((home / "run" / "config.json").read_text())
    if swapped == "config":
        write(home / "run", config | {"settings": {"lr": 2}})
    elif swapped == "seal":
        write(home / "run", config | {"seal": "0" * 64})
    elif swapped == "unsealed":
        del config["seal"]
        write(home / "run", config)
    elif swapped == "archive":
        sent.with_suffix(".tar").write_bytes(b"")
    else:
        name = "mine.py" if swapped == "file" else "numpy.py"
        (sent / name).write_text("workload = 2\n")
    with pytest.raises(Refused, match="which is neither in your home nor below this folder"):
        allowed(home / "run", of(sent), trust=False)


def test_another_accounts_run(sent: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "other"))
    with pytest.raises(Refused, match="which is neither in your home nor below this folder"):
        allowed(home / "run", of(sent), trust=False)


# -- what is called, where another account says so -------------------------------------------------

CALLED = [
    " os:system(command='true') ",
    "runs.ppo-run.evil:1",
    "runs.evil:",
    "ppo+1.evil:X",
    "my run.evil:X",
    "pettingzoo:20240101-run.evil",
    "CartPole-v1(wrappers=['os:system']) ",
    "CartPole-v1(wrappers=['runs.r.evil:1'])",
    "CartPole-v1(wrappers='anything')",
    "os:system(command='true')",
    "vector:my_suite:Mine-v0",
    "pettingzoo:my_game",
    "openenv:ws://127.0.0.1:8000",
    "CartPole-v1(wrappers=['os:system'])",
    "CartPole-v1(wrappers=(('os:system', {'command': 'true'}),))",
]


@pytest.fixture
def stranger(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder that another account's ARTOS has written."""
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "other"))
    return home / "run"


@pytest.mark.parametrize("env", CALLED)
def test_no_stranger_says_what_is_called(env: str, stranger: Path, home: Path) -> None:
    settings = {"env": env}
    named = Reference.of("ppo", settings, home / "home", {"ppo": "a.b:ppo"})
    plain = Reference.of("ppo", {}, home / "home", {"ppo": "a.b:ppo"})
    for moved in (False, True):
        with pytest.raises(Refused, match="which bears no seal of this account"):
            allowed(stranger, named, trust=False, moved=moved)
        with pytest.raises(Refused, match="which bears no seal of this account"):
            allowed(stranger, plain, trust=False, moved=moved, env=env)
    allowed(stranger, named, trust=True, env=env)
    allowed(stranger, plain, trust=False, env="CartPole-v1(a='b:c')")


@pytest.mark.parametrize(
    "wrappers",
    [
        ["os:system"],
        '["os:system"]',
        '["os\\u003asystem"]',
        ' [["os:system", {"command": "true"}]]',
        [["os:system", {"a": 1}]],
    ],
)
def test_nor_by_arguments_of_the_environment(wrappers: object, stranger: Path, home: Path) -> None:
    settings = {"env_args": {"wrappers": wrappers}}
    named = Reference.of("ppo", settings, home / "home", {"ppo": "a.b:ppo"})
    with pytest.raises(Refused, match=r"would import and call os:system, .*no seal"):
        allowed(stranger, named, trust=False)


def test_nor_a_function_of_ones_own(stranger: Path, home: Path) -> None:
    own = of(home / "home")
    allowed(stranger, own, trust=False)  # there is none: who loads it says so, and what to do
    (home / "home" / "mine.py").touch()
    with pytest.raises(Refused, match=r"mine\.py:workload, .*no seal of this account"):
        allowed(stranger, own, trust=False)
    with pytest.raises(Refused, match=r"mine\.py:workload, .*no seal of this account"):
        allowed(stranger, own, trust=False, moved=True)
    allowed(stranger, own, trust=True)


@pytest.mark.parametrize("env", CALLED)
def test_nor_in_what_is_known_of_the_environment(env: str, stranger: Path) -> None:
    """Episodes are played where ``env_spec`` says, whatever the settings say."""
    write(stranger, {"workload": "ppo", "settings": {}, "folder": "", "env_spec": spec(env)})
    with pytest.raises(Refused, match="which bears no seal of this account"):
        read(stranger)


@pytest.mark.parametrize(
    "settings",
    [
        {"weights": "files", "weights_folder": "/anywhere"},
        {"images": "../images"},
        {"images": "src"},
        {"weights_folder": ".."},
        {"weights": "http", "server": "http://127.0.0.1:1"},
    ],
)
def test_nor_where_a_run_that_goes_on_writes(settings: dict[str, str], stranger: Path) -> None:
    with pytest.raises(Refused, match=r"would use \w+=.*, which bears no seal of this account"):
        placed(stranger, settings, trust=False)
    placed(stranger, settings, trust=True)
    placed(stranger, {"env": "ALE/Pong-v5", "lr": 1e-3, "images": "tmpfs"}, trust=False)


@pytest.mark.parametrize("link", ["checkpoint", "logs/learner.log"])
def test_nor_by_links(link: str, stranger: Path, home: Path) -> None:
    (stranger / "logs").mkdir()
    (stranger / link).symlink_to(home / "home")
    with pytest.raises(Refused, match=f"would use .*/run/{link}, as"):
        placed(stranger, {}, trust=False)


def test_ones_own_run_goes_on_wherever_it_wrote(home: Path) -> None:
    placed(home / "run", {"images": "/anywhere"}, trust=False)


def placed(run: Path, settings: dict[str, Any], *, trust: bool) -> None:
    config = json.loads((run / "config.json").read_text())
    require_own_places(run, config, settings, trust=trust)


def test_the_file_of_a_moved_workload_is_in_the_folder_that_is_named(home: Path) -> None:
    """Dots of a module's name do not lead anywhere else."""
    evil = home / "elsewhere" / "evil.py"
    evil.touch()
    there = f"{str(evil.parent).replace('/', '.')}.evil:workload"
    with pytest.raises(Refused, match="unknown workload"):
        Reference.of(there, {}, home / "home", {})


def spec(env: str) -> object:
    made = make_vector("CartPole-v1", 1)
    try:
        return msgspec.to_builtins(spec_of(env, made))
    finally:
        made.close()
