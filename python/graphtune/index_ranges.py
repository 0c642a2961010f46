"""Which values an integer input may have, because they reach an index.

A bad index ends an engine's process, or gives silent garbage, where eager raises. So the allowed values are found in
the exported program and become part of the contract. Every tensor of the program gets an abstract value: a union of
pieces, each either an interval or "a times an input plus something". Where a piece reaches an index, the input's range
follows from the size of the indexed axis.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .export_readback import user_inputs
from .index_nodes import (
    REPLACING,
    SAME_VALUES,
    UNIONS,
    VALUE_FREE,
    WITH_POSITIONS,
    aligned_indices,
    attribute,
    dimension,
    floor_divide,
    is_mask,
    named_arguments,
    number,
    numel,
    point,
    progression,
    size_expression,
    subgraph,
    sum,
)
from .index_values import (
    Affine,
    Interval,
    Pieces,
    SizeBounds,
    add,
    clamp,
    is_number,
    multiply,
    opaque,
    remainder,
    sources,
    taint,
)

__all__ = ["IndexProblem", "IndexRanges", "find_index_ranges"]


@dataclass(frozen=True)
class IndexProblem:
    """An input that reaches an index in a way that cannot be bounded."""

    op: str
    input: int
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass
class IndexRanges:
    """`ranges[i]`: the lowest and highest value that integer input i may have; `problems`: why there may be more."""

    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    problems: list[IndexProblem] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {
            "ranges": {str(index): list(span) for index, span in sorted(self.ranges.items())},
            "problems": [vars(problem) for problem in self.problems],
        }


def find_index_ranges(program: torch.export.ExportedProgram) -> IndexRanges:
    """Follows every input of an exported program to the indices that it reaches."""
    if _writes_in_place(program):
        # Then a tensor's value would depend on when it is looked at.
        program = program.run_decompositions({})
    finder = _Finder(SizeBounds(program.range_constraints))
    inputs = {name: index for index, name in enumerate(program.graph_signature.user_inputs)}
    constants = _constants(program)
    values: dict[str, Pieces] = {}
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in inputs:
            values[node.name] = _input_pieces(inputs[node.name], node.meta.get("val"))
        else:
            values[node.name] = _constant_pieces(constants.get(node.name))
    finder.walk(program.graph_module, values)
    return finder.result(user_inputs(program))


def _writes_in_place(program: torch.export.ExportedProgram) -> bool:
    return any(
        isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
        for node in program.graph.nodes
    )


def _constants(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    found = {}
    for spec in program.graph_signature.input_specs:
        if spec.target is None:
            continue
        value = program.state_dict.get(spec.target, program.constants.get(spec.target))
        if isinstance(value, torch.Tensor):
            found[spec.arg.name] = value
    return found


def _constant_pieces(value: torch.Tensor | None) -> Pieces:
    if value is None or value.is_complex() or value.is_sparse:
        return opaque()
    if value.dtype == torch.bool:
        return (Interval(0, 1),)
    if value.numel() == 0 or value.is_floating_point():
        return opaque()
    low, high = torch.aminmax(value)
    return (Interval(int(low), int(high)),)


def _input_pieces(index: int, value: Any) -> Pieces:
    if isinstance(value, torch.Tensor) and not value.is_floating_point() and not value.is_complex():
        if value.dtype == torch.bool:
            return (Interval(0, 1, frozenset({index})),)
        return (Affine(index),)
    return opaque({index})


class _Finder:
    """Walks a graph once and gathers what every index asks of the inputs."""

    def __init__(self, bounds: SizeBounds) -> None:
        self._bounds = bounds
        self._spans: dict[int, tuple[float, float]] = {}
        self._problems: list[IndexProblem] = []

    def result(self, inputs: Sequence[Any]) -> IndexRanges:
        found = IndexRanges(problems=list(dict.fromkeys(self._problems)))
        for index, (low, high) in sorted(self._spans.items()):
            kinds = torch.iinfo(inputs[index].dtype)
            lowest, highest = max(low, kinds.min), min(high, kinds.max)
            if lowest > highest:
                found.problems.append(
                    IndexProblem("index", index, f"no value of input {index} fits all the indices that it reaches")
                )
                continue
            if (lowest, highest) != (kinds.min, kinds.max):
                found.ranges[index] = (int(lowest), int(highest))
        return found

    # --- the walk ---

    def walk(self, module: torch.fx.GraphModule, values: dict[str, Pieces]) -> list[Pieces]:
        """Evaluates a graph over abstract values; gives those of its outputs."""
        for node in module.graph.nodes:
            if node.op == "call_function":
                values[node.name] = self._call(module, node, values)
            elif node.op == "get_attr":
                values[node.name] = _constant_pieces(attribute(module, node.target))
            elif node.op == "output":
                results = node.args[0] if isinstance(node.args[0], (tuple, list)) else [node.args[0]]
                return [self._value(result, values) for result in results]
        return []

    def _value(self, argument: Any, values: dict[str, Pieces]) -> Pieces:
        if isinstance(argument, torch.fx.Node):
            return values.get(argument.name, opaque())
        if isinstance(argument, bool | int):
            return (Interval(int(argument), int(argument)),)
        if isinstance(argument, float) and argument.is_integer():
            return (Interval(int(argument), int(argument)),)
        if isinstance(argument, (list, tuple)):
            return tuple(piece for each in argument for piece in self._value(each, values))
        return opaque()

    def _call(self, module: torch.fx.GraphModule, node: torch.fx.Node, values: dict[str, Pieces]) -> Pieces:
        if node.target is operator.getitem:
            return self._element(node, values)
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return self._higher_order(module, node, values)
        if not isinstance(node.target, torch._ops.OpOverload):
            return self._size_arithmetic(node, values)
        schema = node.target._schema
        arguments = named_arguments(node)
        name = schema.name.rpartition("::")[2]
        self._visit_indices(name, arguments, values)
        behind = frozenset() if name in VALUE_FREE else sources(self._value(list(node.all_input_nodes), values))
        result = taint(self._transfer(name, node, arguments, behind, values), behind)
        return self._within_dtype(result, node.meta.get("val"))

    def _element(self, node: torch.fx.Node, values: dict[str, Pieces]) -> Pieces:
        source, place = node.args[0], node.args[1]
        pieces = self._value(source, values)
        schema = getattr(getattr(source, "target", None), "_schema", None)
        if schema is not None and schema.name.rpartition("::")[2] in WITH_POSITIONS:
            return pieces[-1:] if place == 1 else pieces[:-1]
        return pieces

    def _within_dtype(self, pieces: Pieces, fake: Any) -> Pieces:
        """Values that an integer type cannot hold wrap around: then all that is known is the type."""
        if not isinstance(fake, torch.Tensor) or fake.is_floating_point() or fake.is_complex():
            return pieces
        limits = (0, 1) if fake.dtype == torch.bool else (torch.iinfo(fake.dtype).min, torch.iinfo(fake.dtype).max)
        result: list[Interval | Affine] = []
        for piece in pieces:
            if fake.dtype == torch.bool and isinstance(piece, Affine):
                result.append(Interval(0, 1, sources((piece,))))
            elif isinstance(piece, Interval) and not (
                self._bounds.proves(piece.low, limits[0]) and self._bounds.proves(limits[1], piece.high)
            ):
                result.append(Interval(*limits, piece.inputs))
            else:
                result.append(piece)
        return tuple(result)

    def _higher_order(self, module: torch.fx.GraphModule, node: torch.fx.Node, values: dict[str, Pieces]) -> Pieces:
        everything = self._value(list(node.all_input_nodes), values)
        # A region (no_grad, autocast) or a branch gets its operands as they are; a loop's carried values are unknown.
        loops = "while" in str(node.target) or "scan" in str(node.target) or "map" in str(node.target)
        results: list[Pieces] = []
        flat = [each for a in node.args for each in (a if isinstance(a, (list, tuple)) else [a])]
        bodies = [a for a in flat if isinstance(a, torch.fx.Node) and subgraph(module, a) is not None]
        operands = flat[flat.index(bodies[-1]) + 1 :] if bodies else []
        for body in bodies:
            graph = subgraph(module, body)
            assert graph is not None
            names = [n.name for n in graph.graph.find_nodes(op="placeholder")]
            if loops or len(names) != len(operands):
                inner = dict.fromkeys(names, opaque(sources(everything)))
            else:
                inner = {n: self._value(o, values) for n, o in zip(names, operands, strict=True)}
            results += self.walk(graph, inner)
        if loops or not bodies:
            return opaque(sources(everything))
        return tuple(piece for result in results for piece in result)

    def _size_arithmetic(self, node: torch.fx.Node, values: dict[str, Pieces]) -> Pieces:
        """Sizes, and numbers computed from them: the shape expression says it all, unless a value is behind it."""
        behind = sources(self._value(list(node.all_input_nodes), values))
        if behind:
            return opaque(behind)
        expression = size_expression(node.meta.get("val"))
        return point(expression) if expression is not None else opaque()

    # --- what each op does to values ---

    def _transfer(
        self,
        name: str,
        node: torch.fx.Node,
        arguments: dict[str, Any],
        behind: frozenset[int],
        values: dict[str, Pieces],
    ) -> Pieces:
        def of(key: str, default: Any = None) -> Pieces:
            return self._value(arguments.get(key, default), values)

        first = self._value(next(iter(arguments.values()), None), values)
        if name in ("max", "min") and "other" in arguments:
            return (*first, *of("other"))
        if name in WITH_POSITIONS:
            return (*first, *self._positions({"dim": -1, **arguments}))
        if name in SAME_VALUES:
            return first
        if name in UNIONS:
            return tuple(piece for a in arguments.values() for piece in self._tensors(a, values))
        if name == "where":
            return (*of("self"), *of("other"))
        if name in REPLACING:
            key = REPLACING[name] if REPLACING[name] in arguments else "value"
            return (*first, *of(key, 0))
        if name == "embedding":
            return of("weight")
        return self._arithmetic(name, arguments, of) or self._made(name, node, arguments, of) or opaque(behind)

    def _arithmetic(self, name: str, arguments: dict[str, Any], of: Callable[..., Pieces]) -> Pieces:
        if name in ("add", "sub", "rsub"):
            left, right = of("self"), of("other")
            if name == "rsub":
                left, right = right, left
            scale = multiply(of("alpha", 1), point(1 if name == "add" else -1))
            # alpha belongs to the second operand, which for rsub is the tensor itself
            return add(left, multiply(right, scale))
        if name == "mul":
            return multiply(of("self"), of("other"))
        if name == "neg":
            return multiply(of("self"), point(-1))
        if name == "abs":
            return clamp((*of("self"), *multiply(of("self"), point(-1))), 0, None)
        if name in ("clamp", "clamp_min", "clamp_max", "clip", "relu"):
            limits = [0 if name == "relu" else None, None]
            for place, key in enumerate(("min", "max")):
                if arguments.get(key) is not None:
                    limits[place] = number(of(key))
                    if limits[place] is None:
                        return ()  # a limit that is not one number
            return clamp(of("self"), limits[0], limits[1])
        if name in ("remainder", "fmod"):
            return remainder(of("self"), number(of("other")), floors=name == "remainder")
        if name == "floor_divide" or (name == "div" and arguments.get("rounding_mode") == "floor"):
            return floor_divide(of("self"), number(of("other")))
        if name in ("cumsum", "sum"):
            return sum(of("self"), arguments)
        return ()

    def _made(self, name: str, node: torch.fx.Node, arguments: dict[str, Any], of: Callable[..., Pieces]) -> Pieces:
        """Ops that make values within bounds of their own; nothing where the op is not known."""
        fake = node.meta.get("val")
        if isinstance(fake, torch.Tensor) and fake.dtype == torch.bool:
            return (Interval(0, 1),)
        if name in ("sym_size", "sym_numel", "sym_stride"):
            expression = size_expression(fake)
            return point(expression) if expression is not None else ()
        if name in ("arange", "range"):
            return progression(of("start", 0), of("end"), number(of("step", 1)))
        if name in ("argmax", "argmin", "argsort"):
            return self._positions(arguments)
        if name in ("zeros", "zeros_like", "new_zeros"):
            return point(0)
        if name in ("ones", "ones_like", "new_ones"):
            return point(1)
        if name in ("full", "full_like", "new_full"):
            return of("fill_value")
        if name == "scalar_tensor":
            return of("s")
        if name in ("one_hot", "sign"):
            return (Interval(-1 if name == "sign" else 0, 1),)
        if name in ("bucketize", "searchsorted"):
            size = dimension(arguments.get("boundaries", arguments.get("sorted_sequence")), -1)
            return (Interval(0, size),) if size is not None else ()
        return ()

    def _tensors(self, argument: Any, values: dict[str, Pieces]) -> Pieces:
        listed = argument if isinstance(argument, (list, tuple)) else [argument]
        return self._value([each for each in listed if isinstance(each, torch.fx.Node)], values)

    def _positions(self, arguments: dict[str, Any]) -> Pieces:
        dim = arguments.get("dim", -1 if "descending" in arguments else None)
        size = numel(arguments.get("self")) if dim is None else dimension(arguments.get("self"), dim)
        return (Interval(0, size - 1),) if size is not None else opaque()

    # --- indices ---

    def _visit_indices(self, name: str, arguments: dict[str, Any], values: dict[str, Pieces]) -> None:
        def tensor_of(*keys: str) -> Any:
            return next((arguments[key] for key in keys if arguments.get(key) is not None), None)

        if name in ("embedding", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"):
            self._demand(name, arguments["indices"], dimension(arguments["weight"], 0), False, values)
            if arguments.get("offsets") is not None:
                self._refuse(name, arguments["offsets"], "the offsets", values)
        elif name in ("index", "index_put", "_unsafe_index", "_unsafe_index_put", "_index_put_impl"):
            for axis, index in aligned_indices(arguments["indices"]):
                if not is_mask(index):
                    self._demand(name, index, dimension(arguments["self"], axis), True, values)
        elif name in ("gather", "index_select", "take_along_dim", "index_add", "index_copy", "index_fill") or (
            name.startswith(("scatter", "index_reduce")) and "index" in arguments
        ):
            index, dim = tensor_of("index", "indices"), arguments.get("dim")
            size = numel(arguments["self"]) if dim is None else dimension(arguments["self"], dim)
            self._demand(name, index, size, False, values)
        elif name in ("take", "put"):
            self._demand(name, arguments["index"], numel(arguments["self"]), True, values)
        elif name == "select" and isinstance(arguments.get("index"), torch.fx.Node):
            self._demand(name, arguments["index"], dimension(arguments["self"], arguments["dim"]), True, values)
        elif name == "one_hot":
            classes = arguments.get("num_classes", -1)
            size = classes if isinstance(classes, int) and classes > 0 else None
            self._demand(name, arguments["self"], size, False, values)
        elif name in ("nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "cross_entropy_loss"):
            self._refuse(name, arguments["target"], "the target", values)
        elif name in ("bincount", "repeat_interleave") and not isinstance(arguments.get("repeats"), int):
            self._refuse(name, tensor_of("repeats", "self"), "the sizes of its result", values)

    def _refuse(self, op: str, argument: Any, what: str, values: dict[str, Pieces]) -> None:
        for index in sorted(sources(self._value(argument, values))):
            self._problems.append(IndexProblem(op, index, f"input {index} decides {what} of {op}"))

    def _demand(self, op: str, argument: Any, size: Any, negative: bool, values: dict[str, Pieces]) -> None:
        """Every value that reaches this index must be in 0..size-1 (or -size..size-1)."""
        for piece in self._value(argument, values):
            inputs = sources((piece,))
            if not inputs:
                continue  # of sizes and constants only: eager has the same values, or the same error
            if size is None:
                self._unbounded(op, inputs, "has a size that is not known")
                continue
            low = -size if negative else 0
            if isinstance(piece, Interval):
                if not (self._bounds.proves(piece.low, low) and self._bounds.proves(size - 1, piece.high)):
                    self._unbounded(op, inputs, f"has {size} entries, and the index is computed without a bound")
            elif not is_number(size):
                self._unbounded(op, inputs, f"has {size} entries, which is not one number")
            else:
                span = piece.allowed(low, size - 1)
                if span is None:
                    self._unbounded(op, inputs, f"has {size} entries, and the index is not bounded by the input alone")
                    continue
                have = self._spans.get(piece.input, (-math.inf, math.inf))
                self._spans[piece.input] = (max(have[0], span[0]), min(have[1], span[1]))

    def _unbounded(self, op: str, inputs: frozenset[int], why: str) -> None:
        for index in sorted(inputs):
            self._problems.append(IndexProblem(op, index, f"input {index} reaches an index of {op}, whose axis {why}"))
