"""``Module``: wraps an ``nn.Module``, records its calls, and once tuned sends each to its engine."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch.compiler import is_compiling

from . import _core
from .batch_size import batch_size as batch_size_context
from .bundles import bundle_path, bundle_writer
from .cache import update_digest
from .call_mode import call_mode, inactive
from .config import config
from .contracts import check_inputs
from .errors import GraphtuneValueError, MissError
from .graph_calls import GraphCalls, Sample
from .graph_tuner import GraphTuner, TunedGraph
from .recording import RecordingModule
from .result import GraphResult, TuneResult
from .serving import TO_RECORD, is_transformed, take_calls_of, tuned_router
from .settling import settle_ambiguities
from .tune_options import TuneOptions
from .tuner import make_options, require_eval
from .user_messages import sentence, warn_user

__all__ = ["MISS_POLICIES", "Module", "weights_digest"]

MISS_POLICIES = ("eager", "error", "record")


class Module(RecordingModule):
    """An ``nn.Module`` that behaves as the one it wraps, and after tuning runs each call on the engine of its graph.

        module = graphtune.Module(model)
        graphtune.tune(module, dataset, batch_sizes=[1, 2, 4])
        module(x)  # served by an engine, or eagerly where none was validated for the call

    Before it is tuned, calls are recorded. After that, a call outside of what was tuned follows ``miss_policy``
    ("eager", "error" or "record"; default: ``config.miss_policy``). ``strict`` makes constants part of a graph's
    identity (default: ``config.strict_mode``).

    Calls may come from several threads, but not while it is tuned: the exporter works on the model itself. Tuning swaps
    the engines at once; calls under way finish on the old ones. Results of engines carry no gradients, neither to
    inputs (such calls run eagerly) nor to parameters.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        name: str | None = None,
        strict: bool | None = None,
        miss_policy: str | None = None,
    ) -> None:
        super().__init__(module, name=name, strict=strict)
        self._graphtune_router: Any = None
        # What may be done without `forward`: the router that calls may go to, or TO_RECORD.
        self._graphtune_quick: Any = TO_RECORD if self._graphtune_is_plain() else None
        self._graphtune_specs: list[Any] | None = None
        self._graphtune_tuned: list[TunedGraph] | None = None
        self._graphtune_digest = ""  # of the weights when it was tuned
        self._graphtune_bundle: Any = None  # that it was loaded from
        self._graphtune_policy: str | None = None
        if miss_policy is not None:
            self.miss_policy = miss_policy

    # --- calls --------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # The compiler reads this, and explicit calls of it come here; others are taken before (see _graphtune_made).
        return super().__call__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._graphtune_made()

    @classmethod
    def _graphtune_made(cls) -> None:
        if cls._graphtune_is_called_plainly():
            take_calls_of(cls)

    @classmethod
    def _graphtune_is_called_plainly(cls) -> bool:
        """No class of the user's, be it one after this, has a ``__call__``."""
        return cls.__call__ is Module.__call__ and super().__call__ is torch.nn.Module.__call__

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # the compiler can't look into a context variable
            return super()._graphtune_run_model(args, kwargs)
        mode = call_mode()
        if mode is not None:
            if not isinstance(mode, list):
                return super()._graphtune_run_model(args, kwargs)
            if not any(module is self for module in mode):
                mode.append(self)
            return super().forward(*args, **kwargs)
        router = self._graphtune_router
        if router is None:
            return super().forward(*args, **kwargs)
        if is_transformed():
            return super()._graphtune_run_model(args, kwargs)
        outcome = router.call(args, kwargs, self.wrapped.training, torch.is_grad_enabled())
        if type(outcome) is _core.Miss:
            return self._graphtune_follow_policy(outcome, args, kwargs)
        if outcome is _core.RUN_EAGERLY:
            return self.wrapped(*args, **kwargs)
        return outcome

    def _graphtune_follow_policy(self, miss: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        policy = self.miss_policy
        if policy == "error":
            raise MissError(
                f"{self.name}: {sentence(miss.message)} With miss_policy 'eager' the model itself serves such calls"
            )
        if policy == "record":
            return super().forward(*args, **kwargs)
        if miss.first:
            warn_user(
                f"a call of {self.name} runs eagerly ({miss.reason}): {sentence(miss.message)} This is said once; "
                "stats() counts such calls"
            )
        return self.wrapped(*args, **kwargs)

    @property
    def miss_policy(self) -> str:
        """What a call does that no engine serves: "eager", "error" (``MissError``) or "record"."""
        return self._graphtune_policy or config.miss_policy

    @miss_policy.setter
    def miss_policy(self, policy: str) -> None:
        if policy not in MISS_POLICIES:
            raise GraphtuneValueError(f"miss_policy: {policy!r} is none of {', '.join(MISS_POLICIES)}")
        self._graphtune_policy = policy

    # --- what is known --------------------------------------------------------------------------------------------

    @property
    def graph_specs(self) -> list[Any]:
        """The graphs in the order of their first calls; of a tuned module with what was validated."""
        return list(self._graphtune_specs) if self._graphtune_specs is not None else super().graph_specs

    @property
    def tuned(self) -> bool:
        return self._graphtune_router is not None

    def stats(self) -> dict[str, Any]:
        """``calls``, ``by_graph`` (graph -> engine -> calls) and ``misses`` (reason -> calls), exact under threads.

        Of a tuned module since it was tuned; before, the recorded calls, all of them eager.
        """
        router = self._graphtune_router
        if router is not None:
            return dict(router.stats())
        counts = {spec.name: {"eager": spec.sample_count} for spec in super().graph_specs}
        return {"calls": sum(each["eager"] for each in counts.values()), "by_graph": counts, "misses": {}}

    # --- tuning ---------------------------------------------------------------------------------------------------

    def tune(self, *, progress: bool = True, **options: Any) -> TuneResult:
        """Tunes what was recorded so far. ``options`` are those of ``TuneOptions``.

        Raises ``GraphtuneValueError`` when nothing was recorded or the module is in train mode.
        """
        started = time.monotonic()
        require_eval([self])
        tune_options = make_options(progress, started, options)
        check_inputs(super().graph_specs, tune_options.contract)
        graphs = self.tune_graphs(tune_options)
        return TuneResult(self, [self], {self.name: graphs}, time.monotonic() - started)

    def tune_graphs(self, options: TuneOptions) -> list[GraphResult]:
        """Tunes every recorded graph and puts the engines to use; results stand in the order of the graphs."""
        if not super().graph_specs and self._graphtune_unrecorded:
            raise GraphtuneValueError(f"{self.name}: no call could be recorded: {self._graphtune_unrecorded}")
        if not super().graph_specs:
            raise GraphtuneValueError(
                f"{self.name}: no call was recorded; call it with samples of what it is to serve, within "
                "graphtune.batch_size(n), or use graphtune.tune(module, dataset)"
            )
        digest = weights_digest(self.wrapped)
        with inactive():  # other wrapped modules, within this one or called by it
            tuned = [self._graphtune_tune_graph(index, options) for index in range(len(super().graph_specs))]
        if self._graphtune_unrecorded:
            tuned[-1].result.notes.append(f"other calls could not be recorded: {self._graphtune_unrecorded}")
        router = _core.make_router([self._graphtune_load(graph) for graph in tuned], self.strict)
        templates = [graph.template for graph in tuned]
        serving = tuned_router(router, self.signature, templates, self.wrapped)
        self.install(serving, [graph.spec for graph in tuned], tuned)
        self._graphtune_digest = digest
        return [graph.result for graph in tuned]

    def _graphtune_tune_graph(self, index: int, options: TuneOptions) -> TunedGraph:
        def spec_of() -> Any:
            return RecordingModule.graph_specs.fget(self)[index]  # type: ignore[attr-defined]

        def record(args: tuple[Any, ...], kwargs: dict[str, Any], batch_size: int) -> object:
            with batch_size_context(batch_size):
                return self._graphtune_record(args, kwargs)

        samples = self._graphtune_stored_samples(index)
        evidence = []
        if samples and not spec_of().eager_reason:
            evidence = settle_ambiguities(spec_of, samples[-1], self.signature, record)
            samples = self._graphtune_stored_samples(index)
        spec = spec_of()
        graph_options = options.named(f"{self.name} {spec.name}")
        recorder = self._graphtune_recorder
        calls = GraphCalls(self.wrapped, self.signature, spec, samples, recorder.traffic(index), recorder.change(index))
        tuned = GraphTuner(calls, graph_options).run()
        tuned.result.evidence += evidence
        return tuned

    def _graphtune_stored_samples(self, index: int) -> list[Sample]:
        return [Sample(each.args, each.kwargs, each.outputs, each.batch_size) for each in self.samples(index)]

    def _graphtune_load(self, graph: TunedGraph) -> Any:
        plan = [(entry.engine, dict(entry.limits)) for entry in graph.plan]
        engines = [(engine.name, engine.backend, engine.folder, engine.threads) for engine in graph.engines]
        return _core.make_graph(graph.spec, plan, engines, graph.output_alias, graph.stored_changes)

    def install(self, router: Any, specs: Sequence[Any], tuned: list[TunedGraph] | None, bundle: Any = None) -> None:
        """Puts a router to use, at once for all threads. For ``tune`` and ``load``, which gives the bundle."""
        self._graphtune_specs = list(specs)
        self._graphtune_tuned = tuned
        self._graphtune_bundle = bundle
        self._graphtune_router = router
        self._graphtune_quick = router if self._graphtune_is_plain() else None

    def _graphtune_is_plain(self) -> bool:
        """A class of the user's may have a ``forward`` of its own."""
        own = cast(type[Module], self._graphtune_class or type(self))
        return own.forward is Module.forward and own._graphtune_is_called_plainly()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """See ``graphtune.save``."""
        target = bundle_path(path)
        stored = self.stored()
        if isinstance(stored, _core.Bundle):
            _core.copy_bundle(stored, target)
        else:
            stored.write(target)
        return target

    def stored(self) -> Any:
        """What ``save`` writes: the bundle that it was loaded from, or else a writer of one.

        Raises ``GraphtuneValueError`` when the module was not tuned.
        """
        if self._graphtune_bundle is not None:
            return self._graphtune_bundle
        if self._graphtune_tuned is None:
            raise GraphtuneValueError(
                f"{self.name}: it was not tuned, so there is nothing to save; call graphtune.tune(module, data) first"
            )
        # Of the weights that the engines have, whatever became of the model's since.
        digest = self._graphtune_digest
        return bundle_writer(self.name, self.strict, self.signature, self._graphtune_tuned, digest)

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.tuned:
            warn_user(
                f"a copy of {self.name} has no engines: it runs its calls eagerly and records them. To have the tuned "
                "module elsewhere, write it with graphtune.save(module, path) and read it with graphtune.load(path, "
                "model)"
            )
        return super().__reduce_ex__(protocol)


take_calls_of(Module)


def weights_digest(model: torch.nn.Module) -> str:
    """SHA-256 over names, types, sizes and bytes of a model's parameters and buffers."""
    inner = model.wrapped if isinstance(model, RecordingModule) else model
    digest = hashlib.sha256()
    named = {**dict(inner.named_parameters()), **dict(inner.named_buffers())}
    for name in sorted(named):
        digest.update(name.encode())
        update_digest(digest, named[name])
    return digest.hexdigest()
