"""``wrap`` and ``unwrap``: put ``graphtune.Module`` around the modules of a pipeline, in place, and take it off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .errors import GraphtuneTypeError, GraphtuneValueError
from .module import Module
from .module_places import Place, find_modules, is_callable, is_wrapped, modules_by_identity, resolve
from .recording import RecordingModule

if TYPE_CHECKING:
    from .inspection_result import Inspection

__all__ = ["find_wrapped", "places_to_wrap", "put_all", "unwrap", "wrap"]


def wrap(
    pipeline: Any,
    names: str | Iterable[str] | Inspection | None = None,
    *,
    strict: bool | None = None,
    miss_policy: str | None = None,
) -> dict[str, Module]:
    """Puts a ``graphtune.Module`` around modules of a pipeline, in place.

        modules = graphtune.wrap(pipeline, ["encoder", "decoder.blocks.0"])
        graphtune.tune(lambda batch: pipeline(batch), prompts, collate=list)

    ``pipeline`` is an ``nn.Module``, a plain object, or a dict or list, that holds modules in attributes, containers
    and submodules. ``names`` are dotted paths ("decoder.blocks.0", "heads.main"), or what ``inspect`` gave: then its
    candidates; by default the outermost modules (not those in tuples, which can't be changed). Gives path -> Module;
    each has its path as name. A module that the pipeline holds at several places is wrapped once, and put at all of
    them but those within another wrapped module.
    ``strict`` and ``miss_policy`` are those of ``Module``.

    Raises ``GraphtuneValueError`` for a path that is not there, a module that is wrapped already, that lies in a
    wrapped one or holds one, and ``GraphtuneTypeError`` for a path that is no module and for a place that can't be
    changed. The pipeline is then as it was.
    """
    paths = _paths_to_wrap(pipeline, names)
    targets = places_to_wrap(pipeline, paths)
    modules: dict[int, Module] = {}
    for path in paths:
        inner = targets[path][0].value
        if id(inner) not in modules:
            modules[id(inner)] = Module(inner, name=path, strict=strict, miss_policy=miss_policy)
    result = {path: modules[id(targets[path][0].value)] for path in paths}
    put_all([(place, result[path]) for path in paths for place in targets[path]])
    return result


def unwrap(pipeline: Any, names: str | Iterable[str] | None = None) -> dict[str, torch.nn.Module]:
    """Puts the original modules back: those at the paths ``names``, by default all. Gives path -> module.

    Raises ``GraphtuneValueError`` for a path that is not there or not wrapped. The pipeline is then as it was.
    """
    places: list[Place] = []
    if names is None:
        places = [place for place in find_modules(pipeline) if is_wrapped(place.value)]
    else:
        everywhere = modules_by_identity(pipeline)
        for path in _checked_paths(names):
            place = resolve(pipeline, path)[-1]
            if not is_wrapped(place.value):
                raise GraphtuneValueError(f"{path}: it is not wrapped, so there is nothing to take off")
            # The place itself too: a property's is not found by looking.
            others = [each for each in everywhere.get(id(place.value), []) if each.path != path]
            places += [place, *(each for each in others if each.kind != "fixed")]
    originals = {place.path: place.value.wrapped for place in places}
    # What lies deepest first: a path leads through wrappers.
    put_all([(place, originals[place.path]) for place in reversed(places) if place.kind != "fixed"])
    return originals


def find_wrapped(pipeline: Any) -> dict[str, Module]:
    """The wrapped modules of a pipeline by the first path of each."""
    found: dict[int, tuple[str, Module]] = {}
    for place in find_modules(pipeline):
        if isinstance(place.value, Module):
            found.setdefault(id(place.value), (place.path, place.value))
    return dict(found.values())


def places_to_wrap(pipeline: Any, paths: Sequence[str]) -> dict[str, list[Place]]:
    """For each path the places of its module, the named one first. Raises for what ``wrap`` refuses."""
    if is_wrapped(pipeline):
        raise GraphtuneValueError(
            f"pipeline: it is wrapped itself, as {pipeline.name!r}, and no part of a wrapped module is wrapped again"
        )
    named: dict[str, Place] = {}
    for path in paths:
        *way, place = resolve(pipeline, path)
        outer = next((each for each in way if is_wrapped(each.value) or each.path in paths), None)
        if outer is not None:
            raise GraphtuneValueError(
                f"{path}: it lies in {outer.path}, which is wrapped, and whose engines hold all of it; wrap one of them"
            )
        _check_target(path, place.value)
        named[path] = place
    everywhere = modules_by_identity(pipeline)
    wrapped_ways = [*paths, *(place.path for place in find_modules(pipeline) if is_wrapped(place.value))]
    targets: dict[str, list[Place]] = {}
    for path, place in named.items():
        others = [
            each
            for each in everywhere.get(id(place.value), [])
            if each.path not in named and each.kind != "fixed" and not _lies_within(each.path, wrapped_ways)
        ]
        targets[path] = [place, *others]
    return targets


def put_all(changes: Sequence[tuple[Place, torch.nn.Module]]) -> None:
    """Puts each module at its place: all, or none when one raises."""
    done: list[tuple[Place, Any]] = []
    try:
        for place, module in changes:
            before = place.value
            place.put(module)
            done.append((place, before))
            if place.value is not module:
                raise GraphtuneTypeError(f"{place.path}: its setter keeps something else than what it is given")
    except BaseException:
        for place, before in reversed(done):
            place.put(before)
        raise


def _check_target(path: str, value: Any) -> None:
    if isinstance(value, RecordingModule):
        raise GraphtuneValueError(
            f"{path}: it is wrapped already, as {value.name!r}; graphtune.unwrap(pipeline, {path!r}) takes that off"
        )
    if not isinstance(value, torch.nn.Module):
        raise GraphtuneTypeError(f"{path}: an nn.Module is needed, there is a {type(value).__name__}")
    if not is_callable(value):
        raise GraphtuneTypeError(f"{path}: a {type(value).__name__} is never called itself; wrap what it holds")
    inner = next((name for name, part in value.named_modules() if isinstance(part, RecordingModule)), None)
    if inner is not None:
        raise GraphtuneValueError(
            f"{path}: it holds {path}.{inner}, which is wrapped, and which its own engines would never call; unwrap "
            "that first, or leave this as it is"
        )


def _lies_within(path: str, others: Iterable[str]) -> bool:
    return any(path.startswith(other + ".") for other in others)


def _paths_to_wrap(pipeline: Any, names: str | Iterable[str] | Inspection | None) -> list[str]:
    from .inspection_result import Inspection

    if names is None:
        seen: set[int] = set()
        paths = []
        for place in find_modules(pipeline, within=False):
            if place.kind == "fixed" or not is_callable(place.value) or is_wrapped(place.value):
                continue
            if id(place.value) not in seen:
                seen.add(id(place.value))
                paths.append(place.path)
        if not paths:
            raise GraphtuneValueError(
                f"pipeline: no module that could be wrapped was found in {type(pipeline).__name__}"
            )
        return paths
    if isinstance(names, Inspection):
        paths = [report.path for report in names.candidates()]
        if not paths:
            raise GraphtuneValueError("names: the inspection found no module worth wrapping; print it for the reasons")
        return paths
    return _checked_paths(names)


def _checked_paths(names: str | Iterable[str]) -> list[str]:
    given = [names] if isinstance(names, str) else list(names)
    for path in given:
        if not isinstance(path, str):
            raise GraphtuneTypeError(f"names: paths are strings such as 'decoder.blocks.0', not {type(path).__name__}")
    if not given:
        raise GraphtuneValueError("names: no path was given")
    return list(dict.fromkeys(given))
