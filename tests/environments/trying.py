"""Tries suites as a user would, each in an environment of its own that pip fills.

``python tests/environments/trying.py [SUITE ...]`` writes ``results.json`` and renders the page.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import page

from head.records.provenance import commit_of

_HERE = Path(__file__).parent
_MINUTES = 15 * 60
_ALWAYS, _PIPS_OWN = ("gymnasium", "numpy"), {"pip", "setuptools"}


def tried(suite: dict[str, Any]) -> dict[str, Any]:
    """What came of installing a suite and of ``artos check`` for each of its environments."""
    with tempfile.TemporaryDirectory(prefix="artos-suite-") as folder:
        python = environment(Path(folder) / "venv")
        done = pip(python, *shlex.split(suite["installs"]))
        lines = done.stderr.splitlines()
        errors = [line[7:] for line in lines if line.startswith("ERROR: ")]
        envs = [] if done.returncode else [*suite["works"], *suite.get("refused", {})]
        return {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "commit": commit(),
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "packages": versions(python, suite["installs"]),
            "error": "; ".join(errors) if done.returncode else "",
            "envs": {env: verdict(python, env, Path(folder)) for env in envs},
        }


def environment(folder: Path) -> Path:
    """The Python of a new environment, in which all that is installed here can be imported: also
    pip, which takes seconds to install anew.
    """
    command = [sys.executable, "-m", "venv", "--without-pip", folder]
    subprocess.run(command, check=True, timeout=_MINUTES)
    beside = sysconfig.get_path("purelib")
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "beside.pth").write_text(f"import site; site.addsitedir({beside!r})\n")
    return folder / "bin" / "python"


def pip(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``pip install WORDS``, from the index that pip is set up for here."""
    quick = (
        "--disable-pip-version-check", "--quiet", "--retries", "1", "--timeout", "20",
        "--no-compile",
    )  # fmt: skip
    command = [python, "-m", "pip", "install", *quick, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=_MINUTES, check=False)


def versions(python: Path, installs: str) -> dict[str, str]:
    """Versions of what pip put into an environment, and of all that it was asked for."""
    packages = next(python.parents[1].glob("lib/python*/site-packages"))
    added = installed(packages)
    known = installed(Path(sysconfig.get_path("purelib"))) | added
    asked = {plain(name) for name in re.findall(r"(?:^|\s)'?([\w.-]+)", installs)}
    names = ({*_ALWAYS} | asked | added.keys()) - _PIPS_OWN
    return {name: known[name] for name in sorted(names & known.keys())}


def installed(packages: Path) -> dict[str, str]:
    """Versions of the packages in a folder."""
    found = importlib.metadata.distributions(path=[str(packages)])
    return {plain(each.name): each.version for each in found}


def plain(name: str) -> str:
    """A package's name as indexes write it."""
    return name.lower().replace("_", "-")


def verdict(python: Path, env: str, folder: Path) -> str:
    """What ``artos check`` says of an environment there: ``works``, or why it is refused.

    ``folder`` is where suites may leave files.
    """
    path = os.pathsep.join((str(_HERE.parents[1]), str(_HERE)))
    done = subprocess.run(
        [python, "-m", "artos", "check", env, "--json", "--deadline", "300"],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=_MINUTES, check=False,
    )  # fmt: skip
    if done.returncode == 0 and json.loads(done.stdout)["stepped"] > 0:
        return "works"
    return done.stderr.strip().splitlines()[-1].removeprefix("artos: ")


def commit() -> str:
    """The commit that is tried, with ``+`` if code of ARTOS was changed since."""
    found = commit_of(_HERE.parents[1] / "artos")
    return f"{found['commit'][:7]}{'+' * found['changed']}" if found else ""


def main(names: list[str]) -> None:
    """Try these suites, or all of them, and keep what came of it."""
    for suite in page.suites():
        if names and suite["name"] not in names:
            continue
        found = page.results() | {suite["name"]: tried(suite)}
        page.RESULTS.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")
        page.PAGE.write_text(page.page())
        print(
            suite["name"], found[suite["name"]]["error"], found[suite["name"]]["envs"], flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1:])
