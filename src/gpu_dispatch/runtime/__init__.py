"""The worker process.

    main thread                         reader thread
    entry ─► setup ─► TaskRunner ◄──── Mailbox ◄──── channel
                         │                │
                         └──► Outbox ◄────┘ (flush on recall)
                               board + channel ────► parent

A worker with batches, or with I/O beside its model, has a BatchRunner in place of the TaskRunner; see batches.py.

The main thread runs user code, so that signals (the soft timeout) reach it. The reader thread only moves tasks in
and out of the mailbox: it can give back tasks that have not begun while user code is busy.

Not here: bytes on the wire (transport/), who starts and kills this process (backends/).
"""
