"""Actors restored from the image of a warm template (paper §4.3)."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

from artos.errors import ArtosError, RestoreFailed, TemplateFailed
from artos.protocol.invocations import Failed, FromMember
from artos.runtime.template import WAKE, Identity, tell
from artos.specs.members import Member
from artos.system.child import Child, ProcessSpec, Starter, start
from artos.system.child_modules import ChildModule
from artos.system.regular_file import opened
from workers.actors.spawners.spawner import TEMPLATE, Kind, Place, Spawned
from workers.checkpoint.checkpointer import Checkpointer, Shot
from workers.checkpoint.criu import common_memory
from workers.checkpoint.criu.driver import Criu, Operation
from workers.checkpoint.images import Image
from workers.host.pinning import Prefix
from workers.host.slots import Slot

_FAILURES = 3


class Clones:
    """One template is started and checkpointed, and ends; every actor is a restored copy of it.

    Where the machine allows it, the template's memory is first moved to a file that all clones
    share. Restores run in parallel, ``at_once`` at a time. A clone reads its identity from a file
    that it inherits in place of the template's identity file; then a signal wakes it. A restore
    that fails is tried again; after three failures in a row the spawner takes its next strategy.
    """

    kind: Kind = "clone"
    optional = False

    def __init__(
        self,
        place: Place,
        member: Member,
        criu: Criu,
        checkpointer: Checkpointer,
        prefix: Prefix,
        at_once: int,
        begin: Starter = start,
    ) -> None:
        self._place, self._criu, self._checkpointer = place, criu, checkpointer
        self._prefix = prefix
        self._at_once = at_once
        self._asked: list[tuple[Member, Slot | None]] = []
        self._restores: dict[Member, tuple[Operation, Slot | None]] = {}
        self._spawned: list[Spawned] = []
        self._failures = 0
        self._image: Image | None = None
        self._shot: Shot | None = None
        self._sharing: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._failed = ""
        self._identity = Path(place.site.folder) / "identity"
        self._identity.touch(mode=0o600)
        self._log, self._memory = place.log(TEMPLATE), place.new_memory()
        self._member, self._begin = member, begin
        self._template: Child | None = None

    @property
    def ready(self) -> bool:
        """Whether there is an image to restore actors from."""
        return self._image is not None

    def request(self, member: Member, slot: Slot | None) -> None:
        """Have a process made for an actor; a second request for it changes nothing."""
        if member not in self._restores and all(member != asked for asked, _ in self._asked):
            self._asked.append((member, slot))

    def heard(self, message: FromMember) -> None:
        """Checkpoint the template once it says that it is ready."""
        if isinstance(message, Failed):
            self._failed = message.trace
            return
        assert self._template is not None
        try:
            self._pid = _first_of_namespace(self._template.pid)
            if common_memory.SUPPORTED:
                self._sharing = common_memory.begin(self._pid, self._memory, self._log)
                return
        except OSError as error:
            self._failed = str(error)
            return
        self._take()

    def _take(self) -> None:
        try:
            self._shot = self._checkpointer.take(self._pid, TEMPLATE)
        except (ArtosError, OSError) as error:
            self._failed = str(error)

    def poll(self) -> list[Spawned]:
        """Clones made since the last call; the first call starts the template. Never waits."""
        if self._failed:
            raise TemplateFailed(self.kind, self._failed)
        try:
            self._advance()
        except TemplateFailed as failed:
            self._failed = failed.why
        except (ArtosError, OSError) as error:
            self._failed = str(error)
        spawned, self._spawned = self._spawned, []
        if self._failed and not spawned:  # else raised next time, so that no process is lost
            raise TemplateFailed(self.kind, self._failed)
        return spawned

    def _advance(self) -> None:
        if self._template is None and self._image is None:
            site, plan = self._place.text_for(self._member), str(self._place.plan_file)
            arguments = ("image", site, plan, str(self._identity))
            spec = ProcessSpec(ChildModule.TEMPLATE, arguments, apart=True)
            self._template = self._begin(spec, self._log)
        died = self._template is not None and self._template.died() is not None
        if died and self._shot is None:
            assert self._template is not None
            raise TemplateFailed(self.kind, self._template.log_tail() or "the template ended")
        if self._sharing is not None and self._sharing.poll() is not None:
            self._sharing = None  # if it failed, each clone has a copy of all the memory
            self._take()
        if self._shot is not None and self._checkpointer.is_done(self._shot):
            self._image, self._shot = self._shot.image, None
            self._end_template()
        self._finish_restores()
        self._begin_restores()

    def _end_template(self) -> None:
        if self._template is not None:
            self._template.kill()
            self._template = None

    def _begin_restores(self) -> None:
        if self._image is None:
            return
        while self._asked and len(self._restores) < self._at_once:
            member, slot = self._asked.pop(0)
            try:
                self._restores[member] = self._restore(member, slot), slot
            except (RestoreFailed, OSError) as error:
                self._try_again(member, slot, error)
                return

    def _restore(self, member: Member, slot: Slot | None) -> Operation:
        assert self._image is not None
        identity = Path(f"{self._identity}-{member.rank}")
        tell(identity, Identity(self._place.site_for(member)))
        with ExitStack() as stack:
            log = stack.enter_context(opened(self._place.log_of(member), "ab"))
            identity_file = stack.enter_context(opened(identity))
            # Keyed by the paths that CRIU saw: absolute and without links.
            held = {self._identity: identity_file.fileno(), self._log: log.fileno()}
            inherit = {os.path.realpath(path): descriptor for path, descriptor in held.items()}
            return self._criu.restore(self._image, inherit, self._prefix(slot))

    def _finish_restores(self) -> None:
        for member, (operation, slot) in list(self._restores.items()):
            try:
                outcome = operation.poll()
            except RestoreFailed as error:
                del self._restores[member]
                self._try_again(member, slot, error)
                continue
            if outcome is not None:
                del self._restores[member]
                self._failures = 0
                os.kill(outcome.pid, WAKE)
                child = Child(outcome.pid, self._place.path_of(member))
                self._spawned.append(Spawned(member, child, self.kind))

    def _try_again(self, member: Member, slot: Slot | None, error: Exception) -> None:
        self._failures += 1
        if self._failures >= _FAILURES:
            raise error
        self._asked.append((member, slot))

    def close(self) -> None:
        """Cancel what is under way, and end the template."""
        for operation, _ in self._restores.values():
            operation.cancel()
        if self._sharing is not None:
            self._sharing.kill()
            self._sharing.wait()
            self._memory.unlink(missing_ok=True)
        if self._shot is not None:
            self._shot.operation.cancel()
        self._end_template()


def _first_of_namespace(pid: int) -> int:
    """The pid, as seen here, of the process itself or of the child that ``unshare`` forked.

    Raises:
        OSError: the process has ended.
    """
    (numbers,) = re.findall(r"NSpid:(.*)", Path(f"/proc/{pid}/status").read_text())
    if numbers.split()[-1] == "1":
        return pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if not children:
        raise OSError(f"the template's process {pid} has no child any more")
    return int(children[0])
