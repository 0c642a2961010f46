"""``tune``: runs a data set at several batch sizes, then tunes every graph that was recorded."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .batch_size import batch_size as batch_size_context
from .call_mode import recording_session
from .contracts import check_inputs
from .datasets import Batch, BatchSource
from .errors import GraphtuneTypeError, GraphtuneValueError
from .result import TuneResult
from .tune_options import TuneOptions

if TYPE_CHECKING:
    from .module import Module

__all__ = ["call_batch", "call_module", "checked_sizes", "make_options", "make_source", "require_eval", "tune"]


def tune(
    target: torch.nn.Module | Callable[[Any], Any],
    dataset: Any,
    batch_sizes: Sequence[int] = (1, 2, 4, 8),
    *,
    collate: Callable[[list[Any]], Any] | None = None,
    max_batches: int | None = None,
    progress: bool = True,
    **options: Any,
) -> TuneResult:
    """Records ``target`` on the data set at each batch size, and gives every graph found its fastest right engine.

    ``target`` is a ``graphtune.Module``, a plain ``nn.Module`` (it is wrapped: see ``result.module``), or a function of
    one batch that calls wrapped modules. A module gets a dict as keyword arguments, a tuple or list as positional ones,
    anything else as its only argument. ``dataset`` can be a ``DataLoader``, a ``Dataset``, a list or generator of
    items, or tensors; ``collate`` makes a batch of a list of items; ``max_batches`` bounds the batches of each size.
    ``options`` are those of ``TuneOptions``.

    Nothing needs to be said about shapes: batch axes, dynamic axes and their ranges are learned. Modules must be in
    eval mode. Calls that were recorded before count too.

    Raises ``GraphtuneValueError`` for an empty data set, a module in train mode and a target that calls no wrapped
    module, and ``GraphtuneTypeError`` for arguments of a wrong type. What was recorded is kept.
    """
    from .module import Module

    started = time.monotonic()
    sizes = checked_sizes(batch_sizes)
    tune_options = make_options(progress, started, {"batch_sizes": tuple(sizes), **options})
    report = tune_options.report
    module: Module | None = None
    if isinstance(target, torch.nn.Module):
        module = target if isinstance(target, Module) else Module(target)
        require_eval([module])
        call: Callable[[Any], Any] = lambda data: call_module(module, data)  # noqa: E731
    elif callable(target):
        call = target
    else:
        raise GraphtuneTypeError(
            f"target: an nn.Module or a function of one batch is needed, not {type(target).__name__}"
        )
    source = make_source(dataset, collate, max_batches)
    if source.fixed_batches is not None:
        sizes = sizes[:1]  # they can't be made at another size: one pass shows them all
    modules = _record(call, source, sizes, report)
    if not modules:
        raise GraphtuneValueError(
            "target: it called no module that is wrapped in graphtune.Module, so nothing was recorded; wrap the module "
            "that it calls: pipeline.encoder = graphtune.Module(pipeline.encoder)"
        )
    check_inputs([spec for each in modules for spec in each.graph_specs], tune_options.contract)
    graphs = {name: each.tune_graphs(tune_options) for name, each in zip(_names_of(modules), modules, strict=True)}
    return TuneResult(module or modules[0], modules, graphs, time.monotonic() - started)


def make_source(dataset: Any, collate: Callable[[list[Any]], Any] | None, max_batches: int | None) -> BatchSource:
    """Raises ``GraphtuneTypeError`` for what can't be iterated and ``GraphtuneValueError`` for an empty data set."""
    try:
        return BatchSource(dataset, collate, max_batches)
    except TypeError as error:
        raise GraphtuneTypeError(str(error)) from None
    except ValueError as error:
        raise GraphtuneValueError(str(error)) from None


def _names_of(modules: Sequence[Module]) -> list[str]:
    """Their names, told apart where several have the same: results are kept by name."""
    names: list[str] = []
    for module in modules:
        count = 1
        name = module.name
        while name in names:
            count += 1
            name = f"{module.name} ({count})"
        names.append(name)
    return names


def _record(
    call: Callable[[Any], Any], source: BatchSource, sizes: Sequence[int], report: Callable[[str], None]
) -> list[Module]:
    with recording_session() as modules:
        for size in sizes:
            count = 0
            for batch in source.batches(size):
                call_batch(call, batch)
                require_eval(modules)
                count += 1
            report(
                f"recorded {count} batches of {size}" if source.fixed_batches is None else f"recorded {count} batches"
            )
        return list(modules)


def call_batch(call: Callable[[Any], Any], batch: Batch) -> None:
    """Calls without gradients, as a sample of the batch's size. Raises ``GraphtuneValueError`` for an empty batch."""
    if batch.size < 1:
        raise GraphtuneValueError("dataset: it gave an empty batch; leave batches without items out")
    with torch.no_grad(), batch_size_context(batch.size):
        call(batch.data)


def call_module(module: torch.nn.Module, data: Any) -> Any:
    """A dict as keyword arguments, a tuple or list as positional ones, anything else as the only argument."""
    if isinstance(data, Mapping):
        return module(**data)
    if isinstance(data, (tuple, list)):
        return module(*data)
    return module(data)


def require_eval(modules: Sequence[Module]) -> None:
    """Raises ``GraphtuneValueError`` for a module that is in train mode."""
    for module in modules:
        if module.training or any(part.training for part in module.wrapped.modules()):
            raise GraphtuneValueError(
                f"{module.name} is in train mode, in which results depend on chance and on earlier calls: call "
                f"{module.name}.eval() before it is tuned"
            )


def checked_sizes(batch_sizes: Sequence[int]) -> list[int]:
    """Without repetitions. Raises ``GraphtuneTypeError`` and ``GraphtuneValueError`` for what is no batch size."""
    try:
        sizes = list(batch_sizes)
    except TypeError:
        raise GraphtuneTypeError(
            f"batch_sizes: a list of positive integers is needed, not {type(batch_sizes).__name__}"
        ) from None
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int):
            raise GraphtuneTypeError(f"batch_sizes: {size!r} is a {type(size).__name__}, not an int")
        if size < 1:
            raise GraphtuneValueError(f"batch_sizes: {size} is not a positive number of items")
    if not sizes:
        raise GraphtuneValueError("batch_sizes: at least one is needed; two or more teach which axes are batch axes")
    return list(dict.fromkeys(sizes))


def make_options(progress: bool, started: float, options: Mapping[str, Any]) -> TuneOptions:
    """Checked ``TuneOptions``; with ``progress``, each step is told on stderr, with the seconds since ``started``."""
    from .building import builder_names

    def report(text: str) -> None:
        if progress:
            print(f"[{time.monotonic() - started:6.1f} s] {text}", file=sys.stderr, flush=True)

    try:
        made = TuneOptions(report=report, **options)
    except GraphtuneTypeError:
        raise
    except TypeError as error:
        raise GraphtuneTypeError(f"tune: {error}") from None
    candidates = [config.name for config in made.configs]
    backends = [config.backend for config in made.configs]
    if made.force and made.force not in candidates:
        backends.append(made.force)
    for backend in backends:
        if backend not in builder_names():
            raise GraphtuneValueError(f"backends: {backend!r} is none of {', '.join(builder_names())}")
    return made
