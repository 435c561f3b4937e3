"""The worker process.

    entry ─► setup ─► TaskRunner ◄──── Mailbox ◄──── Reader ◄──── channel ◄──── parent
                         │  │                          │
           (numbers)     │  └──► Outbox ◄──────────────┘ (flush on recall)
                         ▼         ▼
                       board ◄─────┴──► channel ────► parent

A worker with batches, or with I/O beside its model, has a BatchRunner in place of the TaskRunner; see batches.py.

The main thread runs user code, so that signals (the soft timeout) reach it. When it has nothing to run it reads; while
it runs, a thread of the Reader can give back tasks that have not begun, and the Flusher's sends what is finished.

Not here: bytes on the wire (transport/), who starts and kills this process (backends/).
"""
