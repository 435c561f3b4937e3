"""The parent's side of a run.

feeder thread ──items──►┐                        ┌──► backend ──► workers
                      loop ─► Scheduler ─► perform
workers ──► wait ──────►┘                        └──► notices ──► delivery, on the caller's thread

feeder.py      pulls from the user's iterable, while there is credit
loop.py        the one thread that asks the scheduler and performs what it answers
notices.py     what the loop tells the delivering thread
delivery.py    callbacks, and giving back credit
interrupts.py  Ctrl-C and SIGTERM, noted and no more
run.py         one run from start to end
"""
