"""The rows of one policy's agents in an actor's block, by the names that its learner has."""

from __future__ import annotations

from copy import copy
from typing import Annotated

import msgspec

from artos.buffer.actor_block import ActorBlock
from artos.specs.keys import OTHER_VERSIONS, VERSION_KEY, DataKey


class Part(msgspec.Struct, frozen=True):
    """What a learner has of rows that hold agents of several policies.

    The block has ``POLICY/rewards`` of shape (envs,) where the learner has ``rewards`` of so many
    ``envs``, the rows of its agents.
    """

    policy: str
    keys: tuple[DataKey, ...]
    """As the learner knows them."""
    envs: Annotated[int, msgspec.Meta(ge=1)]
    """Its agents, of all games of an actor."""
    versions: str = VERSION_KEY
    """The data key of the versions of this policy that acted."""
    state_keys: tuple[str, ...] = ()
    """Those of ``keys`` that hold a recurrent state."""

    @classmethod
    def of(
        cls,
        policy: str,
        keys: tuple[DataKey, ...],
        envs: int,
        state: tuple[str, ...],
        *,
        first: bool,
    ) -> Part:
        """That of a policy, which is the ``first`` or another one."""
        return cls(policy, keys, envs, VERSION_KEY if first else OTHER_VERSIONS + policy, state)

    @property
    def stored(self) -> tuple[DataKey, ...]:
        """The same keys as the block has them."""
        return tuple(stored(self.policy, key, self.envs) for key in self.keys)


def stored(policy: str, key: DataKey, envs: int) -> DataKey:
    """A key of a policy's rows, as a block has it that holds those of several."""
    shape = (envs, *key.shape) if key.per_env else key.shape
    return msgspec.structs.replace(
        key, name=stored_name(policy, key.name), shape=shape, per_env=False
    )


def stored_name(policy: str, name: str) -> str:
    """``POLICY/KEY``, as tables of triggers have it, too."""
    return f"{policy}/{name}"


def by_versions_of(block: ActorBlock, learner: str) -> ActorBlock:
    """The rows of a block in place, with the versions of this learner as those that made them."""
    found = copy(block)
    own = OTHER_VERSIONS + learner
    found.headers = {**block.headers, VERSION_KEY: block.headers[own]}
    found.arrays = {**block.arrays, VERSION_KEY: block.arrays[own]}
    return found


def part_of_block(block: ActorBlock, part: Part) -> ActorBlock:
    """The rows of a part in place: a block to read from, with keys and environments of its own."""
    found, names = copy(block), {key.name: stored_name(part.policy, key.name) for key in part.keys}
    names[VERSION_KEY] = part.versions
    found.spec = msgspec.structs.replace(block.spec, keys=part.keys, envs=part.envs, consumers=())
    found._keys = {key.name: key for key in found.spec.all_keys}
    found._names = tuple(names)
    found.headers = {name: block.headers[at] for name, at in names.items()}
    found.arrays = {name: block.arrays[at] for name, at in names.items()}
    return found
