"""A notebook in a real kernel: runs, what they show, an interrupted cell, classes of its cells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers import PATIENCE, ROOT, below
from real_runs import runs, shared_memory

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
CellExecutionError = nbclient.exceptions.CellExecutionError

pytestmark = [pytest.mark.processes, pytest.mark.long]

SHORT = """
seen = []
result = artos.run(
    "ppo", env="CartPole-v1", total_steps=2048, actors=1, seed=3, on_progress=seen.append
)
print(result.steps, result.mean_return_100 > 0, result.folder, len(seen) > 0)
result
"""
ENDLESS = """
def watch(status):
    if status.updates:
        print("learns", flush=True)

artos.run(
    "ppo", env="CartPole-v1", total_steps=100_000_000, actors=1, run_dir="cut", on_progress=watch
)
"""
OWN = """
result = artos.run(workload, total_steps=512)
print(result.outcome, result.steps, result.folder)
"""
REFUSED = """
for given in ({"workload": Player}, {"workload": "ppo", "env": lambda: None}):
    try:
        artos.run(**given)
    except artos.Refused as refused:
        print(*refused.faults)
"""


def example(name: str) -> str:
    return ROOT.joinpath(f"docs/examples/{name}.py").read_text()


class Notebook:
    """A notebook and its kernel, with a loop that ends with the test."""

    def __init__(self, client: Any, runner: asyncio.Runner) -> None:
        self._client, self._runner = client, runner
        self.had = list[psutil.Process]()
        """What ran below the kernel when a cell was interrupted."""

    def run(self, source: str, *, until: str = "") -> list[Any]:
        """The outputs of a new cell; it is interrupted as soon as it has printed ``until``."""
        return self._runner.run(self._run(nbformat.v4.new_code_cell(source), until))

    async def _run(self, cell: Any, until: str) -> list[Any]:
        cells = self._client.nb.cells
        cells.append(cell)
        done = asyncio.ensure_future(self._client.async_execute_cell(cell, len(cells) - 1))
        if until:
            while not any(until in each.get("text", "") for each in cell.outputs):
                await asyncio.wait([done], timeout=0.05)
                assert not done.done(), cell.outputs
            self.had = below(self._client.km.provisioner.pid)
            await self._client.km.interrupt_kernel()
        with suppress(CellExecutionError):
            await done
        return list(cell.outputs)


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))  # not the user's, nor a kernel of theirs
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    client = nbclient.NotebookClient(
        nbformat.v4.new_notebook(), kernel_name="python3", timeout=PATIENCE
    )
    with asyncio.Runner() as runner:
        kernel = client.async_setup_kernel()
        runner.run(kernel.__aenter__())
        try:
            yield Notebook(client, runner)
        finally:
            runner.run(kernel.__aexit__(None, None, None))


def test_a_run_of_a_notebook_and_what_it_shows(notebook: Notebook) -> None:
    printed, shown = notebook.run("import artos\n" + SHORT)
    assert printed["text"] == "2048 True runs/ppo-CartPole-v1-seed3-1 True\n"
    text = shown["data"]["text/plain"]
    assert text.startswith("<Result runs/ppo-CartPole-v1-seed3-1: done, 2,048 steps, mean return")
    assert len(text.splitlines()) == 1


def test_an_interrupted_cell_leaves_nothing_and_the_next_one_runs(notebook: Notebook) -> None:
    (*_, raised) = notebook.run("import artos\n" + ENDLESS, until="learns")
    assert raised["ename"] == "KeyboardInterrupt"
    assert notebook.had
    assert not [each for each in notebook.had if runs(each)]
    assert not shared_memory()
    (shown,) = notebook.run("artos.load('cut')")
    assert "data" in shown, "what it had learnt is saved"
    printed, _ = notebook.run(SHORT)
    assert printed["text"].startswith("2048 True")


def test_what_cells_define_is_run_or_refused(notebook: Notebook) -> None:
    """An actor and a learner of the notebook's own are run, in processes that have no notebook."""
    (printed,) = notebook.run("import artos\n" + example("my_actor") + OWN)
    assert printed["text"].startswith("done 512 runs/")
    (printed,) = notebook.run(REFUSED)
    of_class, of_env = printed["text"].splitlines()
    assert of_class.startswith("Player is a class: give a Workload that is made with it")
    assert "%%writefile" in of_env
