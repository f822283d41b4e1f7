"""Leases of one machine's CPU slots and devices, by all processes of a user, without a daemon.

::

    with Pool.join([Resource("cuda:0")]) as pool:  # from artos.pool.pool and artos.pool.resources
        seat = pool.enter("ppo-pong", weight=2.0, memory_mb=900)
        with seat.lease(seconds=30.0, wait=60.0) as lease:
            ...  # on lease.resource
            if lease.wanted:
                lease.renew()  # others get their turns here, by weight and priority

**Where.** One table in shared memory (``shm_root``/artos-pool-UID/table, in a folder of mode 0700),
made by the first process that joins and removed by the last that leaves. No process is special.
The first member says which resources there are and how many may share one; others may add some.

**Who is next** is decided by ``fair_queue``, a pure function: weighted by held resource-seconds per
workload, higher priorities first, and no wait longer than ``longest_wait``. Slots and devices
(``kind``) have queues and accounts of their own. Two workloads with one seat each take turns
whatever their weights are, unless they ``renew``: weights can only act between seats that wait at
the same time.

**Promised**

- A resource never has more valid leases than its ``share``, nor more memory promised than it has.
- Whichever process is killed, at any point: a change of the table happens as a whole or not at all,
  and what the process had is reclaimed as soon as another one looks. Those that wait look at once:
  they sleep on the ends of the other processes. Nothing polls, except for members in another PID
  namespace, which cannot be watched: they are checked twice a second.
- A lease goes on beyond its ``seconds`` only while no other waits. After that it is revoked: the
  next one runs, and the holder finds out at its next ``check``, ``renew`` or end: ``LeaseRevoked``.
- While no other waits, beginning and ending a lease takes no lock, but for a party's. A seat keeps
  its resource between leases, and gets the same one again later if it is free.
- Seats of one ``Party`` get their resources at the same time or not at all, and hold nothing while
  they wait. What a process of it had that was killed is reclaimed; the others keep what they hold.
- A forked child is not a member, has no lease, and keeps none alive.
- Every wait has a deadline, and its error says who holds what, or who of a party has not asked.
- What no pool has written is refused by name (``PoolDamaged``), and nothing is opened through a
  link, nor removed that no pool has made.

**Not promised**

- The table cannot take a device from a process: an overdue holder may still compute there while the
  next one does. ``Pool.join(on_revoked=…)`` tells a supervisor which process to end. How much
  memory a seat needs is what its process says; nothing here limits what it allocates.
- When a process ends, the kernel releases its locks before its memory on a device: for some
  milliseconds that memory may still be taken while the next holder runs.
- A process that is stopped (SIGSTOP) in the microseconds in which it changes the table keeps all
  others waiting: after seconds they fail with ``PoolStuck``, which names it. A holder that is
  stopped at another time is like one that hangs.
- Held seconds of a process that was killed are counted until another one looks. All counts are gone
  with the last member.
- A seat, a pool and a lease belong to one thread. Users do not share a pool: each has their own,
  unless all name a folder that root has made for their group; then they trust one another.
"""
