"""Turning an exception into a Failure: text first, the object only as a best effort.

Anything may go wrong with a user's exception: its ``str()`` raises, it holds ten megabytes, it does not pickle, or
it pickles and does not unpickle. The text always arrives.
"""

from __future__ import annotations

import pickle
import traceback

from gpu_dispatch.transport.explain import safe_str
from gpu_dispatch.wire import Failure

MOST_TEXT = 64_000
"""Characters of a text that are kept: head and tail, where tracebacks say what matters."""
MOST_PICKLE = 64_000


def failure_of(error: BaseException, kind: str = "error") -> Failure:
    names = tuple(f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__)
    return Failure(kind, clip(render(error)), names, _pickled(error))


def render(error: BaseException) -> str:
    """The traceback, without our own frames at its top."""
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("gpu_dispatch.runtime"):
            trace = trace.tb_next
        return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
    except BaseException:  # an exception whose str() or repr() raises
        return f"{type(error).__qualname__}: {safe_str(error)}"


def clip(text: str, most: int = MOST_TEXT) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _pickled(error: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(error, protocol=5)
        if len(data) > MOST_PICKLE:
            return None
        pickle.loads(data)  # an exception with required arguments pickles, and fails only here
    except BaseException:
        return None
    return data
