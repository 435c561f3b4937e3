"""The C half of ``pickle``, which is all that is needed here.

``import pickle`` brings ``re`` and ``enum`` with it, for its pure-Python twin: a third of a worker's time to start.
"""

from __future__ import annotations

try:
    from _pickle import PickleBuffer, Pickler, dumps, loads
except ImportError:  # pragma: no cover -- an interpreter without it
    from pickle import PickleBuffer, Pickler, dumps, loads

__all__ = ["PickleBuffer", "Pickler", "dumps", "loads"]
