"""Rewrites what the exporter leaves in a program and the engines' converters can't take; no value changes by that."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["drop_empty_operands"]


def drop_empty_operands(program: torch.export.ExportedProgram) -> None:
    """Takes operands of shape [0] out of concatenations of tensors of other ranks.

    torch passes over them, as caches that are filled for the first time rely on; OpenVINO has no such operation.
    """
    graph = program.graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default):
        operands = list(node.args[0])
        values = [operand.meta["val"] for operand in operands]
        empty = [operand for operand, value in zip(operands, values, strict=True) if _is_empty_vector(value)]
        kept = [operand for operand in operands if operand not in empty]
        if not empty or all(value.dim() == 1 for value in values):
            continue
        if any(operand.meta["val"].dtype != node.meta["val"].dtype for operand in kept):
            continue  # the empty one has a say in the result's type
        # The node stays, with its name: the program's signature may have it as an output.
        if len(kept) == 1:
            node.target = torch.ops.aten.clone.default
            node.args, node.kwargs = (kept[0],), {}
        else:
            node.args = (kept, *node.args[1:])
        for operand in empty:
            _erase_unused(graph, operand)
    program.graph_module.recompile()


def _is_empty_vector(value: torch.Tensor) -> bool:
    return value.dim() == 1 and isinstance(value.shape[0], int) and value.shape[0] == 0


def _erase_unused(graph: Any, node: Any) -> None:
    if node.users or node.op != "call_function":
        return
    inputs = node.all_input_nodes
    graph.erase_node(node)
    for each in inputs:
        _erase_unused(graph, each)
