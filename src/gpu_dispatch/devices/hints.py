"""What to tell a user whose setup failed in a way that the confinement explains."""

from __future__ import annotations

_ORDINAL = ("invalid device ordinal", "invalid device id", "invalid device number", "invalid cuda device")


def hint_for_setup_error(text: str) -> str | None:
    """A hint to print below the error of a ``setup()``, or None when we have nothing to add."""
    if any(phrase in text.lower() for phrase in _ORDINAL):
        return (
            'Hint: inside a worker its own GPU is number 0, whatever its gpu_id: use self.device ("cuda:0"), '
            'not f"cuda:{gpu_id}". To see all GPUs under their own numbers, pass isolate=False to the Dispatcher.'
        )
    return None
