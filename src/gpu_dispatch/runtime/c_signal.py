"""The C half of ``signal``: the module itself makes enums of it all, which takes a new process a while."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

__all__ = ["signal"]
