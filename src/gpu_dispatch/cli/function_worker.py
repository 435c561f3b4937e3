"""A plain function as a worker: it is called once per item, with the ``--setup`` values as keyword arguments.

Only the names of the module and the function travel, so anything that can be imported will do (a lambda, a
``functools.partial``, an object with ``__call__``), whether it pickles or not.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

from gpu_dispatch.worker import BaseWorker


class FunctionWorker(BaseWorker):
    def setup(self, gpu_id: int, seed: int, **kwargs: Any) -> None:
        module, name = kwargs["module"], kwargs["name"]
        self._function: Callable[..., Any] = operator.attrgetter(name)(importlib.import_module(module))
        self._arguments: dict[str, Any] = kwargs["arguments"]

    def process(self, data: Any) -> Any:
        return self._function(data, **self._arguments)
