"""All messages between our processes, and how they are encoded and decoded.

``control``, ``steering`` and ``data`` hold the messages of one conversation each, ``message`` their
base classes; ``codec`` turns them into bytes and back. ``invocations`` go through the mailboxes of
one machine; ``orders`` are the files that processes are started with.
"""
