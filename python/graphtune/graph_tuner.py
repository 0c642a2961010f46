"""Tunes one execution graph: export, build, validate, measure, plan."""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from . import _core
from .candidate_builds import EngineFolder, build_candidates
from .config import config
from .contracts import widen
from .exporting import ExportedGraph, ExportError, FlatModule, export_flat
from .index_ranges import find_index_ranges
from .key_order import find_key_order
from .planning import PlanEntry, choose_plan
from .probing import Point, grid
from .processes import Worker, WorkerFailure
from .result import GraphResult, SpeedUp, plan_entries
from .size_expressions import evaluate, symbols_of
from .tune_options import TuneOptions
from .turns import LocalParticipant, Participant, WorkerParticipant, take_turns
from .validation import Case, CaseMaker, validate

__all__ = ["GraphTuner", "Sample", "TunedGraph"]

Ranges = dict[str, tuple[int, int]]
EAGER = "eager"


@dataclasses.dataclass(frozen=True)
class Sample:
    """A recorded call and its result."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any
    batch_size: int | None


@dataclasses.dataclass(frozen=True)
class TunedGraph:
    """What the router needs of a graph, and what the user is told."""

    spec: Any
    plan: list[PlanEntry]
    engines: list[EngineFolder]
    output_alias: list[int]
    template: Any
    result: GraphResult


class _StaysEagerError(Exception):
    """Why a graph can't be tuned; its text goes into the result."""


class GraphTuner:
    """Tunes one graph of a model from its recorded samples.

    ``signature`` is the one by which the calls were normalised. Nothing here raises for what a model, an exporter or an
    engine does: such a graph stays eager and its result says why.
    """

    def __init__(
        self, model: torch.nn.Module, signature: Any, spec: Any, samples: Sequence[Sample], options: TuneOptions
    ) -> None:
        self._model = model
        self._signature = signature
        self._spec = spec
        self._samples = samples
        self._options = options
        self._result = GraphResult(name=spec.name, description=spec.describe(_core.InfoLevel.FULL))
        self._sizes, self._ranges, _ = _core.contract_parts(spec) if not spec.eager_reason else ([], {}, {})
        self._widened = widen(spec, options.contract) if not spec.eager_reason else {}
        self._ranges |= {symbol: (axis.min, axis.max) for symbol, axis in self._widened.items()}

    def run(self) -> TunedGraph:
        try:
            if self._spec.eager_reason:
                raise _StaysEagerError(self._spec.eager_reason)
            if self._spec.sample_count < config.min_num_samples:
                raise _StaysEagerError(
                    f"{self._spec.sample_count} calls were recorded, fewer than config.min_num_samples = "
                    f"{config.min_num_samples}"
                )
            if not self._samples:
                raise _StaysEagerError("no sample of it was stored; raise config.max_num_samples_stored above 0")
            self._check_model()
            with tempfile.TemporaryDirectory(prefix="graphtune-tune-") as folder:
                return self._tune(Path(folder))
        except _StaysEagerError as reason:
            return self._stay_eager(str(reason))

    # --- the steps ------------------------------------------------------------------------------------------------

    def _check_model(self) -> None:
        devices = {tensor.device.type for tensor in self._model.parameters()}
        if devices - {"cpu"}:
            raise _StaysEagerError(
                f"its weights are on {', '.join(sorted(devices))}: engines are built for the CPU only"
            )

    def _tune(self, folder: Path) -> TunedGraph:
        self._note_static_shapes()
        flat, exported = self._export(folder / "program.pt2")
        index_ranges = find_index_ranges(exported.program)
        if index_ranges.problems:
            raise _StaysEagerError(f"its index values can't be bounded: {index_ranges.problems[0]}")
        self._check_key_order()
        self._result.symbols = dict(self._ranges)
        recorded = self._recorded_points()
        if not recorded:
            raise _StaysEagerError("no recorded call has the sizes that it can be exported for")
        maker = CaseMaker(self._run_flat(flat), recorded, self._sizes, folder)
        cases = maker.all_cases(self._ranges)
        self._result.notes += maker.notes
        if not cases:
            raise _StaysEagerError("the model refuses every sample that was made of the recorded ones")
        points = grid(
            self._ranges,
            [point for point, _ in recorded],
            self._options.batch_sizes,
            {symbol: axis.opt for symbol, axis in self._widened.items() if axis.opt is not None},
        )
        measured = {point: case for point in points if (case := maker.case(point)) is not None}
        self._result.points = [point.values for point in measured]

        candidates, engines = build_candidates(exported, self._options)
        self._result.candidates += candidates
        workers = self._validated_workers(engines, cases)
        try:
            ratios = self._measure(workers, measured)
        finally:
            for worker in workers.values():
                worker.close()
        plan = self._choose(measured, ratios)
        return self._finish(plan, engines, exported, index_ranges.ranges)

    def _check_key_order(self) -> None:
        sample = self._samples[-1]
        found = find_key_order(self._model, sample.args, sample.kwargs, self._signature)
        if found is not None:
            raise _StaysEagerError(
                f"its result depends on the order of the keys of {found[0]} ({found[1]} when they come in another "
                "order), which is no part of a graph; read the keys by name"
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
        sample = max(self._samples, key=lambda sample: self._element_count(sample))
        flat = self._flat_module(sample)
        tensors = self._tensors(sample)
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
        if exported.conditions:
            raise _StaysEagerError(
                f"it holds only where {' and '.join(exported.conditions)}, which is no range of single sizes"
            )
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
                value = self._usual_value(fixed.symbol)
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

    def _validated_workers(self, engines: Mapping[str, EngineFolder], cases: Sequence[Case]) -> dict[str, Worker]:
        names = _core.output_names(self._spec)
        workers: dict[str, Worker] = {}
        for candidate in self._result.candidates:
            engine = engines.get(candidate.name)
            if engine is None:
                continue
            self._options.report(f"validating {candidate.name} on {len(cases)} cases")
            worker = None
            try:
                setup = {
                    "backend": engine.backend,
                    "folder": str(engine.folder),
                    "threads": self._options.threads,
                    "tolerances": {name: list(pair) for name, pair in self._options.tolerances.items()},
                    "output_names": names,
                }
                worker = Worker("graphtune.engine_worker:serve", setup, name=candidate.name)
                verdict = validate(worker, cases)
            except WorkerFailure as failure:
                candidate.reason = str(failure)
                if worker is not None:
                    worker.close()
                continue
            candidate.cases = verdict.cases
            candidate.max_deviation = verdict.deviation
            if verdict.problem:
                candidate.status, candidate.reason = "rejected", verdict.problem
                worker.close()
                continue
            candidate.status = "valid"
            worker.pause()
            workers[candidate.name] = worker
        return workers

    def _measure(self, workers: Mapping[str, Worker], cases: Mapping[Point, Case]) -> dict[str, dict[Point, float]]:
        if not workers or not cases:
            return {}
        self._options.report(f"measuring at {len(cases)} sizes")
        calls = {}
        for point, case in cases.items():
            for worker in workers.values():
                worker.call("prepare", size_key=str(point), case=str(case.path))
            calls[str(point)] = self._eager_call(case)
        participants: dict[str, Participant] = {EAGER: LocalParticipant(lambda key: calls[key]())}
        participants.update({name: WorkerParticipant(worker) for name, worker in workers.items()})
        with torch.inference_mode():
            turns = take_turns(
                participants,
                list(calls),
                EAGER,
                budget_s=self._options.measure_seconds,
                block_s=0.05,
                min_rounds=5,
                confidence=0.9,
            )
        ratios: dict[str, dict[Point, float]] = {}
        for candidate in self._result.candidates:
            if candidate.name not in workers:
                continue
            if candidate.name in turns.failures:
                candidate.status, candidate.reason = "failed", turns.failures[candidate.name]
                continue
            for point in cases:
                ratio = turns.ratio(candidate.name, str(point))
                candidate.speed_ups.append(
                    SpeedUp(
                        point.values,
                        ratio.value,
                        ratio.low,
                        ratio.high,
                        ratio.rounds,
                        turns.median(EAGER, str(point)),
                        turns.median(candidate.name, str(point)),
                    )
                )
                ratios.setdefault(candidate.name, {})[point] = ratio.value
        return ratios

    def _choose(self, cases: Mapping[Point, Case], ratios: Mapping[str, Mapping[Point, float]]) -> list[PlanEntry]:
        forced = self._options.force
        if forced is not None:
            candidate = next((c for c in self._result.candidates if c.name == forced), None)
            if candidate is not None and candidate.status == "valid":
                return [PlanEntry(forced)]
            self._result.notes.append(f"the forced backend {forced} gave no valid engine")
            return [PlanEntry(EAGER)]
        return choose_plan(self._ranges, list(cases), ratios, self._options.gate)

    def _finish(
        self,
        plan: list[PlanEntry],
        engines: Mapping[str, EngineFolder],
        exported: ExportedGraph,
        index_ranges: Mapping[int, tuple[int, int]],
    ) -> TunedGraph:
        used = {entry.engine for entry in plan}
        for candidate in self._result.candidates:
            if candidate.name in used:
                candidate.status = "chosen"
        self._result.plan = plan_entries([(entry.engine, dict(entry.limits)) for entry in plan])
        if used == {EAGER}:
            reasons = [f"{c.name}: {c.reason}" for c in self._result.candidates if c.reason]
            text = "no engine is faster than eager" if not reasons else "no engine could be used: " + "; ".join(reasons)
            return self._stay_eager(text)
        contract = _core.make_contract(
            self._sizes, self._ranges, {str(index): span for index, span in index_ranges.items()}
        )
        spec = _core.with_contract(self._spec, contract)
        alias = [-1] * len(exported.output_dtypes)
        for item in exported.aliases:
            alias[item.output] = item.input
        kept = [self._with_info(engines[name]) for name in engines if name in used]
        return TunedGraph(spec, plan, kept, alias, self._template(), self._result)

    def _with_info(self, engine: EngineFolder) -> EngineFolder:
        candidate = next(c for c in self._result.candidates if c.name == engine.name)
        info = {
            "build_seconds": candidate.build_seconds,
            "max_deviation": candidate.max_deviation,
            "speed_ups": [dataclasses.asdict(speed) for speed in candidate.speed_ups],
            "versions": engine.info.get("versions", {}),
        }
        return dataclasses.replace(engine, info=info)

    def _stay_eager(self, reason: str) -> TunedGraph:
        self._spec.set_eager_reason(reason)
        self._result.eager_reason = reason
        self._result.plan = [EAGER]
        return TunedGraph(self._spec, [PlanEntry(EAGER)], [], [], None, self._result)

    # --- calls of the graph as flat tensors -------------------------------------------------------------------------

    def _tensors(self, sample: Sample) -> list[torch.Tensor]:
        return list(_core.call_tensors(sample.args, sample.kwargs, self._signature))

    def _element_count(self, sample: Sample) -> int:
        return sum(tensor.numel() for tensor in self._tensors(sample))

    def _flat_module(self, sample: Sample) -> FlatModule:
        def rebuild(tensors: list[torch.Tensor]) -> tuple[Any, Any]:
            return _core.call_with_tensors(sample.args, sample.kwargs, tensors, self._signature)

        return FlatModule(self._model, rebuild, lambda result: list(_core.result_tensors(result)))

    @staticmethod
    def _run_flat(flat: FlatModule) -> Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]:
        def run(tensors: list[torch.Tensor]) -> Sequence[torch.Tensor]:
            with torch.no_grad():
                return flat(*tensors)

        return run

    def _eager_call(self, case: Case) -> Callable[[], object]:
        from .engine_worker import read_case

        sample = self._samples[0]
        args, kwargs = _core.call_with_tensors(sample.args, sample.kwargs, read_case(case.path)[0], self._signature)
        return lambda: self._model(*args, **kwargs)

    def _recorded_points(self) -> list[tuple[Point, list[torch.Tensor]]]:
        """The recorded samples that lie in the (perhaps narrowed) ranges, with their symbols' values."""
        found = []
        for sample in self._samples:
            values = _core.symbols_of_call(self._spec, sample.args, sample.kwargs, self._signature)
            if values is None:
                continue
            kept = {name: value for name, value in values.items() if name in self._ranges}
            tensors = self._tensors(sample)
            if self._covers(kept, tensors):
                found.append((Point.of(kept), tensors))
        return found

    def _covers(self, values: Mapping[str, int], tensors: Sequence[torch.Tensor]) -> bool:
        """Tensors of these sizes are tuned for: the exporter may have limited, fixed or joined some."""
        return all(low <= values[name] <= high for name, (low, high) in self._ranges.items() if name in values) and all(
            have == evaluate(size, values)
            for tensor, shape in zip(tensors, self._sizes, strict=True)
            for have, size in zip(tensor.shape, shape, strict=True)
        )

    def _usual_value(self, symbol: str) -> int:
        counts: Counter[int] = Counter()
        for sample in self._samples:
            values = _core.symbols_of_call(self._spec, sample.args, sample.kwargs, self._signature)
            if values is not None and symbol in values:
                counts[values[symbol]] += 1
        return counts.most_common(1)[0][0] if counts else self._ranges[symbol][0]

    def _template(self) -> Any:
        outputs = self._samples[0].outputs
        placeholders = [torch.empty(0, dtype=tensor.dtype) for tensor in _core.result_tensors(outputs)]
        return _core.result_with_tensors(outputs, placeholders)
