"""Every error ARTOS raises: one class per situation, with fields; the message says what to do."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence


class ArtosError(Exception):
    """Base of all errors of ARTOS: catch this to catch everything ARTOS raises on purpose."""


class Refused(ArtosError):
    """The input was refused before anything was started. ``faults`` lists every reason at once."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


class NoSuchRun(Refused):
    """There is no run of that name or in that folder. ``hint`` says where it was looked for."""

    def __init__(self, run: str, hint: str) -> None:
        self.run, self.hint = run, hint
        super().__init__([f"there is no run {run!r} {hint}"])


class BufferFault(ArtosError):
    """Base of all errors of shared memory."""


class ShmTooSmall(BufferFault):
    """The shared-memory filesystem cannot hold what the run needs (both in bytes)."""

    def __init__(self, needed: int, available: int, folder: str) -> None:
        self.needed, self.available, self.folder = needed, available, folder
        gigabytes = -(-needed // 2**30) + 1
        super().__init__(
            f"{folder} has {available / 1e6:.1f} MB free, this run needs {needed / 1e6:.1f} MB: "
            f"use fewer actors, envs or steps, run `artos clean`, or enlarge it "
            f"(mount -o remount,size={gigabytes}G {folder}; a container: --shm-size={gigabytes}g; "
            f"a pod: shm={-(-gigabytes * 5 // 4)}Gi)"
        )


class MemoryTooSmall(ShmTooSmall):
    """The control group's memory limit leaves less than the run needs (both in bytes).

    The kernel counts shared memory, and kills a process that goes beyond the limit.
    """

    def __init__(self, needed: int, left: int) -> None:
        super().__init__(needed, left, "")
        self.args = (
            f"the memory limit of the control group (container, service, job) leaves "
            f"{left / 1e6:.1f} MB, this run needs {needed / 1e6:.1f} MB of shared memory alone: "
            "use fewer actors, envs or steps, or raise the limit",
        )


class FilesTooSmall(ShmTooSmall):
    """This process may not write files (``ulimit -f``) as large as the run needs (in bytes)."""

    def __init__(self, needed: int, limit: int) -> None:
        super().__init__(needed, limit, "")
        self.args = (
            f"files may have {limit / 1e6:.1f} MB at most here (ulimit -f), this run needs one of "
            f"{needed / 1e6:.1f} MB: raise the limit, or use fewer steps, envs or units",
        )


class LayoutMismatch(BufferFault):
    """A file is not a block file, or has another layout version; ``found`` says what it has."""

    def __init__(self, path: str, found: object, expected: object) -> None:
        self.path, self.found, self.expected = path, found, expected
        what = f"layout {found}" if isinstance(found, int) else found
        super().__init__(
            f"{path} has {what}, this ARTOS reads layout {expected}: remove it with "
            "`artos clean` or use the version that wrote it"
        )


class BadRow(BufferFault):
    """A row does not fit its data key, or holds a value that must not be stored."""

    def __init__(self, key: str, actor: int, step: int, why: str) -> None:
        self.key, self.actor, self.step, self.why = key, actor, step, why
        super().__init__(f"data key {key!r}, actor {actor}, step {step}: {why}")


class BadObject(BufferFault):
    """A learner published an object that it has not declared, or has declared in another form."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why
        super().__init__(f"object {name!r} cannot be published: {why}")


class UnknownKey(BufferFault):
    """A data or object key that the workload does not declare."""

    def __init__(self, key: str, known: Sequence[str]) -> None:
        self.key, self.known = key, tuple(known)
        super().__init__(f"unknown key {key!r}: this workload has {', '.join(known)}")


class Overwritten(BufferFault):
    """A reader was too slow: its rows were overwritten before or while it read them."""

    def __init__(self, actor: int, start: int, oldest: int) -> None:
        self.actor, self.start, self.oldest = actor, start, oldest
        super().__init__(
            f"rows from step {start} of actor {actor} are gone (oldest left: {oldest}): sample "
            "again, or give the block more capacity"
        )


class BadAnswer(ArtosError):
    """A server's answer does not fit what it declares.

    Names the ``server`` and the ``key``, which is "" if it is none of one.
    """

    def __init__(self, server: str, key: str, why: str) -> None:
        self.server, self.key, self.why = server, key, why
        what = f"its answer {key!r}" if key else "answer"
        super().__init__(f"server {server!r}: {what} {why}")


class BadRequest(ArtosError):
    """An actor asked a server for something that does not fit what the ``server`` declares."""

    def __init__(self, server: str, key: str, why: str) -> None:
        self.server, self.key, self.why = server, key, why
        super().__init__(f"server {server!r}: in a request {key!r} {why}")


class NothingToSample(BufferFault):
    """No row qualifies for a batch; ``max_lag`` leaves out ``stale`` of the ``rows`` present."""

    def __init__(self, rows: int, stale: int = 0) -> None:
        self.rows, self.stale = rows, stale
        why = f"max_lag leaves out {stale} of them, raise it" if stale else "wait for more"
        super().__init__(f"none of {rows} rows can be sampled: {why}")


class NotOurs(ArtosError, PermissionError):
    """A folder to be used belongs to another user, as ``why`` says; nothing in it was touched.

    ``then`` is what to do. It is also an ``OSError``: code that handles folders that cannot be
    written handles it, too.
    """

    def __init__(
        self, path: str, why: str, then: str = "remove it, or choose another place"
    ) -> None:
        self.path, self.why, self.then = path, why, then
        super().__init__(errno.EPERM, f"not used, because {why}", path)

    def __str__(self) -> str:
        return f"{self.path} is not used, because {self.why}: {self.then}"


class DeadlineExceeded(ArtosError):
    """A wait timed out after ``seconds``. ``waited_for`` names what did not come."""

    def __init__(self, waited_for: str, seconds: float) -> None:
        self.waited_for, self.seconds = waited_for, seconds
        super().__init__(f"gave up after {seconds:g} s waiting for {waited_for}")


class StillCopied(ArtosError):
    """A run's records are being copied from its head; ``here`` of ``there`` bytes have come."""

    def __init__(self, run: str, here: int, there: int) -> None:
        self.run, self.here, self.there = run, here, there
        come = f"{here / 1e6:,.1f} of {there / 1e6:,.1f} MB are here"
        super().__init__(f"the records of {run} are being copied from the head: {come}; ask again")


class NoHead(ArtosError):
    """There is no head of a cluster at the address ``head``. ``why`` is the reason."""

    def __init__(self, head: str, why: str) -> None:
        self.head, self.why = head, why
        super().__init__(
            f"there is no head at {head}: {why}; give the address at which it listens (--head, or "
            f"ARTOS_HEAD), or start it there (`artos head --listen {head} --keys DIR`)"
        )


class WrongKeys(ArtosError):
    """The head is there, but the keys in the folder ``keys`` do not fit it. ``why`` says how."""

    def __init__(self, head: str, keys: str, why: str) -> None:
        self.head, self.keys, self.why = head, keys, why
        super().__init__(f"the keys in {keys} do not fit the head at {head}: {why}")


class MailboxFull(ArtosError):
    """A bounded mailbox has no room: its reader is slow or gone."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        super().__init__(f"mailbox {name} is full ({size} bytes): its reader does not keep up")


class EpisodesDoNotFit(ArtosError):
    """Actors wait for room that whole episodes take, and nobody will make any, as ``why`` says.

    ``capacity`` is the number of rows that an actor's block holds.
    """

    def __init__(self, capacity: int, why: str) -> None:
        self.capacity, self.why = capacity, why
        super().__init__(
            f"{why}, and a block holds no more than capacity={capacity} rows: raise capacity above "
            "the longest episode and a round (steps), and to an actor's share of the n of "
            "Episodes(n); or lower n, or end episodes earlier"
        )


class EndlessFiring(ArtosError):
    """A trigger fired each time it was asked again after a firing. ``times`` counts its firings."""

    def __init__(self, trigger: str, times: int) -> None:
        self.trigger, self.times = trigger, times
        super().__init__(
            f"{trigger} fired {times} times on one event: its check must return None on a Recheck "
            "unless there is more to hand over, and on an Ungranted"
        )


class TriggerFailed(ArtosError):
    """A trigger raised, or returned what is no firing, when it was asked about an event."""

    def __init__(self, target: str, trigger: str, event: str, why: str) -> None:
        self.target, self.trigger, self.event, self.why = target, trigger, event, why
        super().__init__(
            f"triggers[{target!r}], which is {trigger}, cannot be asked about {event}: {why}"
        )


class BadMessage(ArtosError):
    """A message does not fit the protocol; it was dropped and changed nothing."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"dropped a malformed message: {why}")


class NotAllowed(BadMessage):
    """A message is not allowed for the key or the name of its sender; it changed nothing."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.args = (f"not allowed: {why}",)


class MemberFailed(ArtosError):
    """User code in a member raised, too often to try again. Carries the original traceback."""

    def __init__(self, what: str, trace: str, restarts: int = 0) -> None:
        self.trace, self.restarts = trace, restarts
        super().__init__(f"{what} (restarted {restarts} times); its traceback:\n{trace}")


class ActorFailed(MemberFailed):
    """User code in an actor raised. Carries the actor, the step and the original traceback."""

    def __init__(self, actor: int, step: int, trace: str, restarts: int = 0) -> None:
        self.actor, self.step = actor, step
        super().__init__(f"actor {actor} failed at step {step}", trace, restarts)


class LearnerFailed(MemberFailed):
    """User code in the learner raised. Carries the policy version and the original traceback."""

    def __init__(self, version: int, trace: str, restarts: int = 0) -> None:
        self.version = version
        super().__init__(f"the learner failed after version {version}", trace, restarts)


class ReplicaLost(ArtosError):
    """Replicas of a learner, ``lost``, did not take part in what all of them do together.

    What the others had computed of the call is dropped, and it is made again by all.
    """

    def __init__(self, lost: Sequence[str], what: str, why: str) -> None:
        self.lost, self.what, self.why = tuple(lost), what, why
        who = ", ".join(lost) or "a replica that cannot be named"
        super().__init__(
            f"{who} did not take part in {what}: {why}; all replicas begin again from the newest "
            "version. If one is only slow, raise --deadline"
        )


class IndivisibleRows(ArtosError):
    """So few rows that some of the replicas of a learner would have none."""

    def __init__(self, rows: int, replicas: int) -> None:
        self.rows, self.replicas = rows, replicas
        super().__init__(
            f"{rows} rows cannot be divided by {replicas} replicas: lower learners, or divide "
            "larger batches"
        )


class EnvServerFailed(ArtosError):
    """The server of an environment, at ``url``, failed as ``why`` says; ``then`` is what to do."""

    def __init__(self, url: str, why: str, then: str) -> None:
        self.url, self.why, self.then = url, why, then
        super().__init__(f"the OpenEnv server at {url} {why}: {then}")


class InferenceServerFailed(ArtosError):
    """A server of texts, at ``url``, failed as ``why`` says; ``then`` is what to do."""

    def __init__(self, url: str, why: str, then: str) -> None:
        self.url, self.why, self.then = url, why, then
        super().__init__(f"the server at {url} {why}: {then}")


class WeightsUnusable(ArtosError):
    """A file of weights that go by way of a folder cannot be used. ``why`` is the reason."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"the weights in {path} cannot be used: {why}")


class DataPathFailed(ArtosError):
    """A process that moves experience or weights between nodes ended again and again."""

    def __init__(self, process: str, why: str) -> None:
        self.process, self.why = process, why
        super().__init__(f"{process} cannot be kept alive: {why}")


class NotFinite(ArtosError):
    """A loss or metric became NaN or infinite. The update was not published."""

    def __init__(self, name: str, value: float, version: int) -> None:
        self.name, self.value, self.version = name, value, version
        super().__init__(
            f"{name} is {value} in the update after version {version}: lower the learning rate, "
            "clip gradients, or check rewards and observations; the last good weights are kept"
        )


class CheckpointFault(ArtosError):
    """A checkpoint is truncated, foreign, or does not fit this workload."""

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why
        super().__init__(f"the checkpoint in {path} cannot be used: {why}")


class NotSaved(ArtosError):
    """The newest weights of a run, those of ``version``, could not be saved."""

    def __init__(self, run: str, version: int, why: str) -> None:
        self.run, self.version, self.why = run, version, why
        super().__init__(
            f"version {version} could not be saved in {run} ({why}): free some space; --resume "
            "continues from the last version that was saved"
        )


class RunExists(ArtosError):
    """Another run uses the run folder."""

    def __init__(self, path: str, live: bool) -> None:
        self.path, self.live = path, live
        what, then = "already holds a run", f"continue it with --resume {path}"
        if live:
            what, then = "is used by a live run", "stop that one first"
        super().__init__(f"{path} {what}: choose another --run-dir or {then}")


class ForbiddenMove(ArtosError):
    """An actor, or ``what`` else, was asked to make a move that its state does not allow."""

    def __init__(self, state: str, move: str, can: Sequence[str], what: str = "an actor") -> None:
        self.state, self.move, self.allowed = state, move, tuple(can)
        words = " or ".join(self.allowed) or "stay so"
        super().__init__(f"{what} that is {state} cannot {move}: in this state it can only {words}")


class TemplateFailed(ArtosError):
    """The process from which actors are cloned or forked failed. ``why`` is its message."""

    def __init__(self, kind: str, why: str) -> None:
        self.kind, self.why = kind, why
        super().__init__(f"actors cannot be started by {kind}: {why}")


class CriuUnavailable(ArtosError):
    """Processes cannot be checkpointed on this machine. ``fix`` is the command that helps."""

    def __init__(self, reason: str, fix: str) -> None:
        self.reason, self.fix = reason, fix
        super().__init__(f"actors cannot be checkpointed here: {reason}; fix: {fix}")


class NoIdentity(ArtosError):
    """A prepared process was woken without an identity. ``text`` is what it read."""

    def __init__(self, text: str, why: str) -> None:
        self.text, self.why = text, why
        super().__init__(
            f"a prepared actor was woken without an identity ({why}; it read {text[:200]!r}): "
            "write the identity before sending the signal"
        )


class CheckpointRefused(ArtosError):
    """A process could not be dumped; it keeps running.

    ``culprit`` says what prevents the dump, ``remedy`` what to do about it.
    """

    def __init__(self, pid: int, culprit: str, log: str = "", remedy: str = "") -> None:
        self.pid, self.culprit, self.log = pid, culprit, log
        self.remedy = remedy or "if it happens again, keep actors in memory (--set park=memory)"
        quoted = f"; CRIU's log:\n{log}" if log else ""
        super().__init__(f"process {pid} cannot be checkpointed: {culprit}: {self.remedy}{quoted}")


class RestoreFailed(ArtosError):
    """An image could not be restored. ``why`` is the reason, ``log`` the lines of CRIU's log."""

    def __init__(self, image: str, why: str, log: str = "") -> None:
        self.image, self.why, self.log = image, why, log
        quoted = f"; CRIU's log:\n{log}" if log else ""
        super().__init__(
            f"image {image} could not be restored: {why}; the actor must start from scratch{quoted}"
        )


class ImageUnusable(ArtosError):
    """An image must not be restored here. ``faults`` lists all reasons at once."""

    def __init__(self, image: str, faults: Sequence[str]) -> None:
        self.image, self.faults = image, tuple(faults)
        super().__init__(
            f"image {image} cannot be used here: {'; '.join(faults)}: the actor starts from scratch"
        )


class NoImage(ArtosError):
    """An actor that was to move has no image. ``why`` is the reason."""

    def __init__(self, actor: int, why: str) -> None:
        self.actor, self.why = actor, why
        super().__init__(f"there is no image of actor {actor}: {why}")


class BadBundle(ArtosError):
    """Bundle ``number`` cannot be fetched from another node. ``why`` is the reason."""

    def __init__(self, number: int, why: str) -> None:
        self.number, self.why = number, why
        super().__init__(f"bundle {number}: {why}")


class ImageBudget(ArtosError):
    """There is no room for one more image (all in bytes). Nothing was dumped."""

    def __init__(self, image: str, needed: int, room: int, budget: int, folder: str = "") -> None:
        self.image, self.needed, self.room, self.budget = image, needed, room, budget
        self.folder = folder
        super().__init__(
            f"image {image} needs about {needed / 1e6:.1f} MB and {max(0, room) / 1e6:.1f} MB of "
            f"{budget / 1e6:.1f} MB are left in {folder or 'its folder'}: give images more room "
            "(--set image_mb=N, or --set images=FOLDER on a larger filesystem), or keep actors in "
            "memory (--set park=memory)"
        )


class NotRunning(ArtosError):
    """A request to change a run that does not exist or is over. ``run`` is its folder."""

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(f"there is no live run in {run}: give the folder of a live run")


class NotBranched(ArtosError):
    """The episode of an actor cannot be continued beside it. ``why`` says what to do."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the episode cannot be branched: {why}")


class CannotReturn(ArtosError):
    """The device has no room for what was parked, which stays in the host's memory."""

    def __init__(self, size: int, device: str, why: str) -> None:
        self.size, self.device, self.why = size, device, why
        super().__init__(
            f"{size:,} bytes of networks and optimiser state cannot return to {device} ({why}): "
            "they are kept in the host's memory; end what else uses the device, or let fewer "
            "learners share it"
        )


class NotPinned(ArtosError):
    """A process is not on its slot's CPUs. ``found`` maps each thread to those it may run on.

    They are written as the kernel lists CPUs: ``0-2,7``.
    """

    def __init__(self, pid: int, wanted: str, found: Mapping[int, str]) -> None:
        self.pid, self.wanted, self.found = pid, wanted, dict(found)
        elsewhere = {thread: cpus for thread, cpus in self.found.items() if cpus != wanted}
        what = "; ".join(f"thread {thread} may run on {cpus}" for thread, cpus in elsewhere.items())
        super().__init__(
            f"process {pid} is not pinned to CPU {wanted}: {what or 'it is gone'}: `artos doctor` "
            "shows which CPUs may be used here and what pinning needs"
        )
