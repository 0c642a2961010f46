"""Tunes one execution graph: export, build, validate, measure, plan."""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _core
from .argument_changes import ArgumentChanges, ChangeError
from .candidate_builds import EngineFolder, build_candidates
from .config import config
from .confirmation import confirm_plan
from .contracts import widen
from .errors import TuneError
from .exported_graph import ExportedGraph
from .exporting import ExportError, export_flat
from .flat_module import FlatModule
from .graph_calls import Extent, GraphCalls, run_without_gradients
from .index_ranges import find_index_ranges
from .key_order import find_key_order
from .measurements import EAGER, Measurements
from .planning import PlanEntry, plan_engines
from .probing import Point, grid
from .refused_sizes import learn_limits
from .result import GraphResult, plan_entries
from .size_expressions import symbols_of
from .traffic import point_weights, typical_values
from .trials import Trials
from .tune_options import TuneOptions
from .unused_constants import find_unused_constants
from .validation import Case, CaseMaker

__all__ = ["GraphTuner", "TunedGraph"]

Ranges = dict[str, tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class TunedGraph:
    """What the router needs of a graph, and what the user is told."""

    spec: Any
    plan: list[PlanEntry]
    engines: list[EngineFolder]
    output_alias: list[int]
    template: Any
    result: GraphResult
    changes: ArgumentChanges | None = None

    @property
    def stored_changes(self) -> Any:
        """The changes as the router and bundles have them."""
        return None if self.changes is None else self.changes.stored


class _StaysEagerError(Exception):
    """Why a graph can't be tuned; its text goes into the result."""


class GraphTuner:
    """Tunes one graph of a model from its recorded samples.

    Nothing here raises for what a model, an exporter or an engine does: such a graph stays eager and its result says
    why. But a strategy may want a ``TuneError``.
    """

    def __init__(self, calls: GraphCalls, options: TuneOptions) -> None:
        self._calls = calls
        self._model = calls.model
        self._signature = calls.signature
        self._spec = spec = calls.spec
        self._options = options
        self._result = GraphResult(name=spec.name, description=spec.describe(_core.InfoLevel.FULL))
        self._sizes, self._ranges = _core.contract_parts(spec)[:2] if not spec.eager_reason else ([], {})
        self._conditions: list[str] = []
        widened = widen(spec, options.contract) if not spec.eager_reason else {}
        self._ranges |= {symbol: (axis.min, axis.max) for symbol, axis in widened.items()}
        # The usual sizes of symbols, where the user named them.
        self._usual = {symbol: axis.opt for symbol, axis in widened.items() if axis.opt is not None}

    def run(self) -> TunedGraph:
        try:
            if self._spec.eager_reason:
                raise _StaysEagerError(self._spec.eager_reason)
            if self._spec.sample_count < config.min_num_samples:
                raise _StaysEagerError(
                    f"{self._spec.sample_count} calls were recorded, fewer than config.min_num_samples = "
                    f"{config.min_num_samples}"
                )
            if not self._calls.samples:
                raise _StaysEagerError("no sample of it was stored; raise config.max_num_samples_stored above 0")
            self._check_model()
            with tempfile.TemporaryDirectory(prefix="graphtune-tune-") as folder:
                return self._tune(Path(folder))
        except _StaysEagerError as reason:
            if self._options.strategy.raises:
                raise TuneError(f"{self._spec.name}: {reason}") from reason
            return self._stay_eager(str(reason))

    @property
    def _extent(self) -> Extent:
        return Extent(self._sizes, self._ranges, self._conditions)

    # --- the steps ------------------------------------------------------------------------------------------------

    def _check_model(self) -> None:
        state = itertools.chain(self._model.parameters(), self._model.buffers())
        kinds = sorted({tensor.device.type for tensor in state})
        if len(kinds) > 1 or set(kinds) - {"cpu", "cuda"}:
            raise _StaysEagerError(f"its weights are on {' and '.join(kinds)}: engines are built for CPU or CUDA alone")

    def _tune(self, folder: Path) -> TunedGraph:
        self._note_static_shapes()
        changes = self._find_changes()
        flat, exported = self._export(folder / "program.pt2")
        index_ranges = find_index_ranges(exported.program)
        if index_ranges.problems:
            raise _StaysEagerError(f"its index values can't be bounded: {index_ranges.problems[0]}")
        self._check_key_order()
        self._fix_constants()
        recorded = self._calls.recorded_points(self._extent)
        if not recorded:
            raise _StaysEagerError("no recorded call has the sizes that it can be exported for")
        maker = CaseMaker(run_without_gradients(flat), recorded, self._sizes, folder)
        self._learn_limits(maker, [point for point, _ in recorded])
        exported = dataclasses.replace(exported, ranges=self._ranges, conditions=self._conditions)
        recorded = self._calls.recorded_points(self._extent)
        self._result.symbols = dict(self._ranges)
        cases = maker.all_cases(self._ranges, conditions=self._conditions)
        calls = self._calls.recorded_calls(self._extent)
        points = grid(
            self._ranges,
            [point for point, _ in recorded],
            self._options.batch_sizes,
            typical_values(calls, [name for name in self._ranges if name != "b"]) | self._usual,
            conditions=self._conditions,
        )
        measured = {point: case for point in points if (case := maker.case(point)) is not None}
        if changes is not None and changes.problem:
            raise _StaysEagerError(changes.problem)
        weights = point_weights(list(measured), calls)
        self._result.points = [point.values for point in measured]
        self._result.weights = [weights[point] for point in measured]
        plan, engines = self._try_candidates(exported, cases, measured, weights)
        return self._finish(plan, engines, exported, index_ranges.ranges, changes)

    def _try_candidates(
        self,
        exported: ExportedGraph,
        cases: Sequence[Case],
        measured: Mapping[Point, Case],
        weights: Mapping[Point, float],
    ) -> tuple[list[PlanEntry], dict[str, EngineFolder]]:
        """Builds, validates and measures the candidates, stage by stage, until one gives a plan with an engine."""
        strategy = self._options.strategy
        plan, found = [PlanEntry(EAGER)], dict[str, EngineFolder]()
        for names in strategy.stages([each.name for each in self._options.configs]):
            trials = Trials(
                self._options,
                self._calls.output_names(),
                self._calls.devices,
                self._calls.eager_call,
                self._calls.flat_verify(self._options.verify),
            )
            try:
                candidates, engines = build_candidates(exported, self._options.only(names), self._usual)
                self._result.candidates += candidates
                found |= engines
                trials.validate(candidates, engines, cases)
                plan = self._choose(
                    trials.measure(candidates, engines, self._ranges, measured, weights), trials, found, measured
                )
            finally:
                trials.close()
            if plan_engines(plan):
                break
        return plan, found

    def _learn_limits(self, maker: CaseMaker, recorded: Sequence[Point]) -> None:
        """Leaves out the sizes that the model itself refuses: there it has to raise, which no engine does."""
        limits = learn_limits(maker.refusal, self._ranges, self._conditions, recorded)
        if limits.problem:
            raise _StaysEagerError(limits.problem)
        self._ranges, self._conditions = limits.ranges, limits.conditions
        self._result.notes += limits.notes

    def _find_changes(self) -> ArgumentChanges | None:
        try:
            return self._calls.changes
        except ChangeError as error:
            raise _StaysEagerError(str(error)) from error

    def _check_key_order(self) -> None:
        sample = self._calls.samples[-1]
        found = find_key_order(self._model, sample.args, sample.kwargs, self._signature)
        if found is not None:
            raise _StaysEagerError(
                f"its result depends on the order of the keys of {found[0]} ({found[1]} when they come in another "
                "order), which is no part of a graph; read the keys by name"
            )

    def _fix_constants(self) -> None:
        """With strict mode off, calls of this graph may have other constants than the engines have built in."""
        if self._spec.input_spec.strict:
            return
        sample = self._calls.exported_sample
        unused = find_unused_constants(self._model, self._signature, sample, self._calls.samples)
        self._spec = _core.with_fixed_constants(self._spec, sample.args, sample.kwargs, self._signature, unused)
        fixed = len(_core.call_constants(sample.args, sample.kwargs, self._signature)) - len(unused)
        if fixed:
            self._result.notes.append(
                f"strict mode is off and {fixed} constants may change results: engines serve calls with the values "
                "of one recorded call"
            )

    def _note_static_shapes(self) -> None:
        if not self._ranges:
            self._result.notes.append(
                "every recorded call has the same sizes: engines serve these sizes only; record other sizes (say with "
                "batch_sizes=[1, 2, 4]) to have more served"
            )
        elif "b" not in self._ranges:
            self._result.notes.append(
                "no axis follows the batch size in the recorded calls; tune with several batch_sizes to learn which do"
            )

    def _export(self, path: Path) -> tuple[FlatModule, ExportedGraph]:
        """Exports for the learned ranges, then for what the exporter can really do of them."""
        flat = self._calls.flat_module()
        tensors = self._calls.tensors(self._calls.exported_sample)
        for _ in range(3):
            self._options.report("exporting")
            try:
                exported = export_flat(flat, tensors, self._sizes, self._ranges, path)
            except ExportError as error:
                raise _StaysEagerError(str(error)) from error
            if exported.reason:
                raise _StaysEagerError(exported.reason)
            if not self._adapt(exported):
                break
        else:
            raise _StaysEagerError("the exporter fixes other sizes each time")
        self._conditions = exported.conditions
        self._result.notes += [
            f"limited to sizes where {condition}: the exported program holds only there"
            for condition in exported.conditions
        ]
        self._sizes = exported.shapes
        # A symbol of one value has become that number.
        shown = {name for shape in self._sizes for size in shape for name in symbols_of(size)}
        self._ranges = {name: span for name, span in self._ranges.items() if name in shown}
        return flat, exported

    def _adapt(self, exported: ExportedGraph) -> bool:
        """Takes over what the exporter fixed, joined or narrowed. True when it has to be exported again."""
        again = False
        for fixed in exported.fixed_axes:
            if fixed.symbol in self._ranges and self._ranges[fixed.symbol][0] != self._ranges[fixed.symbol][1]:
                value = self._calls.usual_value(fixed.symbol, self._ranges[fixed.symbol][0])
                self._ranges[fixed.symbol] = (value, value)
                self._result.notes.append(
                    f"limited to {fixed.symbol} = {value}: the exported program holds input {fixed.input} at one size "
                    f"of axis {fixed.axis}"
                )
                again = True
        for pair in exported.unified:
            kept, dropped = pair[0], pair[1]
            if dropped in self._ranges and kept in self._ranges:
                low = max(self._ranges[kept][0], self._ranges[dropped][0])
                high = min(self._ranges[kept][1], self._ranges.pop(dropped)[1])
                if low > high:
                    raise _StaysEagerError(f"the model needs {kept} = {dropped}, which no recorded sizes allow")
                self._ranges[kept] = (low, high)
                self._sizes = [[kept if size == dropped else size for size in shape] for shape in self._sizes]
                self._result.notes.append(f"the model needs {kept} and {dropped} to be equal")
                again = True
        if not again:
            for symbol, (low, high) in exported.narrowed.items():
                recorded = self._ranges[symbol]
                self._result.notes.append(
                    f"limited to {symbol} in {low}..{high} of {recorded[0]}..{recorded[1]} recorded: the model takes "
                    "another path at other sizes"
                )
            self._ranges = dict(exported.ranges)
        return again

    def _choose(
        self,
        measured: Measurements | None,
        trials: Trials,
        engines: Mapping[str, EngineFolder],
        cases: Mapping[Point, Case],
    ) -> list[PlanEntry]:
        forced = self._options.force
        if forced is not None:
            if any(each.name == forced and each.status == "valid" for each in self._result.candidates):
                return [PlanEntry(forced)]
            self._result.notes.append(f"the forced backend {forced} gave no valid engine")
            return [PlanEntry(EAGER)]
        if measured is None:
            return [PlanEntry(EAGER)]
        strategy, gate = self._options.strategy, self._options.gate
        choice = strategy.choose(measured, gate)
        ties = choice.ties
        if len(plan_engines(choice.plan)) > 1:
            self._options.report(f"confirming a plan of {' and '.join(plan_engines(choice.plan))}")
            choice = confirm_plan(choice, strategy, gate, measured, trials, engines, cases)
        self._result.notes += [*ties, *choice.notes]
        return choice.plan

    def _finish(
        self,
        plan: list[PlanEntry],
        engines: Mapping[str, EngineFolder],
        exported: ExportedGraph,
        index_ranges: Mapping[int, tuple[int, int]],
        changes: ArgumentChanges | None,
    ) -> TunedGraph:
        used = {entry.engine for entry in plan}
        for candidate in self._result.candidates:
            if candidate.name in used:
                candidate.status = "chosen"
        self._result.plan = plan_entries([(entry.engine, dict(entry.limits)) for entry in plan])
        if used == {EAGER}:
            reasons = [f"{c.name}: {c.reason}" for c in self._result.candidates if c.reason]
            if reasons and self._options.strategy.raises:
                raise TuneError(f"{self._spec.name}: {'; '.join(reasons)}")
            text = "no engine is faster than eager" if not reasons else "no engine could be used: " + "; ".join(reasons)
            return self._stay_eager(text)
        contract = _core.make_contract(
            self._sizes, self._ranges, {str(index): span for index, span in index_ranges.items()}, self._conditions
        )
        spec = _core.with_contract(self._spec, contract)
        alias = [-1] * len(exported.output_dtypes)
        for item in exported.aliases:
            alias[item.output] = item.input
        kept = [self._with_info(engines[name]) for name in engines if name in used]
        if changes is None or not changes.is_needed:
            return TunedGraph(spec, plan, kept, alias, self._calls.template(), self._result)
        return TunedGraph(spec, plan, kept, alias, changes.form, self._result, changes)

    def _with_info(self, engine: EngineFolder) -> EngineFolder:
        candidate = next(c for c in self._result.candidates if c.name == engine.name)
        info = {
            "build_seconds": candidate.build_seconds,
            "max_deviation": candidate.max_deviation,
            "peak_memory_bytes": candidate.peak_memory_bytes,
            "speed_ups": [dataclasses.asdict(speed) for speed in candidate.speed_ups],
            "versions": engine.info.get("versions", {}),
            "options": candidate.options,
        }
        return dataclasses.replace(engine, info=info)

    def _stay_eager(self, reason: str) -> TunedGraph:
        self._spec.set_eager_reason(reason)
        self._result.eager_reason = reason
        self._result.plan = [EAGER]
        return TunedGraph(self._spec, [PlanEntry(EAGER)], [], [], None, self._result)
