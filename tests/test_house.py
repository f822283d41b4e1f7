"""The house: imports point down, packages are complete, files are short and name no machine."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import PATIENCE, ROOT, python

from artos.system.child_modules import ChildModule

FLOORS = ("artos", "triggers", "head", "workers", "deploy", "evaluation")
MOST_LINES = 600
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def tracked() -> list[Path]:
    """Files of the project: tracked, and new ones that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    paths = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


def sources(*floors: str) -> list[Path]:
    return sorted(path for floor in floors for path in (ROOT / floor).rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[str]:
    """Modules a file imports, also inside functions and blocks for type checkers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# -- imports -----------------------------------------------------------------------------------


def test_the_import_contract_holds() -> None:
    """The floors, the processes apart, and no code of users in daemons: see pyproject.toml."""
    run = "import sys; from importlinter.cli import lint_imports_command as l; sys.exit(l())"
    with python("-c", run, "--no-cache") as process:
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    assert "KEPT" in output


def test_the_contract_covers_every_floor() -> None:
    settings = PROJECT["tool"]["importlinter"]
    assert set(settings["root_packages"]) == set(FLOORS)
    floors = "imports only point down"
    (layers,) = [c["layers"] for c in settings["contracts"] if c["name"] == floors]
    assert layers == ["evaluation", "deploy", "head | workers", "triggers", "artos"]


def test_a_daemon_loads_neither_torch_nor_gymnasium() -> None:
    daemons = sources("head", "workers", "deploy")
    modules = [name_of(path) for path in daemons if path.stem != "__main__"]
    code = f"""if True:
        import importlib, sys
        for name in {modules!r}:
            importlib.import_module(name)
        heavy = [name for name in ("torch", "gymnasium") if name in sys.modules]
        sys.exit(f"loaded {{heavy}}" if heavy else 0)"""
    with python("-c", code) as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_only_the_loader_of_references_imports_user_modules() -> None:
    """User code enters by two doors: a workload's reference and an environment's name."""
    doors = {"artos.runs.loader", "artos.envs.make", "artos.system.importing"}
    ours = {
        "artos",
        "triggers",
        "triggers.table",
        "artos.runtime.preload",
        "artos.trained.trained",
        "deploy.launchers.launcher",
    }  # import modules of our own by name
    found = {
        name_of(path)
        for path in sources("artos", "triggers", "head", "workers", "deploy")
        if any(
            word in path.read_text() for word in ("import_module(", "exec_module(", "__import__(")
        )
    }
    assert found - ours == doors


READING = re.compile(r"""\.read_(?:bytes|text)\(|\bopen\((?:\w+, )?"(?:rb|r\+b|ab)\"""")
KERNELS = re.compile(r"/proc|devnull|\((?:process|task) / |_SESSIONS|\b(?:lz4|tarfile)\.")
"""Read from the kernel's own files, or from a file that is open already."""


def test_files_of_records_are_opened_as_such() -> None:
    """By ``artos.system.regular_file``: a FIFO in the place of a file would be waited for."""
    kernels = {"artos.system.cgroups", "workers.checkpoint.tiers", "workers.checkpoint.facts"}
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in sources("artos", "triggers", "head", "workers", "deploy")
        if name_of(path) not in kernels
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if READING.search(line) and not KERNELS.search(line)
    ]
    assert found == []


# -- packages ----------------------------------------------------------------------------------


def test_every_folder_of_modules_is_a_package() -> None:
    """Or the wheel would lack it: pyproject.toml has setuptools find the packages."""
    include = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    assert include == [f"{floor}*" for floor in FLOORS]
    folders = {path.parent for path in sources(*FLOORS)}
    assert {folder for folder in folders if not (folder / "__init__.py").is_file()} == set()


def test_what_is_no_module_is_in_the_wheel_too() -> None:
    """Of the scripts only the one that sets up a clone stays there; so do published results."""
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    packed = {
        path for name in patterns for each in patterns[name] for path in (ROOT / name).glob(each)
    }
    present = {path for path in tracked() if path.relative_to(ROOT).parts[0] in FLOORS}
    published = set((ROOT / "evaluation/results").iterdir())
    left_out = {path for path in present if path.suffix != ".py"} - packed - published
    of_a_clone = ("deploy/setup/setup.sh", "deploy/launchers/container/Containerfile")
    assert left_out == {ROOT / name for name in of_a_clone}


def test_what_is_imported_is_declared() -> None:
    """Where it is imported at the top of a module, as what ``pip install artos`` brings."""
    known = importlib.metadata.packages_distributions()
    extras = {
        "ale-py", "pycriu", "criu", "kubernetes", "minari", "prometheus_client", "pyyaml",
        "urllib3", "websockets",
        "anyio", "starlette", "uvicorn",
        "peft", "tqdm", "transformers",
    }  # fmt: skip
    declared = {
        re.match(r"[\w.-]+", each)[0].lower() for each in PROJECT["project"]["dependencies"]
    }  # type: ignore[index]
    needed = {
        known[name][0].lower()
        for path in sources("artos", "triggers", "head", "workers", "deploy")
        for name in {module.partition(".")[0] for module in imports(path)}
        if name in known and name not in FLOORS
    }
    assert needed - extras <= declared
    assert declared <= needed | {"matplotlib"}


@pytest.mark.parametrize("package", ["artos", "triggers"])
def test_the_public_surface_is_complete(package: str) -> None:
    module = importlib.import_module(package)
    assert list(module.__all__) == sorted(module.__all__, key=lambda n: (not n.isupper(), n))
    for name in module.__all__:
        assert getattr(module, name).__doc__, name


def test_every_trigger_is_public() -> None:
    import triggers  # noqa: PLC0415

    ours = [path for path in sources("triggers") if path.parent.name == "triggers"]
    for module in (importlib.import_module(name_of(path)) for path in ours):
        for name, value in [*vars(module).items()]:
            if isinstance(value, type) and issubclass(value, triggers.Trigger):
                assert name in triggers.__all__ or name.startswith("_")


def test_every_module_imports_and_says_what_it_is() -> None:
    for path in sources(*FLOORS):
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        assert docstring, f"{name_of(path)} has no docstring"


@pytest.mark.parametrize("module", ChildModule)
def test_every_child_module_is_there_and_can_be_started(module: ChildModule) -> None:
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    text = (path if path.is_file() else path.with_suffix("") / "__main__.py").read_text()
    assert '__name__ == "__main__"' in text
    importlib.import_module(module)


def test_modules_that_are_started_are_named_in_one_place() -> None:
    names = [f'"{module}"' for module in ChildModule]
    others = [path for path in sources(*FLOORS) if path.stem != "child_modules"]
    found = {name_of(path) for path in others if any(n in path.read_text() for n in names)}
    assert found == set()


def test_no_two_test_modules_have_one_name() -> None:
    """Or pytest imports one of them in the place of the other."""
    names = [path.name for path in tracked() if path.relative_to(ROOT).parts[0] == "tests"]
    twice = {name for name in names if name.endswith(".py") and names.count(name) > 1}
    assert twice <= {"conftest.py"}


# -- files -------------------------------------------------------------------------------------


def test_no_file_is_longer_than_it_should_be() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in tracked()
        if path.suffix == ".py" and (lines := len(path.read_text().splitlines())) > MOST_LINES
    }
    assert long == {}


MACHINE = re.compile(
    r"""(?<![\w.~$}])/(?:home|Users|root|work|mnt|workspace)/\w   # somebody's folder
      | \b(?:pypi|files\.pythonhosted|registry\.npmjs|index\.crates)\.(?:org|io)\b
      | \b\w+://[^\s/]*(?:artifactory|nexus|devpi|pypi|mirror)[^\s/]*
      | (?:--index-url|--extra-index-url|index-url\s*=|--trusted-host)
    """,
    re.VERBOSE,
)


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in tracked():
        if path.suffix in (".png", ".gif") or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if MACHINE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


@pytest.mark.parametrize(
    "line",
    ["open('/home/someone/run')", "cd /root/x", "pip --index-url x",
     "https://" + "pypi." + "org/simple",
     "http://nexus.example/x"],
)  # fmt: skip
def test_the_pattern_for_machines_finds_them(line: str) -> None:
    assert MACHINE.search(line)


@pytest.mark.parametrize("line", ["/dev/shm/artos.x", "src/work/x", "~/work/x", "$PWD/home/x"])
def test_the_pattern_for_machines_leaves_others_alone(line: str) -> None:
    assert not MACHINE.search(line)


OUTSIDE = re.compile(
    r"""\b[ACS]\d{1,2}[a-z]?\b                           # A20, C4: items of a list kept elsewhere
      | \b(?i:checklist|layout\.md|design\.md|chapter)\b
      | \b(?i:leap|issue|table\ row|exercise|output)s?\ \#?\d
      | \b(?i:design|section),?\ §?\d | \bdesign,?\ § | (?<!paper\ )(?<!,\ )§
    """,
    re.VERBOSE,
)
"""References to documents that a reader of the repository does not have; the paper is public."""


def test_no_text_refers_to_a_document_outside_the_repository() -> None:
    found = []
    for path in tracked():
        if path.suffix not in (".py", ".md", ".sh", ".svg") or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if OUTSIDE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


@pytest.mark.parametrize(
    "line",
    ["(checklist A20)", "see A36b", "(C4-C6)", "(leap 5)", "(design §7)", "the rows (§4.2)",
     "issue 2, section 6", "table row 40", "as layout.md has it"],
)  # fmt: skip
def test_the_pattern_for_outside_documents_finds_them(line: str) -> None:
    assert OUTSIDE.search(line)


@pytest.mark.parametrize(
    "line",
    ["(paper §4.2, Table 3)", "(paper §3.3, §4.3)", "A2C", "a chance of 1 in 20", "V1, W2 = 1, 2",
     "Appendix A.1 there", "leaps and bounds", "the output of 2 actors"],
)  # fmt: skip
def test_the_pattern_for_outside_documents_leaves_others_alone(line: str) -> None:
    assert not OUTSIDE.search(line)


def missing(page: str, text: str) -> list[str]:
    """Paths in backticks that lead nowhere; short names are those of a folder on the page."""
    paths = [
        (number, name)
        for number, line in enumerate(text.splitlines(), 1)
        for name in re.findall(r"`([\w./-]+)`", line)
        if name.startswith(FOLDERS) or (page.startswith(ARCHITECTURE) and name.endswith(".py"))
    ]
    folders = [ROOT / name for _, name in paths if (ROOT / name).is_dir()]
    return [
        f"{page}:{number}: {name}"
        for number, name in paths
        if not ((ROOT / name).exists() or any((folder / name).exists() for folder in folders))
    ]


ARCHITECTURE = "docs/architecture/"
FOLDERS = tuple(f"{folder}/" for folder in (*FLOORS, "tests", "docs"))


PAGES = [str(path.relative_to(ROOT)) for path in tracked() if path.suffix == ".md"]


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_paths_on_the_pages_are_there(page: str) -> None:
    assert missing(page, (ROOT / page).read_text()) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [("`artos/gone.py`", "artos/gone.py"), ("`gone.py`", "gone.py"),
     ("`wiring.py`", None), ("`engine.py`", "engine.py"), ("`run/gone/`", None)],
)  # fmt: skip
def test_a_path_that_leads_nowhere_is_found(text: str, name: str | None) -> None:
    found = missing(f"{ARCHITECTURE}run.md", f"{text}\n`artos/errors.py` `head/run/`\n")
    assert [each.rpartition(" ")[2] for each in found] == ([name] if name else [])


def test_python_is_the_one_the_project_is_for() -> None:
    assert sys.version_info >= (3, 11)
