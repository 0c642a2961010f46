"""What a model does besides computing its outputs: writes to inputs or state, shared memory, random numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["EagerRun", "StateWatch", "find_random_ops"]

# The outputs, and (output, input, kind) where they share memory.
EagerRun = tuple[list[torch.Tensor], list[tuple[int, int, str]]]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def _state_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters, buffers, and tensors that are plain attributes, by dotted name below the user's model."""
    tensors: dict[str, torch.Tensor] = {}
    for prefix, part in module.named_modules():
        own = {**part._parameters, **part._buffers, **vars(part)}
        for name, value in own.items():
            if isinstance(value, torch.Tensor):
                tensors[_dotted(prefix, name)] = value
    return tensors


def _plain_attributes(module: torch.nn.Module) -> dict[tuple[str, str], Any]:
    return {
        (prefix, name): value
        for prefix, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, _PLAIN)
    }


def _dotted(prefix: str, name: str) -> str:
    # The wrapper's own level is not the user's.
    path = f"{prefix}.{name}" if prefix else name
    return path.removeprefix("model.")


def _storage(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0  # sparse and other tensors without a storage


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or torch.equal(left, right):
        return left.shape == right.shape
    # NaN is unlike itself: compare where either is a number.
    numbers = ~(torch.isnan(left) & torch.isnan(right))
    return torch.equal(left[numbers], right[numbers])


class StateWatch:
    """Runs a module eagerly, notes what it wrote to, and puts its state back as it was."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._attributes = _plain_attributes(module)
        self._tensors = _state_tensors(module)
        parameters = {id(p) for p in module.parameters()}
        # Parameters are written by training only: no copy is kept of them, a write is still seen.
        self._copies = {
            name: tensor.detach().clone() for name, tensor in self._tensors.items() if id(tensor) not in parameters
        }
        self.mutated_inputs: set[int] = set()
        self.mutated_state: set[str] = set()

    def run(self, inputs: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[tuple[int, int, str]]]:
        """The eager outputs (copies) for copies of the inputs, and (output, input, kind) where they share memory."""
        given = [tensor.clone() for tensor in inputs]
        versions = {name: tensor._version for name, tensor in self._tensors.items()}
        input_versions = [tensor._version for tensor in given]
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = list(self._module(*given))
        aliases = []
        for o, output in enumerate(outputs):
            for i, tensor in enumerate(given):
                if output is tensor:
                    aliases.append((o, i, "same"))
                elif _storage(output) and _storage(output) == _storage(tensor):
                    aliases.append((o, i, "view"))
        results = [output.detach().clone() for output in outputs]
        for index, tensor in enumerate(given):
            # Writes through `.data` do not count up the version, so the values are compared too.
            same = _equal(tensor, inputs[index])
            if tensor._version != input_versions[index] or not same:
                self.mutated_inputs.add(index)
        for name, tensor in self._tensors.items():
            if tensor._version != versions[name]:
                self.mutated_state.add(name)
        self.restore()
        return results, aliases

    def restore(self) -> None:
        """Undoes what forward did to buffers and attributes, and notes it."""
        parts = dict(self._module.named_modules())
        for (prefix, name), value in _plain_attributes(self._module).items():
            before = self._attributes.get((prefix, name), _Missing)
            if before is _Missing:
                self.mutated_state.add(_dotted(prefix, name))
                delattr(parts[prefix], name)
            elif value is not before and value != before:
                self.mutated_state.add(_dotted(prefix, name))
                setattr(parts[prefix], name, before)
        now = _state_tensors(self._module)
        for name, copy in self._copies.items():
            tensor = self._tensors[name]
            replaced = now.get(name) is not tensor
            changed = not _equal(tensor, copy)
            if replaced or changed:
                self.mutated_state.add(name)
            if changed:
                with torch.no_grad():
                    tensor.data = copy.clone()
            if replaced:
                prefix, _, attribute = name.rpartition(".")
                owner = parts.get(f"model.{prefix}" if prefix else "model", self._module)
                setattr(owner, attribute, tensor)


class _Missing:
    pass


def find_random_ops(program: Any) -> list[str]:
    """Names of the ops that draw random numbers when they run; a dropout that is off draws none."""
    found = set()
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            tags = getattr(node.target, "tags", ())
            if node.op != "call_function" or torch.Tag.nondeterministic_seeded not in tags:
                continue
            if not _is_off(node):
                found.add(node.target._schema.name.removeprefix("aten::"))
    return sorted(found)


def _is_off(node: Any) -> bool:
    values = {
        argument.name: (node.args[i] if i < len(node.args) else node.kwargs.get(argument.name, argument.default_value))
        for i, argument in enumerate(node.target._schema.arguments)
    }
    off = any(values.get(name) is False for name in ("train", "training"))
    return off or any(values.get(name) == 0 for name in ("p", "dropout_p", "dropout"))
