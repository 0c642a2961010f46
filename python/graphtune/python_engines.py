"""Engines that are written in Python: a class that builds and loads them, registered under a name.

    class Doubler:
        def build(self, job): ...
        def load(self, folder, options): ...

    graphtune.register_engine("doubler", Doubler)
    graphtune.tune(module, data, backends=("openvino", "doubler"))

``build(job)`` runs in a process of its own. ``job`` is what every builder gets (builders.py): the exported program's
file ``job["program"]``, ``job["shapes"]`` and ``job["ranges"]`` in symbols, ``job["options"]``, ``job["threads"]``. It
writes files into the folder ``job["output"]`` and gives a dict: "file", the name of the main one, and if it likes
"options" (JSON; the job's, if left out) and "versions". What it raises is the reason that the user sees.

``load(folder, options)`` gives a function from the list of the call's flat tensors to the list of its results. The
options are those of the build with "threads" (0: as many as you like). The function is called without gradients, and
its results are copied, so that it may reuse its memory. It must not write to or keep its inputs. Calls take turns
unless the class says ``thread_safe = True``.

The class may have ``version()`` ("name 1.0") and ``unavailable_reason()`` ("no such device"), both static. Such an
engine is validated and measured as any other is, and what it raises in a call is an ``EngineError``. A crash of the
class's own code in a call can't be caught: it ends the process, as that of any extension does.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from . import _core
from .building import register_builder
from .errors import GraphtuneTypeError, GraphtuneValueError

__all__ = ["build_engine", "class_of", "load_engine", "register_engine", "source_digest"]

Function = Callable[[list[torch.Tensor]], list[torch.Tensor]]

_BUILT_IN = {"inductor": "graphtune.inductor_engine:InductorEngine"}
_RESERVED = {"aoti", "eager", "onnxruntime", "openvino", "torchscript", *_BUILT_IN}
_classes: dict[str, str] = dict(_BUILT_IN)
# Engines may be loaded by several threads, but torch.export.load bears one call at a time.
_loading = threading.RLock()


def register_engine(name: str, engine_class: type | str) -> None:
    """Joins a backend of your own, see above; one of the same name is replaced. ``engine_class`` may be
    "module:qualname".

    The name takes lower-case letters, digits and "_". Processes that build and measure import the class, so it must be
    found under its module's name. Raises ``GraphtuneTypeError`` and ``GraphtuneValueError``.
    """
    class_name = engine_class if isinstance(engine_class, str) else _class_name(engine_class)
    if name in _RESERVED:
        raise GraphtuneValueError(f"name: {name!r} is the name of one of graphtune's own engines")
    try:
        found = find_class(class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise GraphtuneValueError(
            f"engine_class: {class_name} can't be imported, as the processes that build and measure have to: {error}"
        ) from error
    if not isinstance(engine_class, str) and found is not engine_class:
        raise GraphtuneValueError(f"engine_class: {class_name} is the name of another class")
    for method in ("build", "load"):
        if not callable(getattr(found, method, None)):
            raise GraphtuneTypeError(f"engine_class: {class_name} has no method {method}")
    _core.register_python_backend(name, class_name)
    register_builder(name, "graphtune.python_engines:build_engine")
    _classes[name] = class_name


def class_of(backend: str) -> str:
    """ "module:qualname" of the class behind a backend; empty for backends that aren't written in Python."""
    return _classes.get(backend, "")


def _class_name(engine_class: type) -> str:
    if not isinstance(engine_class, type):
        raise GraphtuneTypeError(f"engine_class: a class is needed, not {engine_class!r}")
    module, name = engine_class.__module__, engine_class.__qualname__
    if module == "__main__" or "<locals>" in name:
        raise GraphtuneValueError(
            f"engine_class: {name} is defined in {'a script' if module == '__main__' else 'a function'}, where the "
            "processes that build and measure can't import it from; put it into a module"
        )
    return f"{module}:{name}"


def find_class(class_name: str) -> Any:
    """The class of "module:qualname". Raises ImportError, AttributeError or ValueError."""
    module, colon, path = class_name.partition(":")
    if not (module and colon and path):
        raise ValueError(f"{class_name!r} is not of the form 'module:qualname'")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def source_digest(class_name: str) -> str:
    """SHA-256 of the file that defines a class: an engine is built anew when it has changed. Empty without a file."""
    file = getattr(sys.modules[find_class(class_name).__module__], "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""


# --- in the process that builds ---------------------------------------------------------------------------------------


def build_engine(job: Mapping[str, Any]) -> dict[str, Any]:
    """The builder of all such engines: lets the class build, then loads what it built and runs it at the range ends."""
    from .builders import check_at_range_ends, engine_facts

    class_name, folder = job["engine_class"] or class_of(job["backend"]), Path(job["output"])
    built = find_class(class_name)().build(job)
    if not isinstance(built, Mapping) or not isinstance(built.get("file"), str):
        raise TypeError(f"{class_name}.build gave {built!r} instead of a dict with the name of its main file as 'file'")
    program = torch.export.load(job["program"])
    engine = engine_facts(job, program, built["file"], [built["file"]])
    engine["options"] = dict(built.get("options", job["options"]))
    engine["versions"] |= dict(built.get("versions", {}))
    (folder / "engine.json").write_text(json.dumps(engine))
    _core.register_python_backend(job["backend"], class_name)
    runtime = _core.Engine(job["backend"], folder, job["threads"])
    check_at_range_ends(job, program, lambda tensors: list(runtime.run(tensors)))
    return engine


# --- called by the extension ------------------------------------------------------------------------------------------


def load_engine(class_name: str, folder: str, threads: int) -> Function:
    """The function that the extension calls for an engine of such a class."""
    engine_class = find_class(class_name)
    options = json.loads((Path(folder) / "engine.json").read_text())["options"]
    with _loading:
        function = engine_class().load(Path(folder), {**options, "threads": threads})
    if not callable(function):
        raise TypeError(f"{class_name}.load gave {function!r} instead of a function")
    turn = contextlib.nullcontext() if getattr(engine_class, "thread_safe", False) else threading.Lock()

    def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        with turn, torch.no_grad():
            return _owned(class_name, function(tensors))

    return run


def _owned(class_name: str, results: Any) -> list[torch.Tensor]:
    """Copies: whatever the class does with its memory later, a result stays as it is."""
    if not isinstance(results, Sequence) or not all(isinstance(each, torch.Tensor) for each in results):
        kind = type(results).__name__
        raise TypeError(f"{class_name}: a list of tensors is needed as the result, not {kind}")
    return [each.detach().clone(memory_format=torch.contiguous_format) for each in results]


def engine_version(class_name: str) -> str:
    engine_class = find_class(class_name)
    return str(engine_class.version()) if hasattr(engine_class, "version") else class_name


def engine_unavailable_reason(class_name: str) -> str:
    engine_class = find_class(class_name)
    return str(engine_class.unavailable_reason()) if hasattr(engine_class, "unavailable_reason") else ""
