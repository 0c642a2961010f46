"""What graphtune's Python calls cost, beside optree, torch's pytree and torch.compile in the same process.

    python benchmarks/python/bench_call.py [--only WORD] [--seconds 2] [--json FILE]

The contestants of a group take turns in short blocks (A B C A B C ...), so that whatever the machine does hits all of
them alike. A row gives the median over the blocks, the 10th and 90th percentile, and the median over the turns of
(its time / graphtune's time). A peer that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from support.measuring import Contestant, Group, Row, calls, calls_with, machine, measure, print_rows
from support.module_groups import module_calls, recording, rotating_alone, routing_from_python

import graphtune

Tree = tuple[tuple[Any, ...], dict[str, Any]]

BUILD = Path(__file__).resolve().parents[2] / "build" / "release"
CORE_BENCHMARKS = BUILD / "bin" / "graphtune_benchmarks"
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

    return Contestant(name, block, count=1)


def core_routing(peers: Peers) -> Iterator[Group]:
    del peers
    if not CORE_BENCHMARKS.exists():
        yield Group("routing in C++", [], [f"routing in C++ is left out: {CORE_BENCHMARKS.name} is not built"])
        return
    yield Group("routing in C++", [core_benchmark(f"route_known/graphs:{count}") for count in (1, 4, 16, 64)])


# --- groups: the package ------------------------------------------------------------------------------------------


def import_time(peers: Peers) -> Iterator[Group]:
    del peers

    def block(count: int) -> float:
        program = "import time, torch; t = time.perf_counter(); import graphtune; print(time.perf_counter() - t)"
        runs = (subprocess.run([sys.executable, "-c", program], capture_output=True, check=True) for _ in range(count))
        return sum(float(run.stdout) for run in runs)

    yield Group("import", [Contestant("graphtune, after torch", block)])


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
        "routing from Python": lambda: routing_from_python(),
        "recording": lambda: recording(),
        "import": lambda: import_time(peers),
        "graphs in turn": lambda: rotating_alone(),
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
