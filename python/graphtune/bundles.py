"""Saving a tuned module, and loading it again, with or without the model."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from . import _core
from .constants import constant_value
from .engine_configs import check_threads
from .errors import BundleError, GraphtuneTypeError, GraphtuneValueError, MissError
from .serving import is_transformed, tuned_router
from .types import build
from .user_messages import sentence, warn_user
from .versions import library_versions

if TYPE_CHECKING:
    from .graph_tuner import TunedGraph
    from .module import Module

__all__ = [
    "LoadOptions",
    "LoadedModule",
    "LoadedParts",
    "bundle_path",
    "bundle_writer",
    "load",
    "load_alone",
    "save",
]


def save(module: Any, path: str | os.PathLike[str]) -> Path:
    """Writes one tuned module, or several, to the folder ``path``: manifests and engines, without any pickle.

    ``module`` is a ``graphtune.Module`` or a ``LoadedModule``: a bundle is written. Or it is several: a dict name ->
    module, a list of them, or a pipeline whose modules were wrapped, then named by their paths in it: a folder is
    written that lists them, with a bundle of each. A bundle or such a folder that is there already is replaced whole.
    Gives the path.

    Raises ``GraphtuneValueError`` for a module that was not tuned, for two of one name and where something else is at
    ``path``, which is left alone; ``GraphtuneTypeError`` where there is no tuned module. Of a module that was loaded,
    the engines of its bundle are copied: they must still be there and unchanged (``BundleError``).
    """
    from .module import Module

    if isinstance(module, Module | LoadedModule):
        return module.save(path)
    from .pipeline_bundles import save_modules

    return save_modules(module, bundle_path(path))


def bundle_path(path: Any) -> Path:
    """The path of a bundle as the user gave it. Raises GraphtuneTypeError and GraphtuneValueError that name it."""
    try:
        text = os.fspath(path)
    except TypeError:
        text = path
    if not isinstance(text, str):
        raise GraphtuneTypeError(f"path: a str or Path of a folder is needed, not {type(path).__name__}")
    if not text:
        raise GraphtuneValueError("path: must not be empty")
    if "\0" in text:
        raise GraphtuneValueError(f"path: {text!r} has a NUL character, which no path can have")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise GraphtuneValueError(f"path: {text!r} can't be a path: {error}") from None
    return Path(text)


def bundle_writer(name: str, strict: bool, signature: Any, graphs: Sequence[TunedGraph], weights: str) -> Any:
    """What is to be written of a tuned module; ``weights`` is the digest of the model's when it was tuned."""
    versions = {**library_versions(), "graphtune": _core.__version__, "weights": weights}
    writer = _core.BundleWriter(name, strict, signature, versions)
    for graph in graphs:
        plan = [(entry.engine, dict(entry.limits)) for entry in graph.plan]
        engines = [
            (engine.name, engine.backend, engine.folder, _is_code(engine.backend), json.dumps(engine.info))
            for engine in graph.engines
        ]
        writer.add_graph(graph.spec, plan, engines, graph.output_alias, graph.stored_changes)
    return writer


def _is_code(backend: str) -> bool:
    """What it loads runs as part of the process: machine code, or a program that nothing holds back."""
    return _core.backend_info(backend).loads_native_code


def load(
    path: str | os.PathLike[str],
    model: Any = None,
    *,
    allow_native_code: bool | None = None,
    miss_policy: str | None = None,
    threads: int = 0,
    loading: str = "in_turn",
) -> Any:
    """Loads what ``save`` wrote.

    Of one module: without ``model`` a ``LoadedModule``, a callable that needs no model class; calls outside of the
    bundle raise ``MissError``. With it: a ``graphtune.Module`` around the model, which serves such calls.

    Of several: a dict name -> ``LoadedModule``; with the pipeline as ``model``, its modules are wrapped in place, at
    the paths that are their names, and name -> ``Module`` is given. When one can't be loaded, the pipeline is as it
    was.

    ``threads`` replaces what the engines were tuned with; engines of one's own have to be registered before.

    ``loading`` says when engines are loaded: "in_turn", one after the other, "in_parallel", as many at a time as there
    are cores, or "on_first_call", each by the first call that it serves; what can't be loaded then fails that call,
    which follows ``miss_policy`` where there is a model.

    The models' weights must be those that were tuned, else a ``GraphtuneValueError`` is raised. Every file is checked
    before it is used (``BundleError``). Engines of AOTInductor, TorchScript and Python are code: by default they are
    loaded from bundles that were built on this machine; ``allow_native_code=True`` allows those of others.
    """
    options = LoadOptions(allow_native_code, miss_policy, threads, loading)
    folder = bundle_path(path)
    if _core.holds_modules(folder):
        from .pipeline_bundles import load_modules

        return load_modules(folder, model, options)
    if model is None:
        return load_alone(folder, options)
    if not isinstance(model, torch.nn.Module):
        raise GraphtuneTypeError(
            f"model: {path} is the bundle of one module, so that an nn.Module is needed, not {type(model).__name__}"
        )
    return LoadedParts(folder, model, options).put_to_use()


#: When the engines of a bundle are loaded.
LOADING = {
    "in_turn": _core.EngineLoading.IN_TURN,
    "in_parallel": _core.EngineLoading.IN_PARALLEL,
    "on_first_call": _core.EngineLoading.ON_FIRST_CALL,
}


@dataclasses.dataclass(frozen=True)
class LoadOptions:
    allow_native_code: bool | None = None
    miss_policy: str | None = None
    threads: int = 0
    loading: str = "in_turn"

    def __post_init__(self) -> None:
        from .module import MISS_POLICIES

        if self.miss_policy is not None and self.miss_policy not in MISS_POLICIES:
            raise GraphtuneValueError(f"miss_policy: {self.miss_policy!r} is none of {', '.join(MISS_POLICIES)}")
        check_threads("threads", self.threads)
        if self.loading not in list(LOADING):  # which may be unhashable
            raise GraphtuneValueError(f"loading: {self.loading!r} is none of {', '.join(LOADING)}")


def load_alone(path: Path, options: LoadOptions) -> LoadedModule:
    """A bundle without its model."""
    bundle, router, templates = _read(path, options, has_model=False)
    return LoadedModule(bundle, tuned_router(router, bundle.signature, templates, None))


class LoadedParts:
    """A bundle that was found to fit a model, but is not in use yet. Raises as ``load`` does."""

    def __init__(self, path: Path, model: torch.nn.Module, options: LoadOptions) -> None:
        from .module import weights_digest

        self._bundle, self._router, self._templates = _read(path, options, has_model=True)
        self._model = model
        self._options = options
        if self._bundle.versions["weights"] != weights_digest(model):
            raise GraphtuneValueError(
                f"model: its weights are not those that {path} was tuned with, so that engines and eager would give "
                "different values; load the weights that were tuned, or tune this model"
            )

    def put_to_use(self, name: str | None = None) -> Module:
        """The engines in front of the model: in its wrapper where it has one, else in a new one."""
        from .module import Module

        bundle = self._bundle
        given = self._model
        module = (
            given if isinstance(given, Module) else Module(given, name=name or bundle.module_name, strict=bundle.strict)
        )
        if self._options.miss_policy is not None:
            module.miss_policy = self._options.miss_policy
        router = tuned_router(self._router, bundle.signature, self._templates, module.wrapped)
        module.install(router, bundle.graph_specs, None, bundle)
        return module


def _read(path: Path, options: LoadOptions, has_model: bool) -> tuple[Any, Any, list[Any]]:
    bundle = _core.read_bundle(path, allow_native_code=options.allow_native_code)
    router, problems = _core.load_router(
        bundle, options.allow_native_code, options.threads, has_model, LOADING[options.loading]
    )
    for problem in problems:
        warn_user(problem)
    return (
        bundle,
        router,
        [_template_of(spec, _core.describe_changes(bundle, index)) for index, spec in enumerate(bundle.graph_specs)],
    )


class LoadedModule:
    """A tuned module without its model: call it as the model was called. Thread safe."""

    def __init__(self, bundle: Any, router: Any) -> None:
        self._bundle = bundle
        self._router = router

    @property
    def name(self) -> str:
        return str(self._bundle.module_name)

    @property
    def graph_specs(self) -> list[Any]:
        return list(self._bundle.graph_specs)

    def stats(self) -> dict[str, Any]:
        """Calls by graph and engine, and misses by reason."""
        return dict(self._router.stats())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_transformed():
            raise MissError(
                "calls under autocast, a tracer or forward-mode differentiation need the model: load the bundle with "
                "graphtune.load(path, model)"
            )
        outcome = self._router.call(args, kwargs, False, torch.is_grad_enabled())
        if type(outcome) is _core.Miss:
            raise MissError(
                f"{self.name}: {sentence(outcome.message)} To have the model itself serve such calls, load the bundle "
                "with it: graphtune.load(path, model)"
            )
        if outcome is _core.RUN_EAGERLY:
            raise MissError(
                "the plan of this graph serves these sizes eagerly, and there is no model: load the bundle with "
                "graphtune.load(path, model)"
            )
        return outcome

    def save(self, path: str | os.PathLike[str]) -> Path:
        """See ``graphtune.save``."""
        target = bundle_path(path)
        _core.copy_bundle(self._bundle, target)
        return target

    def stored(self) -> Any:
        """What ``save`` writes: the bundle."""
        return self._bundle

    # Nothing of it changes: copies share the engines.
    def __copy__(self) -> LoadedModule:
        return LoadedModule(self._bundle, self._router)

    def __deepcopy__(self, memo: dict[int, Any]) -> LoadedModule:
        return self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise GraphtuneTypeError(
            f"{self.name}: a loaded module can't be pickled, since its engines are files of its bundle: pass the "
            "bundle's path on and call graphtune.load(path) there; graphtune.save(module, path) writes another bundle"
        )

    def __repr__(self) -> str:
        return f"LoadedModule({self.name}, {len(self.graph_specs)} graphs)"


def _template_of(spec: Any, changes: tuple[Any, ...] | None = None) -> Any:
    """A result of a graph as its model gave it, with placeholders for tensors; None for a graph that stays eager. Of a
    graph that changes its arguments, their form, which ``changes`` describes."""
    if spec.eager_reason:
        return None
    try:
        return _build(_core.describe_result(spec) if changes is None else changes)
    except (TypeError, ImportError) as error:
        raise BundleError(
            f"{spec.name}: its results can't be made here: {error}; install what defines their types"
        ) from error


def _build(description: tuple[Any, ...]) -> Any:
    kind, *rest = description
    if kind == "tensor":
        return torch.empty(0, dtype=rest[0])
    if kind == "constant":
        return rest[0]
    if kind == "typed":
        return constant_value(*rest)
    if kind == "object":
        type_name, context, children = rest
        return build(type_name, [(step, _build(child)) for step, child in children], context)
    children = [(step[1], _build(child)) for step, child in rest[0]]
    if kind == "dict":
        return dict(children)
    values = [child for _, child in children]
    return values if kind == "list" else tuple(values)
