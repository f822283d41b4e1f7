"""Everything that processes of ours say to each other, and how it is written and read.

``control``, ``steering`` and ``data`` have the messages of one conversation each, ``message`` has
their roots, ``codec`` turns them into bytes and back. ``invocations`` go through the mailboxes of
one machine; ``orders`` are the files that processes are started with.
"""
