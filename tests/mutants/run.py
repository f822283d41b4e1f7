"""Runs mutants of the pure modules with mutmut and writes what came of them to docs/mutants.md.

`make mutants` runs what has not been run yet; stopped at any time, the next call goes on. ARGS
names a part that is run anew, as in ARGS="workers.host.slots.*", or says --report to write the page
only. When tests have changed, mutants that survived are tried again; `make clean` forgets all.
Which modules, which tests: [tool.mutmut] in pyproject.toml. Which survivors are accepted, and why:
accepted.toml.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from mutmut.mutation.data import SourceFileMutationData
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from report import NOTICED, Mutant, is_accepted, write

from artos.system.locks import FileLock

ROOT = Path(__file__).resolve().parents[2]
WORK = Path("mutants")  # mutmut's copy of the code, and its verdicts
STATS = WORK / "mutmut-stats.json"  # which tests reach which function
SEEN = WORK / "tests.json"  # as they were when survivors were tried last
APART = [
    "unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc",
    "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh",
]  # fmt: skip
"""Runs a command where no other process and no other shared memory can be seen."""


def main() -> int:
    """Run mutants, then write the page; the exit status is mutmut's."""
    parser = argparse.ArgumentParser(prog="make mutants ARGS=...")
    parser.add_argument(
        "names", nargs="*", help='mutants, e.g. "workers.host.slots.*"; all if left out'
    )
    parser.add_argument("--report", action="store_true", help="run nothing, write the page")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at a time")
    asked = parser.parse_args()
    os.chdir(ROOT)
    status = 0
    if not asked.report:
        WORK.mkdir(exist_ok=True)
        lock = FileLock.take(WORK / "lock")
        if lock is None:
            sys.exit("mutants are being run here already: wait for that, or stop it")
        with lock:
            _try_survivors_again_if_tests_changed()
            status = _run(asked.names, asked.jobs)
    write([mutant for data in _results() for mutant in _mutants(data)])
    return status


def _run(names: list[str], jobs: int) -> int:
    """In namespaces of its own: a mutant may kill or delete what it was not meant to."""
    if subprocess.run([*APART, "true"], check=False).returncode:
        print("mutants need namespaces of their own (see above): allow `unshare` to make them")
        return 2
    mutmut = str(Path(sys.executable).with_name("mutmut"))
    command = [*APART, mutmut, "run", "--max-children", str(jobs), *names]
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return 130


def _try_survivors_again_if_tests_changed() -> None:
    digests = {str(path): _digest(path) for path in sorted(Path("tests").rglob("*.py"))}
    before = json.loads(SEEN.read_text()) if SEEN.exists() else {}
    changed = {name for name, digest in digests.items() if before.get(name) != digest}
    if not changed:
        return
    _forget_what_they_reach(changed)
    for data in _results():
        for mutant in _mutants(data):
            if mutant.status not in NOTICED and not is_accepted(mutant):
                data.exit_code_by_key[mutant.name] = None
        data.save()
    SEEN.write_text(json.dumps(digests))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _forget_what_they_reach(files: Collection[str]) -> None:
    """To mutmut the tests in these files are new then: it looks which functions they reach."""
    if not STATS.exists():
        return
    stats = json.loads(STATS.read_text())
    known = stats["duration_by_test"]
    stats["duration_by_test"] = {
        test: seconds for test, seconds in known.items() if test.partition("::")[0] not in files
    }
    STATS.write_text(json.dumps(stats))


def _results() -> list[SourceFileMutationData]:
    found = [SourceFileMutationData(path=path) for path in walk_mutatable_files()]
    for data in found:
        data.load()
    return [data for data in found if data.exit_code_by_key]


def _mutants(data: SourceFileMutationData) -> list[Mutant]:
    verdicts = data.exit_code_by_key.items()
    return [Mutant(str(data.path), name, _status(code)) for name, code in verdicts]


def _status(code: int | None) -> str:
    """What mutmut calls it, but that it knows few of the signals that tests may die of."""
    status = status_by_exit_code[code]
    died = status == "suspicious" and code is not None and code < 0
    return "segfault" if died else status


if __name__ == "__main__":
    sys.exit(main())
