"""How far an actor's rows were handed over: where a run that goes on begins to hand over again."""

from __future__ import annotations

from artos.buffer.actor_block import ActorBlock


def handed_over(block: ActorBlock) -> int:
    """The row below which each was handed over to all who are handed rows, and used by them.

    Where nobody is, that is every row that was written.
    """
    if not block.spec.consumers:
        return block.written
    return min(block.written, *(header.released for header in block.headers.values()))


def cut(block: ActorBlock, row: int) -> None:
    """Void the rows from ``row`` on, so that nothing is left to be handed over.

    Rows before stay for those who draw. Only while nobody writes or reads the block.
    """
    block.commit(min(row, block.written))
    for consumer in block.spec.consumers:
        block.acknowledge(consumer.name, row, row)
