"""Weights as files of a shared folder, with a small file as the signal (as Prime-RL does)."""

from __future__ import annotations

import math
import shutil
import time
from pathlib import Path

import msgspec
import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from artos.clock import Deadline
from artos.errors import DeadlineExceeded, WeightsUnusable
from artos.system.durable import remove_drafts, write_durably
from artos.system.regular_file import contents
from artos.transport.weights.channel import Channel, Floats, Layout

SIGNAL, WEIGHTS = "newest.json", "model.safetensors"
_KEPT = 8
"""The newest versions: whoever reads an older one has had as many updates of time."""
_PAUSES = (0.002, 0.1)
"""Seconds between two looks at the signal, at first and at most: no file system rings a bell."""


class Signal(msgspec.Struct, frozen=True):
    """What the signal says."""

    version: int
    folder: str
    """That of the version, in the folder of the signal."""


class Files(Channel):
    """``FOLDER/run_G/step_V/model.safetensors``: tensors by name, float32; G counts resumptions.

    ``FOLDER/run_G/newest.json`` is written last and names the newest version. Each file is replaced
    as a whole, so a reader finds all of a version or nothing. The last few versions are kept.
    """

    def __init__(self, folder: Path, layout: Layout, generation: int, patience: float) -> None:
        self.folder = folder / f"run_{generation}"
        self._layout, self._patience = layout, patience
        self._read: tuple[int, Floats] | None = None

    def send(self, version: int, params: Floats) -> None:
        """Write a version, then the signal.

        Raises:
            WeightsUnusable: the folder has newer versions, which are those of another run.
            OSError: it cannot be written.
        """
        there = self.signal()
        if there is not None and there.version >= version:
            if there.version > version:
                raise WeightsUnusable(str(self.folder), _OTHERS.format(there.version, version))
            return
        step = self.folder / f"step_{version}"
        step.mkdir(parents=True, exist_ok=True)
        for folder in (step, self.folder):  # of a learner that was killed: there is one at a time
            remove_drafts(folder)
        write_durably(step / WEIGHTS, safetensors.numpy.save(named(params, self._layout)))
        signal = msgspec.json.encode(Signal(version, step.name))
        write_durably(self.folder / SIGNAL, signal)
        for old in self.folder.glob("step_*"):
            number = old.name.removeprefix("step_")
            if number.isdigit() and int(number) <= version - _KEPT:
                shutil.rmtree(old, ignore_errors=True)

    def receive(self, version: int, params: Floats) -> tuple[int, Floats]:
        """Wait for the signal of that version, and read the newest one."""
        deadline = Deadline(self._patience)
        while True:
            newest = self.awaited(version, deadline)
            if self._read is not None and self._read[0] == newest.version:
                return self._read
            try:
                flat = self._flat(self.folder / newest.folder / WEIGHTS)
            except FileNotFoundError:
                if self.signal() == newest:
                    raise
                continue  # newer ones came meanwhile, and this one went
            self._read = newest.version, flat
            return self._read

    def signal(self) -> Signal | None:
        """What the signal says; None if there is none.

        Raises:
            WeightsUnusable: it says nothing of that kind.
        """
        try:
            return msgspec.json.decode(contents(self.folder / SIGNAL), type=Signal)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise WeightsUnusable(str(self.folder / SIGNAL), f"it is no signal: {error}") from error

    def awaited(self, version: int, deadline: Deadline) -> Signal:
        """The signal, once it is of this version or a newer one.

        Raises:
            DeadlineExceeded: it is not in time.
        """
        pause, most = _PAUSES
        while (found := self.signal()) is None or found.version < version:
            if deadline.passed:
                there = "no version" if found is None else f"version {found.version}"
                what = f"version {version} of the weights in {self.folder}, which has {there}"
                raise DeadlineExceeded(what, self._patience)
            time.sleep(pause)
            pause = min(2 * pause, most)
        return found

    def _flat(self, path: Path) -> Floats:
        """The weights of a file, in the memory of those that were read before.

        Raises:
            FileNotFoundError: it is not there.
            WeightsUnusable: it is damaged, or of another model.
        """
        try:
            arrays = safetensors.numpy.load(contents(path))
        except SafetensorError as error:
            raise WeightsUnusable(str(path), f"it is no safetensors file: {error}") from error
        wanted = {name: (np.dtype(np.float32), shape) for name, shape in self._layout}
        if (found := {n: (a.dtype, a.shape) for n, a in arrays.items()}) != wanted:
            odd = sorted(n for n in found.keys() | wanted if found.get(n) != wanted.get(n))
            raise WeightsUnusable(str(path), f"it is of another model: {', '.join(odd[:3])} differ")
        flat = np.empty(_size(self._layout), np.float32) if self._read is None else self._read[1]
        for name, view in named(flat, self._layout).items():
            view[...] = arrays[name]
        return flat


def named(flat: Floats, layout: Layout) -> dict[str, Floats]:
    """Views of each tensor by its name."""
    found, at = {}, 0
    for name, shape in layout:
        found[name] = flat[at : at + math.prod(shape)].reshape(shape)
        at += math.prod(shape)
    return found


def _size(layout: Layout) -> int:
    return sum(math.prod(shape) for _, shape in layout)


_OTHERS = (
    "it has version {} already, and this run is at version {}: versions of another run are there; "
    "give each run a weights_folder of its own"
)
