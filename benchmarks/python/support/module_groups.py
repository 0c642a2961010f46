"""Groups of contestants that call modules: tuned, recorded, routed, and with many graphs in turn."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from graphtune.serving import tuned_router

import graphtune
from graphtune import _core

from .measuring import Block, Contestant, Group, calls

TEST_ENGINES = Path(__file__).resolve().parents[3] / "build" / "release" / "test_engines"
NO_SHARED_ENGINE = "left out: the tests' own engine library is not built"


class Tiny(torch.nn.Module):
    """So small that what stands around it is what is measured."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(8))

    def forward(self, x: torch.Tensor, y: torch.Tensor, mode: str = "") -> torch.Tensor:
        return torch.relu(x * self.scale + y)


def tiny_call(batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(batch, 8), torch.ones(batch, 8)


class TunedTiny:
    """The tiny model served by one engine, however fast that is, and the engine by itself."""

    def __init__(self, backend: str) -> None:
        self.model = Tiny().eval()
        self.module = graphtune.Module(self.model, name="tiny")
        for batch in (1, 2, 4):
            with torch.no_grad(), graphtune.batch_size(batch):
                self.module(*tiny_call(batch))
        result = self.module.tune(force=backend, backends=(backend,), measure_seconds=1.0, threads=1, progress=False)
        self.engine_folder = self._folder()
        self.problem = "" if self.engine_folder else f"{backend} serves nothing here:\n{result}"

    def _folder(self) -> Path | None:
        tuned = self.module._graphtune_tuned or []
        return next((engine.folder for graph in tuned for engine in graph.engines), None)


def module_calls(backend: str) -> Iterator[Group]:
    tiny = TunedTiny(backend)
    name = f"module call, tiny model on {backend}"
    if tiny.engine_folder is None:
        yield Group(name, [], [tiny.problem])
        return
    x, y = tiny_call()
    module, model = tiny.module, tiny.model
    engine = _core.Engine(backend, tiny.engine_folder, 1)
    with torch.no_grad():
        torch.testing.assert_close(module(x, y), model(x, y))
    contestants = [
        Contestant("graphtune module(x, y)", calls(partial(module, x, y))),
        Contestant("the engine alone", lambda count: sum(engine.time([x, y], count))),
        Contestant("eager", calls(partial(model, x, y))),
    ]
    batch = torch.export.Dim("batch", min=1, max=64)
    shapes = {"x": {0: batch}, "y": {0: batch}}
    exported = torch.export.export(model, (x, y), dynamic_shapes=shapes).module()
    traced = torch.jit.trace(model, (x, y))
    contestants += [
        Contestant("torch.export(…).module()", calls(partial(exported, x, y))),
        Contestant("torch.jit.trace", calls(partial(traced, x, y))),
    ]
    notes = []
    try:
        compiled = torch.compile(model, dynamic=True)
        compiled(x, y)
        contestants.append(Contestant("torch.compile", calls(partial(compiled, x, y))))
    except Exception as error:  # a missing compiler is a fact about this machine, and the others can be measured
        notes.append(f"torch.compile is left out: {error}")
    with torch.no_grad():
        yield Group(name, contestants, notes)
        for count in (4, 16, 64):
            yield from rotating_graphs(tiny, backend, count)


class FiveTensors(torch.nn.Module):
    def forward(
        self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor, e: torch.Tensor
    ) -> torch.Tensor:
        return a + b + c + d + e


def routing_from_python() -> Iterator[Group]:
    """From Python's objects to the engine: walk, form, ranges, relations, plan, and a look at the weights."""
    with shared_engine() as engine, torch.no_grad():
        if not engine:
            yield Group("routing from Python", [], [NO_SHARED_ENGINE])
            return
        module = graphtune.Module(FiveTensors().eval())
        for batch in (1, 2, 4):
            for length in (3, 5, 8):
                with graphtune.batch_size(batch):
                    module(*(torch.ones(batch, length, 4) for _ in range(5)))
        put_before(module, engine)
        call = tuple(torch.ones(3, 7, 4) for _ in range(5))
        module(*call)  # its form is known from here on
        router = module._graphtune_router
        yield Group(
            "routing from Python",
            [Contestant("graphtune, from Python objects", lambda count: router.time_routing(call, {}, count))],
        )


def recording() -> Iterator[Group]:
    """A call of a graph whose sizes and samples are known."""
    x, y = tiny_call()
    model = Tiny().eval()
    module = graphtune.Module(model, name="recorded")
    with torch.no_grad(), graphtune.batch_size(2):
        module(x, y)
        contestants = [
            Contestant("graphtune module(x, y), recorded", calls(partial(module, x, y))),
            Contestant("the model alone", calls(partial(model, x, y))),
        ]
        yield Group("recording a known call", contestants)


def in_turn(target: Callable[..., object], modes: list[str]) -> Block:
    x, y = tiny_call()

    def block(rounds: int) -> float:
        start = time.perf_counter()
        for number in range(rounds):
            target(x, y, mode=modes[number % len(modes)])
        return time.perf_counter() - start

    return block


def put_before(module: graphtune.Module, engine: tuple[str, Path]) -> None:
    """Has all calls of the recorded graphs served by engines of one folder, whatever they compute."""
    backend, folder = engine
    specs = module.graph_specs
    plan: list[tuple[str, dict[str, tuple[int, int]]]] = [(backend, {})]
    engines = [(backend, backend, folder, 1)]
    router = _core.make_router([_core.make_graph(spec, plan, engines, [-1]) for spec in specs], module.strict)
    templates = [torch.empty(0) for _ in specs]
    module.install(tuned_router(router, module.signature, templates, module.wrapped), specs, None)


@contextlib.contextmanager
def shared_engine() -> Iterator[tuple[str, Path] | None]:
    """Multiplies two numbers; its code is that of all graphs. None where the tests' engine library is not built."""
    if not any(TEST_ENGINES.glob("libgraphtune_engine_fake.*")):
        yield None
        return
    os.environ["GRAPHTUNE_ENGINE_PATH"] = str(TEST_ENGINES)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "engine.json").write_text(json.dumps({"factor": 2, "outputs": [0]}))
        yield "fake", Path(folder)


def module_of_modes(backend: str, engine_folder: Path, modes: list[str]) -> Any:
    """The tiny model with a graph for each mode, all served by copies of one engine."""
    model = Tiny().eval()
    module = graphtune.Module(model, name="tiny_modes")
    for batch in (1, 2, 4):
        for mode in modes:
            with graphtune.batch_size(batch):
                module(*tiny_call(batch), mode=mode)
    put_before(module, (backend, engine_folder))
    return module


def rotating_graphs(tiny: TunedTiny, backend: str, count: int) -> Iterator[Group]:
    """As many graphs as there are modes, which take turns."""
    x, y = tiny_call()
    modes = [f"mode{number}" for number in range(count)]
    assert tiny.engine_folder is not None
    module = module_of_modes(backend, tiny.engine_folder, modes)
    # Each graph has an engine of its own, with code of its own that goes through the caches: that is not ours.
    alone = [_core.Engine(backend, tiny.engine_folder, 1) for _ in modes]

    def engines(rounds: int) -> float:
        return sum(alone[number % count].time([x, y], 1)[0] for number in range(rounds))

    contestants = [
        Contestant("graphtune module(x, y, mode=…)", in_turn(module, modes)),
        Contestant("the engines alone, in turn", engines),
        Contestant("graphtune, the same graph each time", calls(partial(module, x, y, mode=modes[0]))),
        Contestant("the same engine each time", lambda rounds: sum(alone[0].time([x, y], rounds))),
        Contestant("eager", in_turn(tiny.model, modes)),
    ]
    with torch._dynamo.config.patch(recompile_limit=2 * count, accumulated_recompile_limit=2 * count):
        # Guards only: with its compiler behind them this would take minutes to build.
        guarded = torch.compile(tiny.model, dynamic=True, backend="eager")
        for mode in modes:
            guarded(x, y, mode=mode)
        contestants.append(Contestant('torch.compile(backend="eager")', in_turn(guarded, modes)))
        yield Group(f"module call, {count} graphs in turn, on {backend}", contestants)


def rotating_alone() -> Iterator[Group]:
    """What graphs in turn cost by themselves: on an engine whose code all graphs share."""
    name = "graphs in turn, on an engine without code of their own"
    with shared_engine() as engine, torch.no_grad():
        if not engine:
            yield Group(name, [], [NO_SHARED_ENGINE])
            return
        contestants = []
        for count in (1, 4, 16, 64):
            modes = [f"mode{number}" for number in range(count)]
            contestants.append(
                Contestant(f"graphtune, graphs: {count}", in_turn(module_of_modes(*engine, modes), modes))
            )
        yield Group(name, contestants)
