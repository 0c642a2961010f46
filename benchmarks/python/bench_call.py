"""What graphtune's Python calls cost, beside optree, torch's pytree and torch.compile in the same process.

    python benchmarks/python/bench_call.py [--only WORD] [--seconds 2] [--json FILE]

The contestants of a group take turns in short blocks (A B C A B C ...), so that whatever the machine does hits all of
them alike. A row gives the median over the blocks, the 10th and 90th percentile, and the median over the turns of
(its time / graphtune's time). A peer that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from support.measuring import Block, Contestant, Group, Row, calls, calls_with, machine, measure, print_rows

import graphtune

Tree = tuple[tuple[Any, ...], dict[str, Any]]

BUILD = Path(__file__).resolve().parents[2] / "build" / "release"
CORE_BENCHMARKS = BUILD / "bin" / "graphtune_benchmarks"
TEST_ENGINES = BUILD / "test_engines"
YARDSTICK = "yardstick: optree.tree_flatten of 5 tensors"


# --- calls and peers ----------------------------------------------------------------------------------------------


def encoder_call(batch: int, length: int = 16) -> Tree:
    """5 tensors by name, as an encoder gets them."""
    names = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    kwargs = {name: torch.zeros(batch, length, dtype=torch.int64) for name in names}
    return (), {**kwargs, "scale": torch.zeros(batch)}


def list_call(count: int, batch: int, length: int) -> Tree:
    """One list of tensors, as a decoder gets its cache."""
    return ([torch.zeros(batch, length, 2) for _ in range(count)],), {}


class Peers:
    """The libraries to compare with, as far as they are installed."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.optree: Any = None
        self.aitune: Any = None
        try:
            import optree

            self.optree = optree
        except ImportError as error:
            self.notes.append(f"optree is left out: {error}")
        try:
            from aitune.torch.module.sample_metadata import SampleMetadata

            self.aitune = SampleMetadata
        except ImportError as error:
            self.notes.append(f"AITune is left out: {error}")

    def flatteners(self, tree: Tree) -> Iterator[Contestant]:
        """What merely taking the same call apart costs."""
        if self.optree is not None:
            yield Contestant("optree.tree_flatten", calls(partial(self.optree.tree_flatten, tree)))
        yield Contestant("torch pytree.tree_flatten", calls(partial(pytree.tree_flatten, tree)))

    def yardstick(self) -> list[Contestant]:
        """In every group: how fast this machine is in the very turn. See report.py."""
        if self.optree is None:
            return []
        return [Contestant(YARDSTICK, calls(partial(self.optree.tree_flatten, encoder_call(2))))]

    def metadata_classes(self) -> Iterator[tuple[str, Any]]:
        yield "graphtune", graphtune.SampleMetadata
        if self.aitune is not None:
            yield "AITune", self.aitune


# --- groups: metadata ---------------------------------------------------------------------------------------------


def from_inputs(peers: Peers) -> Iterator[Group]:
    for count, tree in ((5, encoder_call(2)), (100, list_call(100, 2, 16))):
        contestants = [
            Contestant(f"{name} from_inputs", calls(partial(cls.from_inputs, *tree, batch_size=2)))
            for name, cls in peers.metadata_classes()
        ]
        yield Group(f"from_inputs, {count} tensors", [*contestants, *peers.flatteners(tree)])


def update_shapes_seen(peers: Peers) -> Iterator[Group]:
    for count in (100, 10_000):
        first, second = list_call(count, 1, 8), list_call(count, 2, 24)
        contestants = []
        for name, cls in peers.metadata_classes():
            other = cls.from_inputs(*second, batch_size=2)

            def learn(metadata: Any, other: Any = other) -> object:
                metadata.update_shapes_seen(other)
                # graphtune puts off what follows from the samples until it is asked for; AITune does not.
                return getattr(metadata, "symbols", None)

            fresh = partial(cls.from_inputs, *first, batch_size=1)

            contestants.append(Contestant(f"{name} update_shapes_seen", calls_with(fresh, learn)))
        yield Group(f"update_shapes_seen, {count} tensors", [*contestants, *peers.flatteners(second)])


def learned(cls: Any, call: Callable[[int, int], Tree]) -> Any:
    metadata = cls.from_inputs(*call(1, 8), batch_size=1)
    for batch, length in ((8, 64), (4, 32)):
        metadata.update_shapes_seen(cls.from_inputs(*call(batch, length), batch_size=batch))
    return metadata


def copy_rows(tensors: list[torch.Tensor], rows: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.index_select(0, rows) for tensor in tensors]


def make_batch(peers: Peers) -> Iterator[Group]:
    tree = encoder_call(2)
    tensors = list(tree[1].values())
    for title, size in (("no-op", 2), ("grow 2 to 8", 8)):
        contestants = []
        for name, cls in peers.metadata_classes():
            metadata = learned(cls, encoder_call)
            contestants.append(
                Contestant(
                    f"{name} make_batch",
                    calls(partial(metadata.make_batch, *tree, batch_size=size)),
                )
            )
        if size != 2:
            rows = torch.arange(size) % 2

            contestants.append(Contestant("the copies alone (index_select)", calls(partial(copy_rows, tensors, rows))))
        yield Group(f"make_batch, 5 tensors, {title}", [*contestants, *peers.flatteners(tree)])


def describe(peers: Peers) -> Iterator[Group]:
    def call(batch: int, length: int) -> Tree:
        return list_call(100, batch, length)

    contestants = []
    for name, cls in peers.metadata_classes():
        metadata = learned(cls, call)
        contestants.append(Contestant(f"{name} describe(FULL)", calls(metadata.describe)))
    if peers.aitune is not None:
        from aitune.torch.module.sample_metadata import InfoLevel

        metadata = learned(peers.aitune, call)
        contestants[-1] = Contestant("AITune describe(FULL)", calls(partial(metadata.describe, InfoLevel.FULL)))
    yield Group("describe(FULL), 100 tensors", [*contestants, *peers.flatteners(call(2, 24))])


# --- groups: the core by itself ----------------------------------------------------------------------------------


def core_benchmark(name: str) -> Contestant:
    """A benchmark of the C++ binary, which takes turns with what runs in Python as any other contestant."""
    command = [CORE_BENCHMARKS, f"--benchmark_filter=^{name}$", "--benchmark_format=json", "--benchmark_min_time=0.02"]

    def block(count: int) -> float:
        shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        return count * float(json.loads(shown)["benchmarks"][0]["real_time"]) * 1e-9

    return Contestant(name, block)


def core_routing(peers: Peers) -> Iterator[Group]:
    del peers
    if not CORE_BENCHMARKS.exists():
        yield Group("routing in C++", [], [f"routing in C++ is left out: {CORE_BENCHMARKS.name} is not built"])
        return
    yield Group("routing in C++", [core_benchmark(f"route_known/graphs:{count}") for count in (1, 4, 16, 64)])


# --- groups: calls ------------------------------------------------------------------------------------------------


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
    from graphtune import _core

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


def recording(peers: Peers) -> Iterator[Group]:
    """A call of a graph whose sizes and samples are known."""
    del peers
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


def import_time(peers: Peers) -> Iterator[Group]:
    del peers

    def block(count: int) -> float:
        program = "import time, torch; t = time.perf_counter(); import graphtune; print(time.perf_counter() - t)"
        runs = (subprocess.run([sys.executable, "-c", program], capture_output=True, check=True) for _ in range(count))
        return sum(float(run.stdout) for run in runs)

    yield Group("import", [Contestant("graphtune, after torch", block)])


def in_turn(target: Callable[..., object], modes: list[str]) -> Block:
    x, y = tiny_call()

    def block(rounds: int) -> float:
        start = time.perf_counter()
        for number in range(rounds):
            target(x, y, mode=modes[number % len(modes)])
        return time.perf_counter() - start

    return block


def module_of_modes(backend: str, engine_folder: Path, modes: list[str]) -> Any:
    """The tiny model with a graph for each mode, all served by copies of one engine."""
    from graphtune.serving import tuned_router

    from graphtune import _core

    model = Tiny().eval()
    module = graphtune.Module(model, name="tiny_modes")
    for batch in (1, 2, 4):
        for mode in modes:
            with graphtune.batch_size(batch):
                module(*tiny_call(batch), mode=mode)
    specs = module.graph_specs
    plan: list[tuple[str, dict[str, tuple[int, int]]]] = [(backend, {})]
    engines = [(backend, backend, engine_folder, 1)]
    router = _core.make_router([_core.make_graph(spec, plan, engines, [-1]) for spec in specs], module.strict)
    module.install(tuned_router(router, module.signature, [torch.empty(0) for _ in specs], model), specs, None)
    return module


def rotating_graphs(tiny: TunedTiny, backend: str, count: int) -> Iterator[Group]:
    """As many graphs as there are modes, which take turns."""
    from graphtune import _core

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


def rotating_alone(peers: Peers) -> Iterator[Group]:
    """What graphs in turn cost by themselves: on an engine that multiplies two numbers, whose code all graphs share."""
    del peers
    name = "graphs in turn, on an engine without code of their own"
    if not any(TEST_ENGINES.glob("libgraphtune_engine_fake.*")):
        yield Group(name, [], [f"{name}: left out, as the tests' own engine library is not built"])
        return
    os.environ["GRAPHTUNE_ENGINE_PATH"] = str(TEST_ENGINES)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        (Path(folder) / "engine.json").write_text(json.dumps({"factor": 2, "outputs": [0]}))
        contestants = []
        for count in (1, 4, 16, 64):
            modes = [f"mode{number}" for number in range(count)]
            module = module_of_modes("fake", Path(folder), modes)
            contestants.append(Contestant(f"graphtune, graphs: {count}", in_turn(module, modes)))
        yield Group(name, contestants)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="groups whose name has this word")
    parser.add_argument("--seconds", type=float, default=2.0, help="budget of a group (2)")
    parser.add_argument("--backend", default="aoti", help="engine behind the module calls (aoti)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()

    torch.set_num_threads(1)  # with more, waking threads is most of what a small call costs
    peers = Peers()
    facts = machine()
    print(json.dumps(facts))
    for note in peers.notes:
        print(note)
    makers: dict[str, Callable[[], Iterator[Group]]] = {
        "from_inputs": lambda: from_inputs(peers),
        "update_shapes_seen": lambda: update_shapes_seen(peers),
        "make_batch": lambda: make_batch(peers),
        "describe": lambda: describe(peers),
        "routing": lambda: core_routing(peers),
        "recording": lambda: recording(peers),
        "import": lambda: import_time(peers),
        "graphs in turn": lambda: rotating_alone(peers),
        "module call": lambda: module_calls(options.backend),
    }
    rows: list[Row] = []
    notes = list(peers.notes)
    for name, groups in makers.items():
        if options.only not in name:
            continue
        for group in groups():
            group.contestants += peers.yardstick()
            print(f"\n{group.name}")
            for note in group.notes:
                print(f"  {note}")
            notes += group.notes
            if len(group.contestants) > len(peers.yardstick()):
                found = measure(group, options.seconds)
                print_rows(found)
                rows += found
    if options.json:
        report = {"machine": facts, "notes": notes, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
