"""What a model does to the containers among its arguments (a cache that grows), and how a tuned call does the same.

An engine takes tensors and gives tensors. So a run of the model on a copy of a recorded call shows which containers
hold something else afterwards, and which of them the result holds. That becomes the form of the graph's changes:
``(result, [(container, its new children, context), ...])``, in which an ``Argument`` stands for a container of the
caller's, and placeholders for the tensors that an engine gives or that were inputs. A tuned call builds it from the
caller's own objects, and ``carry_out`` puts the children into them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _core
from .constants import type_name
from .recording import is_traced
from .types import Contents, contents, updater, with_children

__all__ = ["Argument", "ArgumentChanges", "ChangeError", "carry_out", "find_changes"]


class ChangeError(Exception):
    """Why a tuned call could not do to its arguments what the model does."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """In a form: the container at this node of a call, in canonical order."""

    node: int


def carry_out(form: tuple[Any, list[tuple[Any, Any, str | None]]]) -> Any:
    """Puts the new children into the caller's containers, which stand where the form had an ``Argument``, and gives
    the result."""
    result, changes = form
    for container, children, context in changes:
        update = updater(type(container))
        assert update is not None  # else the graph would not have been tuned
        update(container, children, context)
    return result


class _WatchedCall:
    """A call with the containers that it holds, as they were before the model ran."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], signature: Any) -> None:
        found = _core.call_containers(args, kwargs, signature)
        self.containers = {node: container for node, (container, _) in found.items()}
        self.places = {node: place for node, (_, place) in found.items()}
        self.inputs = list(_core.call_tensors(args, kwargs, signature))
        self._before = {node: contents(container) for node, container in self.containers.items()}
        # What is made anew each time that it is read tells nothing.
        self._silent = {node for node in self._before if not self._is_as_before(node)}

    def changed(self) -> list[int]:
        """Nodes of the containers that hold something else by now."""
        return [node for node in self.containers if node not in self._silent and not self._is_as_before(node)]

    def children_of(self, nodes: Sequence[int]) -> list[list[Any]]:
        return [_contents_of(self.containers[node]).children for node in nodes]

    def fingerprint(self) -> tuple[Any, ...]:
        """The same for two calls that change the same, of whatever sizes."""
        nodes = self.changed()
        children = self.children_of(nodes)
        places = {id(tensor): place for place, tensor in enumerate(self.inputs)}
        tensors = _core.result_tensors(children)
        return tuple(nodes), _core.key_of(children), tuple(places.get(id(tensor)) for tensor in tensors)

    def _is_as_before(self, node: int) -> bool:
        before, now = self._before[node], contents(self.containers[node])
        if before is None or now is None:
            return before is now
        return (
            before.context == now.context
            and before.steps == now.steps
            and all(_is_same(old, new) for old, new in zip(before.children, now.children, strict=True))
        )


def _contents_of(container: Any) -> Contents:
    found = contents(container)
    assert found is not None  # it was walked as a container
    return found


def _is_same(old: Any, new: Any) -> bool:
    if old is new:
        return True
    is_leaf = not isinstance(old, torch.Tensor) and contents(old) is None
    return is_leaf and type(old) is type(new) and _core.key_of(old) == _core.key_of(new)


class ArgumentChanges:
    """What a graph's calls do to their arguments, as one call showed it."""

    def __init__(self, call: _WatchedCall, signature: Any, outputs: Any) -> None:
        self._signature = signature
        self._fingerprint = call.fingerprint()
        self._nodes = call.changed()
        for node in self._nodes:
            _check_can_change(call.containers[node], call.places[node])
        self.problem = ""  # why they are not the same at other sizes, once that was seen
        children = call.children_of(self._nodes)
        results = list(_core.result_tensors(outputs))
        maker = _FormMaker(call, results)
        changes = [
            (Argument(node), maker.of(held.named()), held.context)
            for node in self._nodes
            for held in [_contents_of(call.containers[node])]
        ]
        self.form = (maker.of(outputs), changes)
        self.extra_names = [f"a tensor that forward puts into its arguments ({i})" for i in range(len(maker.extra))]
        everywhere = {id(tensor): place for place, tensor in reversed(list(enumerate(_core.result_tensors(children))))}
        self._extra = [everywhere[id(tensor)] for tensor in maker.extra]
        in_result = set(_container_ids(outputs))
        hidden = [node for node in self._nodes if id(call.containers[node]) not in in_result]
        try:
            self.stored = _core.ArgumentChanges(
                self.form,
                [maker.sources[id(tensor)] for tensor in _core.result_tensors(self.form)],
                len(self._extra),
                call.places[hidden[0]] if hidden else "",
            )
        except ValueError as error:
            raise ChangeError(f"forward changes its arguments, and leaves there {error}") from error
        self.is_needed = bool(changes) or maker.found_argument

    @property
    def changes_something(self) -> bool:
        return bool(self._nodes)

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], list[torch.Tensor]]:
        """Before the model runs on a call. What is given gives, after it ran, the tensors that an engine has to give
        besides the result's."""
        if is_traced():
            found = _core.call_containers(args, kwargs, self._signature)
            containers = [found[node][0] for node in self._nodes]
            return lambda: self._extra_of([_contents_of(container).children for container in containers])
        call = _WatchedCall(args, kwargs, self._signature)

        def finish() -> list[torch.Tensor]:
            if call.fingerprint() != self._fingerprint:
                self.problem = (
                    "forward changes its arguments in one way at some sizes and in another at others, where an engine "
                    "does always the same: return what is new instead"
                )
                raise ChangeError(self.problem)
            return self._extra_of(call.children_of(self._nodes))

        return finish

    def _extra_of(self, children: list[list[Any]]) -> list[torch.Tensor]:
        tensors = _core.result_tensors(children)
        return [tensors[place] for place in self._extra]


class _FormMaker:
    """Makes forms of what a call's result and containers hold."""

    def __init__(self, call: _WatchedCall, results: Sequence[torch.Tensor]) -> None:
        # A tuple can't be changed: which one it is makes no difference.
        self._arguments = {id(each): node for node, each in call.containers.items() if not isinstance(each, tuple)}
        self._known = {id(tensor): place for place, tensor in reversed(list(enumerate(results)))}
        self._known |= {id(tensor): -1 - place for place, tensor in enumerate(call.inputs)}
        self._first_extra = len(results)
        self._kept: list[torch.Tensor] = []  # ids are of living objects only
        self.sources: dict[int, int] = {}  # by id of a placeholder
        self.extra: list[torch.Tensor] = []
        self.found_argument = False

    def of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._placeholder(value)
        node = self._arguments.get(id(value))
        if node is not None:
            self.found_argument = True
            return Argument(node)
        held = contents(value)
        return value if held is None else with_children(value, [self.of(child) for child in held.children])

    def _placeholder(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._known:
            self._known[id(tensor)] = self._first_extra + len(self.extra)
            self.extra.append(tensor)
        placeholder = torch.empty(0, dtype=tensor.dtype)
        self._kept.append(placeholder)
        self.sources[id(placeholder)] = self._known[id(tensor)]
        return placeholder


def _check_can_change(container: Any, place: str) -> None:
    if updater(type(container)) is None:
        raise ChangeError(
            f"forward changes its argument {place}, and graphtune can't change a {type_name(type(container))}: return "
            "what is new instead, or say how with graphtune.register_type(…, update=…)"
        )


def _container_ids(value: Any) -> list[int]:
    held = contents(value)
    if held is None:
        return []
    return [id(value), *(each for child in held.children for each in _container_ids(child))]


def find_changes(
    model: torch.nn.Module,
    signature: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    recorded: tuple[int, str, str] | None,
) -> ArgumentChanges | None:
    """What the model does to the arguments of a call, which are changed by that; None when it holds no containers.

    ``recorded`` is what it did to those of the recorded calls (``CallRecorder.change``). Raises ``ChangeError`` where
    this call shows something else, and where it is nothing that a tuned call could do.
    """
    if not _core.call_containers(args, kwargs, signature):
        return None
    call = _WatchedCall(args, kwargs, signature)
    recorder = _core.CallRecorder(signature, True, 1, 1)
    with torch.no_grad():
        begun = recorder.begin(args, kwargs)
        assert begun is not None  # nothing is traced here
        try:
            outputs = model(*args, **kwargs)
        except Exception as error:  # whatever the model's code runs into
            raise ChangeError(f"the model fails on its own sample: {type(error).__name__}: {error}") from error
        recorder.finish(begun, outputs)
    seen = recorder.change(0)
    if (seen and seen[0]) != (recorded and recorded[0]):
        _, place, kind = recorded or seen or (0, "", "")
        raise ChangeError(
            f"forward changes its argument {place} (a {kind}) in recorded calls in another way than in a copy of one "
            "where every container is given once: return what is new instead"
        )
    return ArgumentChanges(call, signature, outputs)
