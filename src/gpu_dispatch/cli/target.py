"""What to run: ``worker.py:Class``, ``package.module:Class``, or a plain function in either.

A worker process finds the class by importing its module, so a file is imported under its real name, from its
folder (or, inside a package, from the folder that holds the package, so that relative imports work). That folder
goes on ``sys.path``, which the workers get too, *behind* the standard library and *before* installed packages:
a neighbour called ``random.py`` breaks nothing, a neighbour called ``helpers.py`` is found.

A function is called once per item by a FunctionWorker (function_worker.py).
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import sysconfig
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gpu_dispatch.errors import UsageError
from gpu_dispatch.worker import BaseWorker


@dataclass(frozen=True, slots=True)
class Target:
    spec: str
    """As the user wrote it."""
    module: str
    name: str
    obj: Any
    is_function: bool


def load_target(spec: str) -> Target:
    """Import what ``spec`` names. Everything that can be wrong with it is a UsageError of one line."""
    where, name = _split(spec)
    is_file = where.endswith(".py") or where.startswith(".") or os.sep in where
    module = _import_file(Path(where)) if is_file else _import_module(where)
    if name is None:
        name = _only_worker(module, spec)
    obj = _find(module, name, spec)
    if isinstance(obj, type):
        if not issubclass(obj, BaseWorker):
            raise UsageError(
                f"{spec}: the class {name} does not derive from gpu_dispatch.BaseWorker{_offer(module, besides=name)}"
            )
        if inspect.isabstract(obj):
            missing = " and ".join(sorted(obj.__abstractmethods__))
            raise UsageError(f"{spec}: the class {name} does not define {missing}")
        return Target(spec, module.__name__, name, obj, is_function=False)
    if not callable(obj):
        raise UsageError(f"{spec}: {name} is neither a class nor a function but a {type(obj).__name__}")
    if inspect.iscoroutinefunction(obj):
        raise UsageError(f"{spec}: {name} is an async function; give a plain one (it may call asyncio.run)")
    return Target(spec, module.__name__, name, obj, is_function=True)


def worker_names(module: ModuleType) -> list[str]:
    """The workers and functions that ``module`` itself defines, workers first."""
    workers, functions = [], []
    for name, obj in vars(module).items():
        if name.startswith("_") or getattr(obj, "__module__", None) != module.__name__:
            continue
        if isinstance(obj, type) and issubclass(obj, BaseWorker) and not inspect.isabstract(obj):
            workers.append(name)
        elif inspect.isfunction(obj):
            functions.append(name)
    return workers + functions


def _split(spec: str) -> tuple[str, str | None]:
    where, colon, name = spec.rpartition(":")
    if not colon:
        where, name = spec, ""
    if not where or (colon and not name):
        raise UsageError(f"{spec!r} is not a target; write worker.py:Class or package.module:Class")
    return where, name or None


def _import_file(path: Path) -> ModuleType:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; a target is a file and a class in it: {path}/worker.py:Class")
    if not path.exists():
        with_suffix = f"{path}.py"
        near = f"; there is {with_suffix}" if os.path.exists(with_suffix) else ""
        raise UsageError(f"there is no file {path}{near}")
    path = path.resolve()
    if path.suffix != ".py":
        raise UsageError(f"{path.name} is not a Python file (.py)")
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").exists() and root.name.isidentifier():
        parts.insert(0, root.name)
        root = root.parent
    if "." in path.stem:
        raise UsageError(f"{path.name} cannot be imported by the workers: rename it to a name without dots")
    importable_from(root)
    module = _import(".".join(parts), path.name)
    found = getattr(module, "__file__", None)
    if found is None or not os.path.samefile(found, path):
        owner = "of Python itself" if parts[0] in sys.stdlib_module_names else f"that is imported from {found}"
        raise UsageError(f"{path.name} has the name of a module {owner}: rename the file")
    return module


def _import_module(name: str) -> ModuleType:
    importable_from(Path.cwd())
    return _import(name, name)


def importable_from(folder: Path) -> None:
    """Put ``folder`` on sys.path, behind the standard library and before what is installed."""
    text = str(folder)
    if text in sys.path:
        return
    installed = {os.path.realpath(sysconfig.get_path(key)) for key in ("purelib", "platlib")}
    place = next((i for i, entry in enumerate(sys.path) if os.path.realpath(entry) in installed), len(sys.path))
    sys.path.insert(place, text)


def _import(name: str, shown: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(f"there is no module {name!r} here or installed") from error
        raise UsageError(f"cannot import {shown}: {error}{_place(error)}; is it installed?") from error
    except SyntaxError as error:
        raise UsageError(f"{os.path.basename(error.filename or shown)}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        raise UsageError(f"cannot import {shown}: {type(error).__name__}: {error}{_place(error)}") from error


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    return f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if len(frames) > 1 else ""


def _only_worker(module: ModuleType, spec: str) -> str:
    names = worker_names(module)
    workers = [n for n in names if isinstance(getattr(module, n), type)]
    if len(workers) == 1:
        return workers[0]
    if not workers and len(names) == 1:
        return names[0]
    raise UsageError(f"{spec}: which class or function? write {spec}:NAME{_offer(module)}")


def _find(module: ModuleType, name: str, spec: str) -> Any:
    obj: Any = module
    for part in name.split("."):
        if not hasattr(obj, part):
            raise UsageError(f"{spec}: there is no {name} in {module.__name__}{_offer(module)}")
        obj = getattr(obj, part)
    return obj


def _offer(module: ModuleType, besides: str = "") -> str:
    names = [n for n in worker_names(module) if n != besides]
    if not names:
        return "; it defines no worker class and no function"
    return f"; it has: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
