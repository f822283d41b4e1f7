"""A uv.lock of a project, by the real uv: what was locked is installed, and nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread

import pytest
from helpers import PATIENCE, ROOT

from artos.errors import Refused
from artos.system.archives import PACKAGES_FILE
from deploy.client.package_list import package_list
from evaluation.lab.layer import LayerFailed
from evaluation.lab.packages import python_with

pytestmark = [pytest.mark.processes, pytest.mark.long]

PROJECT = """
[project]
name = "mine"
version = "0"
requires-python = ">=3.11"
dependencies = ["lockedmoo"]

[build-system]
requires = ["none-that-is-there"]
build-backend = "none"
"""
NEAR = """
[tool.uv.sources]
lockedmoo = { path = "near", editable = true }
"""
ABOUT = {
    "METADATA": "Metadata-Version: 2.1\nName: lockedmoo\nVersion: 1.0\n",
    "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "",
}
ENTER = """
import sys
from pathlib import Path
from types import SimpleNamespace
from artos.runs import packages

if sys.argv[1] != "pip":
    packages.PathFinder = SimpleNamespace(find_spec=lambda name: None)
packages.enter(Path(sys.argv[2]), "lockedmoo", [])
"""


class Index:
    """Packages as an index serves them, from a folder."""

    def __init__(self, folder: Path) -> None:
        self._page = folder / "simple" / "lockedmoo" / "index.html"
        self._page.parent.mkdir(parents=True)

    def publish(self, word: str) -> str:
        """Serve a package that says this, under the same name as ever; returns its checksum."""
        wheel = self._page.with_name("lockedmoo-1.0-py3-none-any.whl")
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("lockedmoo.py", f"print({word!r})\n")
            for name, text in ABOUT.items():
                file.writestr(f"lockedmoo-1.0.dist-info/{name}", text)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        self._page.write_text(f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>')
        return digest


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a uv; where there is no index to have it from, the test is skipped."""
    try:
        return python_with(tmp_path_factory.mktemp("uv") / "python", "uv").parent
    except LayerFailed as failed:
        pytest.skip(f"uv cannot be installed: {failed}")


@pytest.fixture
def index(tmp_path: Path, uv: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """The only index that uv and pip know; both keep nothing of it."""
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "index"))
    found = Index(tmp_path / "index")
    with HTTPServer(("127.0.0.1", 0), serve) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/simple"
        for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
            monkeypatch.delenv(name)
        for name, value in {
            "PIP_INDEX_URL": address, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1",
            "UV_DEFAULT_INDEX": address, "UV_NO_CACHE": "1", "UV_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", str(uv), prepend=":")
        yield found
        server.shutdown()
        thread.join(PATIENCE)


@pytest.fixture
def project(tmp_path: Path, index: Index) -> Path:
    index.publish("moo")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT)
    return folder


def locked(project: Path) -> Path:
    done = subprocess.run(
        ["uv", "lock"], cwd=project, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return project / "uv.lock"


def entered(installer: str, code: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """What comes of entering the environment of this code on a machine with such a cache."""
    return subprocess.run(
        [sys.executable, "-c", ENTER, installer, code], capture_output=True, text=True,
        timeout=PATIENCE, check=False, env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )  # fmt: skip


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_what_was_locked_is_installed_and_nothing_else_under_its_name(
    installer: str, project: Path, index: Index, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / PACKAGES_FILE).write_bytes(package_list(locked(project)))
    done = entered(installer, code, tmp_path / "w1")
    assert (done.returncode, done.stdout) == (0, "moo\n"), done.stderr
    other = index.publish("baa")
    done = entered(installer, code, tmp_path / "w2")
    assert (done.returncode, done.stdout) == (1, "")
    assert other in done.stderr, "the checksum of what it got"


def test_beside_checksums_uv_installs_nothing_without_one(project: Path, tmp_path: Path) -> None:
    """As pip does by itself."""
    listed = package_list(locked(project)) + b"other==1.0\n"
    (tmp_path / PACKAGES_FILE).write_bytes(listed)
    done = entered("uv", tmp_path, tmp_path / "w1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--require-hashes" in done.stderr


def test_a_package_of_this_desk_is_refused(project: Path) -> None:
    near = project / "near"
    near.mkdir()
    about = PROJECT.replace("mine", "lockedmoo").replace('["lockedmoo"]', "[]")
    (near / "pyproject.toml").write_text(about)
    (project / "pyproject.toml").write_text(PROJECT + NEAR)
    with pytest.raises(Refused, match="only this machine has"):
        package_list(locked(project))
