"""Bytes between one parent and one worker.

    parent                                                      worker
    Channel ══════════ socketpair, one per worker life ═════════ WorkerChannel
    Board   ◄───────── shared memory: what runs, what is finished and not yet sent
    Arena   ◄────────► shared memory: large buffers, both ways

Guarantees
- Nothing is shared between workers: no lock, no pipe with two writers. A worker that dies takes nothing with it.
- The parent never blocks: it writes what the socket takes and keeps the rest.
- A frame is believed only when complete.

Not here: what the messages mean (engine/ and runtime/).
"""
