"""The replicas of a learner as processes of this machine, which compute together through torch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
import torch.distributed
from numpy.typing import NDArray
from torch import Tensor
from xxhash import xxh3_64

from artos.buffer.gathering import Gathering
from artos.buffer.layout import LINE, align
from artos.buffer.samplers.drawn_batch import DrawnBatch, Elsewhere, PrioritisedElsewhere
from artos.errors import NothingToSample, ReplicaLost
from artos.learners.replicas import Replicas
from artos.specs.members import Member
from artos.system.pidfd import PidFd

dist: Any = torch.distributed  # the classes of its groups have no public types
_ROOT = 0
_DRAWN, _NOTHING = 0, 1
_HERE = "127.0.0.1"
_NEARLY = 0.9
"""Of a deadline: who has waited longer has waited to the end."""
_ENDING_SECONDS = 0.2
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_log = logging.getLogger(__name__)


class _Header(msgspec.Struct):
    """What a batch is that another replica has drawn: its arrays, in order, and their drawer."""

    arrays: list[tuple[str, str, tuple[int, ...]]]
    burn_in: int
    numbers: dict[str, int]
    prioritised: bool


class ReplicaGroup(Replicas):
    """Sums and broadcasts between the replicas of one learner, by gloo, on GPUs by NCCL.

    They meet through a file in ``folder``, the run's shared memory, so no port is fixed; gloo's
    connections are of the loopback interface. ``term`` counts how often they have met: when one
    dies all are started again and meet anew.

    Every step that they take together has the deadline of ``seconds``, and their ``meeting``, for
    which each has to be started, one of its own.

    Raises:
        ReplicaLost: one of them did not come.
    """

    def __init__(
        self,
        folder: Path,
        gathering: Gathering,
        member: Member,
        term: int,
        seconds: float,
        meeting: float,
        device: str = "cpu",
    ) -> None:
        self.rank, self.count, self._role = member.rank, gathering.count, member.role
        self._gathering, self._seconds, self._device = gathering, seconds, torch.device(device)
        self._warned = False
        store = dist.FileStore(str(folder / f"{member.role}-replicas-{term}"), self.count)
        store.set(f"{self.rank} is here", "")
        everyone, within = [f"{n} is here" for n in range(self.count)], timedelta(seconds=meeting)
        meet = "the meeting of the replicas"
        self._together(meet, lambda: store.wait(everyone, within), meeting)
        self._host = self._gpus = self._together(meet, lambda: self._gloo(store))
        if self._device.type == "cuda":
            self._gpus = self._together(meet, lambda: self._nccl(store))

    def _gloo(self, store: Any) -> Any:
        options = dist.ProcessGroupGloo._Options()
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=_HERE)]
        options._timeout = timedelta(seconds=self._seconds)
        return dist.ProcessGroupGloo(
            dist.PrefixStore("gloo", store), self.rank, self.count, options
        )

    def _nccl(self, store: Any) -> Any:
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timedelta(seconds=self._seconds)
        return dist.ProcessGroupNCCL(
            dist.PrefixStore("nccl", store), self.rank, self.count, options
        )

    def _together(self, what: str, do: Callable[[], Any], seconds: float | None = None) -> Any:
        """Take a step that all of them take.

        Raises:
            ReplicaLost: not all of them did.
        """
        self._gathering.begin()
        began, seconds = time.monotonic(), seconds or self._seconds
        try:
            return do()
        except RuntimeError as error:  # of torch: a connection was closed, or the deadline passed
            behind = self._gathering.behind()
            ended = [n for n in behind if _has_ended(self._gathering.pid(n))]
            lost = [str(Member(self._role, n)) for n in ended or behind]
            why = f"not within {seconds:g} s"
            if time.monotonic() - began < _NEARLY * seconds:
                why = "its process has ended" if lost else str(error)
            raise ReplicaLost(lost, what, why) from error

    # -- what learners ask for -----------------------------------------------------------------

    def sum(self, tensor: Tensor) -> None:
        """Add up a tensor over all replicas, in place."""
        group = self._gpus if tensor.is_cuda else self._host
        self._together("a sum", lambda: group.allreduce([tensor]).wait())

    def assemble(
        self, values: NDArray[Any], rows: int, at: NDArray[np.int64] | None = None
    ) -> NDArray[Any]:
        """Values (n, ...) of this one's part as those of all ``rows``, in their order."""
        whole = np.zeros((rows, *values.shape[1:]), values.dtype)
        whole[slice(self.rank, None, self.count) if at is None else at] = values
        self.sum(torch.from_numpy(whole))
        return whole

    # -- what the runtime asks for -------------------------------------------------------------

    def drawn(self, draw: Callable[[], DrawnBatch]) -> DrawnBatch:
        """The batch that the first replica draws, in all of them: they see rows come in no order.

        Raises:
            NothingToSample: the first one found nothing to draw.
        """
        lead, nothing, batch, text = self.rank == _ROOT, None, None, b""
        head = torch.zeros(3, dtype=torch.int64)
        if lead:
            try:
                batch = draw()
            except NothingToSample as error:
                nothing = error
                head[:] = torch.tensor([_NOTHING, error.rows, error.stale])
            else:
                text = _encoded(batch)
                head[1] = len(text)
        self._broadcast(head)
        if nothing is not None:
            raise nothing
        if head[0] == _NOTHING:
            raise NothingToSample(int(head[1]), int(head[2]))
        data = bytearray(text) if lead else bytearray(int(head[1]))
        self._broadcast(torch.frombuffer(data, dtype=torch.uint8))
        return batch or _decoded(data)

    def agree(self, live: Iterable[Any]) -> None:
        """Have all hold what the first one holds; this is also where each waits for the others.

        They hold the same but for rounding: where a library adds up in another order, they would
        drift apart. ``live`` are tensors or arrays.
        """
        tensors = [torch.as_tensor(each) for each in live]
        digest = xxh3_64()
        for tensor in tensors:
            digest.update(_bytes_of(tensor).data)
        number = digest.intdigest() >> 1
        both = torch.tensor([number, -number])
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        self._together("the end of a call", lambda: self._host.allreduce([both], options).wait())
        if both[0] == -both[1]:
            return
        if not self._warned:
            self._warned = True
            _log.warning(
                "the replicas of %s did not compute the same: from now on all take over what the "
                "first one has, whenever they differ (said once)", self._role,
            )  # fmt: skip
        for tensor in tensors:
            self._broadcast(tensor)

    def _broadcast(self, tensor: Tensor) -> None:
        group = self._gpus if tensor.is_cuda else self._host
        self._together("a broadcast", lambda: group.broadcast(tensor, _ROOT).wait())


def _has_ended(pid: int) -> bool:
    """Whether a process has ended, or is just about to: its connections are closed first."""
    if not pid:
        return False
    try:
        with PidFd(pid) as process:
            return process.wait(_ENDING_SECONDS)
    except ProcessLookupError:
        return True


def _bytes_of(tensor: Tensor) -> NDArray[Any]:
    """What is in a tensor; of one on a GPU only a sum of it, which need not be copied here."""
    bits = tensor.detach().reshape(-1)
    if bits.device.type != "cpu":
        bits = bits.view(_BITS[bits.element_size()]).sum().cpu().reshape(1)
    return bits.view(torch.uint8).numpy()


def _encoded(batch: DrawnBatch) -> bytes:
    shapes = [(name, array.dtype.str, array.shape) for name, array in batch.items()]
    header = _Header(shapes, batch.burn_in, dict(batch.numbers), batch.takes_priorities)
    text = msgspec.msgpack.encode(header)
    parts = [len(text).to_bytes(LINE, "little"), text, *(a.tobytes() for a in batch.values())]
    return b"".join(part + bytes(align(len(part), LINE) - len(part)) for part in parts)


def _decoded(data: bytearray) -> DrawnBatch:
    size, arrays = int.from_bytes(data[:LINE], "little"), {}
    header = msgspec.msgpack.decode(data[LINE : LINE + size], type=_Header)
    at = LINE + align(size, LINE)
    for name, dtype, shape in header.arrays:
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, dtype, count, at).reshape(shape)
        at += align(arrays[name].nbytes, LINE)
    kind = PrioritisedElsewhere if header.prioritised else Elsewhere
    return DrawnBatch(arrays, kind(header.burn_in, header.numbers))
