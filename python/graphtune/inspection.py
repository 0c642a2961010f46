"""``inspect``: runs a data set and says which modules of a pipeline are worth tuning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .call_mode import inactive
from .errors import GraphtuneTypeError, GraphtuneValueError
from .inspection_result import GraphSummary, Inspection, ModuleReport
from .module_places import Place, find_modules, is_callable, is_wrapped
from .module_watch import ModuleWatch, Watched
from .tuner import call_batch, call_module, checked_sizes, make_source

__all__ = ["inspect"]

# Each graph of a module is tuned by itself; of more than these, arguments should be changed first.
_MOST_GRAPHS = 8


def inspect(
    target: Any,
    dataset: Any,
    *,
    modules: Any = None,
    batch_size: int | None = None,
    batch_sizes: Sequence[int] | None = None,
    max_batches: int | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
) -> Inspection:
    """Runs a data set and reports on every module: calls, execution graphs, share of the time, parameters.

        found = graphtune.inspect(pipeline, prompts, collate=list, max_batches=4)
        print(found)
        modules = graphtune.wrap(pipeline, found)

    ``target`` is an ``nn.Module``; an object that is called with one batch and holds modules in its attributes; or a
    function of one batch, with the object that holds the modules (or a dict or list of them) as ``modules``. The data
    set is read as by ``tune``, at ``batch_size`` (default 1) or each of ``batch_sizes``. The first batch runs once more
    before, unseen, so that what happens only once is in no time.

    The models run eagerly and without gradients; wrapped modules neither serve nor record meanwhile. Nothing stays
    changed: hooks are taken off, also when a call raises. Not seen are calls of ``module.forward`` itself and those
    within compiled or scripted modules.

    Raises ``GraphtuneValueError`` for an empty data set, a module in train mode and a target without modules,
    ``GraphtuneTypeError`` for arguments of a wrong type, and whatever the target raises.
    """
    if batch_size is not None and batch_sizes is not None:
        raise GraphtuneValueError("batch_size and batch_sizes: give one of them")
    sizes = checked_sizes(batch_sizes if batch_sizes is not None else [1 if batch_size is None else batch_size])
    call = _call_of(target)
    holder = target if modules is None else modules
    places = _places_of(holder, target)
    source = make_source(dataset, collate, max_batches)
    if source.fixed_batches is not None:
        sizes = sizes[:1]
    watch = ModuleWatch([group[0].value for group in places.values()])
    batches = 0
    with inactive():
        first = next(iter(source.batches(sizes[0])), None)
        if first is not None:
            call_batch(call, first)
        with watch.hooks():
            for size in sizes:
                for batch in source.batches(size):
                    with watch.run():
                        call_batch(call, batch)
                    batches += 1
    root = holder if isinstance(holder, torch.nn.Module) else None
    return Inspection(
        target=_name_of(target),
        modules=tuple(_reports(watch, list(places.values()), root, _name_of(target))),
        batches=batches,
        batch_sizes=tuple(sizes) if source.fixed_batches is None else (),
        seconds=watch.whole.total_seconds,
    )


def _call_of(target: Any) -> Callable[[Any], Any]:
    if isinstance(target, torch.nn.Module):
        module: torch.nn.Module = target
        return lambda data: call_module(module, data)
    if not callable(target):
        raise GraphtuneTypeError(
            f"target: a {type(target).__name__} can't be called with a batch; pass a function of one batch and the "
            "object that holds the modules: inspect(lambda batch: pipeline.run(batch), dataset, modules=pipeline)"
        )
    function: Callable[[Any], Any] = target
    return function


def _name_of(target: Any) -> str:
    name = getattr(target, "__name__", "") if not isinstance(target, torch.nn.Module) else ""
    return name if isinstance(name, str) and name else type(target).__name__


def _places_of(holder: Any, target: Any) -> dict[int, list[Place]]:
    """The places of each module, the holder's own first where it is one."""
    places: dict[int, list[Place]] = {}
    if isinstance(holder, torch.nn.Module):
        places[id(holder)] = [Place("", [holder], "item", 0)]
    for place in find_modules(holder):
        places.setdefault(id(place.value), []).append(place)
    if not places:
        raise GraphtuneValueError(
            f"target: no nn.Module was found in the attributes of {_name_of(target)}; pass the object, dict or list "
            "that holds the modules as modules="
        )
    for group in places.values():
        if group[0].value.training:
            where = group[0].path or "the target"
            raise GraphtuneValueError(
                f"{where} is in train mode, in which a run may change the model: call eval() before it is inspected"
            )
    return places


def _reports(
    watch: ModuleWatch, groups: Sequence[list[Place]], root: torch.nn.Module | None, target: str
) -> list[ModuleReport]:
    whole = watch.whole
    seconds = whole.total_seconds or 1.0
    reports = []
    if root is None:
        parts = [group[0].value for group in groups]
        reports.append(
            ModuleReport(
                path="",
                class_name=target,
                depth=0,
                also_at=(),
                calls=whole.calls,
                graphs=(),
                total_seconds=whole.total_seconds,
                own_seconds=whole.own_seconds,
                total_share=whole.total_seconds / seconds,
                own_share=whole.own_seconds / seconds,
                **_weights(parts),
                wrapped=False,
                obstacle="it is no nn.Module; wrap what it holds",
            )
        )
    paths = [group[0].path for group in groups]
    made: list[ModuleReport] = []
    # Backwards: a container's time is that of what it holds, which comes after it.
    for group in reversed(groups):
        place, module = group[0], group[0].value
        watched = watch[module]
        total = watched.total_seconds
        if not is_callable(module):
            inner = {each.path: each for each in made}
            held = [inner[f"{place.path}.{name}"] for name in module._modules if f"{place.path}.{name}" in inner]
            total = sum(each.total_seconds for each in held)
        graphs = _graphs(watched)
        inner_module = module.wrapped if is_wrapped(module) else module
        made.append(
            ModuleReport(
                path=place.path,
                class_name=type(inner_module).__name__,
                depth=sum(place.path.startswith(f"{path}.") for path in paths) + bool(place.path),
                also_at=tuple(each.path for each in group[1:]),
                calls=watched.calls,
                graphs=graphs,
                total_seconds=total,
                own_seconds=watched.own_seconds,
                total_share=total / seconds,
                own_share=watched.own_seconds / seconds,
                **_weights([module]),
                wrapped=is_wrapped(module),
                obstacle=_obstacle(module, watched, graphs),
            )
        )
    return reports + made[::-1]


def _weights(modules: Sequence[torch.nn.Module]) -> dict[str, int]:
    parameters = {id(each): each for module in modules for each in module.parameters()}
    buffers = {id(each): each for module in modules for each in module.buffers()}
    tensors = {**parameters, **buffers}.values()
    return {
        "parameters": sum(each.numel() for each in parameters.values()),
        "weight_bytes": sum(each.numel() * each.element_size() for each in tensors),
    }


def _graphs(watched: Watched) -> tuple[GraphSummary, ...]:
    summaries = []
    for spec in watched.graph_specs:
        reason = spec.eager_reason
        if not reason and not spec.output_spec.tensor_specs:
            reason = "its result holds no tensor"
        symbols = {name: (int(low), int(high)) for name, (low, high) in spec.symbols.items()}
        summaries.append(GraphSummary(spec.name, spec.sample_count, symbols, reason))
    return tuple(summaries)


def _obstacle(module: torch.nn.Module, watched: Watched, graphs: Sequence[GraphSummary]) -> str:
    """Why wrapping this module would gain nothing, as it is called now."""
    if not is_callable(module):
        return "it is never called itself; wrap what it holds"
    if watched.calls == 0:
        return "it was not called"
    if watched.problem:
        return watched.problem
    if len(graphs) > _MOST_GRAPHS:
        return (
            f"its calls have {len(graphs)} execution graphs, each of which would be tuned by itself; pass what varies "
            "as a tensor, or wrap it with strict=False where the constants that vary change nothing"
        )
    eager: dict[str, int] = {}
    for graph in graphs:
        if graph.eager_reason:
            eager[graph.eager_reason] = eager.get(graph.eager_reason, 0) + graph.calls
    if 2 * sum(eager.values()) > watched.calls or not graphs:
        return max(eager, key=lambda reason: eager[reason], default="its calls are traced")
    return ""
