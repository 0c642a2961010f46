"""An exported program as a TorchScript graph: the same operators, with sizes computed where the exporter has symbols.

Tracing would write the example's sizes into the graph: the exporter's ``sym_size`` gives plain numbers to a tracer.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch

__all__ = ["save_torchscript", "torchscript_graph"]

# Of a result that has several parts: the parts.
_Found = Any  # torch._C.Value or a tuple of them

# Arithmetic on sizes: TorchScript's operator, and the type of its result (None: that of its operands).
_ARITHMETIC: dict[Any, tuple[str, str | None]] = {
    operator.add: ("aten::add", None),
    operator.sub: ("aten::sub", None),
    operator.mul: ("aten::mul", None),
    operator.neg: ("aten::neg", None),
    operator.floordiv: ("aten::floordiv", None),
    operator.mod: ("aten::remainder", None),
    operator.truediv: ("aten::div", "float"),
    torch.sym_float: ("aten::Float", "float"),
    torch.sym_max: ("prim::max", None),
    torch.sym_min: ("prim::min", None),
    math.floor: ("aten::floor", "int"),
    math.ceil: ("aten::ceil", "int"),
}
_SIZES = {"aten::sym_size": "aten::size", "aten::sym_numel": "aten::numel", "aten::sym_stride": "aten::stride"}
# The exporter's own checks of sizes: the contract makes them.
_CHECKS = {
    "aten::_assert_scalar",
    "aten::_assert_tensor_metadata",
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
}


def save_torchscript(program: torch.export.ExportedProgram, path: str, freeze: bool = True) -> None:
    """Writes the program as a TorchScript archive; ``freeze`` folds what doesn't depend on its inputs.

    Raises NotImplementedError for what TorchScript has no operator for.
    """
    function: Any = torch._C._create_function_from_graph("forward", torchscript_graph(program))
    function.save(path)
    if freeze:
        read: Any = torch.jit.load  # without annotations
        module = read(path)
        module.training = False
        torch.jit.freeze(module).save(path)


def torchscript_graph(program: torch.export.ExportedProgram) -> torch._C.Graph:
    """The program as a graph that takes its user inputs and gives a tuple of its user outputs; weights are constants.

    Raises NotImplementedError for what TorchScript has no operator for.
    """
    converter = _Converter()
    tensors = {**program.state_dict, **program.constants}
    inputs: dict[str, Any] = {}
    for spec in program.graph_signature.input_specs:
        name, kind = spec.arg.name, spec.kind.name
        if kind == "USER_INPUT":
            inputs[name] = converter.graph.addInput(name)
        elif kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            assert spec.target is not None
            inputs[name] = tensors[spec.target]
        else:
            raise NotImplementedError(f"TorchScript can't take input {name} of kind {kind}")
    for output in program.graph_signature.output_specs:
        if output.kind.name != "USER_OUTPUT":
            raise NotImplementedError(f"the program writes to {output.target}, which its TorchScript would not keep")
    results = converter.convert(program.graph_module, inputs)
    converter.graph.registerOutput(converter.insert("prim::TupleConstruct", results))
    types = torch._C.TupleType([value.type() for value in results])
    next(iter(converter.graph.outputs())).setType(types)
    converter.graph.lint()
    return converter.graph


class _Converter:
    """Adds the nodes of a program, and of the programs within it, to one graph."""

    def __init__(self) -> None:
        self.graph = torch._C.Graph()
        self._constants: dict[int, Any] = {}
        self._kept: list[torch.Tensor] = []  # so that their ids stay theirs

    def convert(self, module: torch.fx.GraphModule, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        """The values of the module's outputs; ``inputs`` by name or in order: values, or tensors for constants."""
        known: dict[torch.fx.Node, _Found] = {}
        needed = _needed(module.graph)
        places = iter(inputs.values() if isinstance(inputs, Mapping) else inputs)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                given = inputs[node.name] if isinstance(inputs, Mapping) else next(places)
                if not isinstance(given, torch.Tensor):
                    known[node] = given
                elif node in needed:
                    known[node] = self._tensor(given)
            elif node.op == "get_attr":
                known[node] = _attribute(module, str(node.target))
            elif node.op == "call_function" and node in needed:
                known[node] = self._call(node, known)
            elif node.op == "output":
                return [self._value(each, None, known) for each in node.args[0]]
            elif node.op not in ("call_function", "output"):
                raise NotImplementedError(f"TorchScript has nothing for {node.op} {node.target}")
        raise AssertionError("a graph ends with its output")

    def insert(self, name: str, inputs: Sequence[Any], types: Sequence[Any] = ()) -> Any:
        """Adds a node; its value, or a tuple of them where it has several."""
        node = self.graph.create(name, list(inputs), max(1, len(types)))
        self.graph.insertNode(node)
        values = list(node.outputs())
        for value, type_ in zip(values, types, strict=False):
            value.setType(type_)
        if not name.startswith("prim::") and node.schema() == "(no schema)":
            given = ", ".join(str(value.type()) for value in inputs)
            raise NotImplementedError(f"TorchScript has no operator {name} for ({given})")
        return values[0] if len(values) == 1 else tuple(values)

    def _call(self, node: torch.fx.Node, known: Mapping[torch.fx.Node, _Found]) -> _Found:
        target: Any = node.target
        if isinstance(target, torch._ops.OpOverload):
            return self._call_operator(target, node, known)
        if target is operator.getitem:
            container, index = node.args
            assert isinstance(container, torch.fx.Node)
            found = known[container]
            if isinstance(found, (tuple, list)):
                return found[index]  # type: ignore[index]
            of_element = found.type().getElementType()
            return self.insert("aten::__getitem__", [found, self._constant(index)], [of_element])
        if target in _ARITHMETIC:
            name, result = _ARITHMETIC[target]
            values = [self._value(each, None, known) for each in node.args]
            is_float = result == "float" or (result is None and any(v.type().kind() == "FloatType" for v in values))
            return self.insert(name, values, [torch._C.FloatType.get() if is_float else torch._C.IntType.get()])
        if str(target) == "wrap_with_set_grad_enabled":
            _, inner, *given = node.args
            assert isinstance(inner, torch.fx.Node)
            return tuple(self.convert(known[inner], [self._value(each, None, known) for each in given]))
        raise NotImplementedError(f"TorchScript has nothing for {target}")

    def _call_operator(
        self, target: torch._ops.OpOverload[Any, Any], node: torch.fx.Node, known: Mapping[torch.fx.Node, _Found]
    ) -> _Found:
        schema = target._schema
        if schema.name in _SIZES:
            values = [self._value(each, None, known) for each in node.args]
            return self.insert(_SIZES[schema.name], values, [torch._C.IntType.get()])
        if not schema.name.startswith("aten::"):
            raise NotImplementedError(f"{schema.name} is no operator of torch itself")
        # All arguments, so that only the overload that is meant can match.
        values = []
        for place, argument in enumerate(schema.arguments):
            if place < len(node.args):
                given: Any = node.args[place]
            elif argument.name in node.kwargs:
                given = node.kwargs[argument.name]
            else:
                given = argument.default_value
            values.append(self._value(given, argument.type, known))
        return self.insert(schema.name, values, [each.type for each in schema.returns])

    def _value(self, given: Any, wanted: Any, known: Mapping[torch.fx.Node, _Found]) -> Any:
        """What an argument is in the graph; ``wanted`` is the type of the operator's parameter."""
        if isinstance(given, torch.fx.Node):
            return known[given]
        if wanted is not None and wanted.kind() == "OptionalType" and given is not None:
            return self._value(given, wanted.getElementType(), known)
        if isinstance(given, (list, tuple)):
            of_element = wanted.getElementType() if wanted is not None and wanted.kind() == "ListType" else None
            if of_element is None:
                raise NotImplementedError(f"TorchScript can't take the list {given!r} here")
            elements = [self._value(each, of_element, known) for each in given]
            return self.insert("prim::ListConstruct", elements, [torch._C.ListType(of_element)])
        if wanted is not None and wanted.kind() == "FloatType" and isinstance(given, int):
            given = float(given)
        elif wanted is not None and wanted.kind() == "NumberType" and isinstance(given, bool):
            given = int(given)
        return self._constant(given)

    def _tensor(self, tensor: torch.Tensor) -> Any:
        if id(tensor) not in self._constants:
            self._constants[id(tensor)] = self._constant(tensor.detach())
            self._kept.append(tensor)
        return self._constants[id(tensor)]

    def _constant(self, given: Any) -> Any:
        return self.graph.insertConstant(given)  # type: ignore[attr-defined]


def _needed(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Nodes that an output comes from, or that have an effect; the checks of sizes and what only they need are not."""

    def begins(node: torch.fx.Node) -> bool:
        if node.op == "output":
            return True
        target = node.target
        return (
            isinstance(target, torch._ops.OpOverload)
            and target._schema.name not in _CHECKS
            and (target._schema.is_mutable or not node.users)
        )

    needed: set[torch.fx.Node] = set()
    for node in reversed(list(graph.nodes)):
        if node in needed or begins(node):
            needed.add(node)
            needed.update(node.all_input_nodes)
    return needed


def _attribute(module: torch.nn.Module, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name)
    return found
