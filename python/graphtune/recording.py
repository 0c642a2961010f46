"""``RecordingModule``: an ``nn.Module`` around another one that behaves as it and records its calls."""

from __future__ import annotations

import copy
import functools
import inspect
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from graphtune import _core
from graphtune.call_mode import INACTIVE, call_mode
from graphtune.config import config
from graphtune.errors import GraphtuneTypeError, GraphtuneValueError
from graphtune.user_messages import sentence, shorten, warn_user

__all__ = ["RecordedSample", "RecordingModule", "is_traced", "signature_of"]

# What belongs to the wrapper; any other attribute is the wrapped module's.
_OWN = "_graphtune_"
# The wrapper's own hooks run around its calls, the wrapped module's around the calls within.
_OWN_HOOKS = frozenset(
    (
        "_backward_pre_hooks",
        "_backward_hooks",
        "_is_full_backward_hook",
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
    )
)
# Methods that classes override: the wrapped module's own are called.
_DELEGATED = (
    "_apply",
    "_load_from_state_dict",
    "_save_to_state_dict",
    "add_module",
    "apply",
    "bfloat16",
    "buffers",
    "children",
    "compile",
    "cpu",
    "cuda",
    "double",
    "eval",
    "extra_repr",
    "float",
    "get_buffer",
    "get_extra_state",
    "get_parameter",
    "get_submodule",
    "half",
    "load_state_dict",
    "named_buffers",
    "named_children",
    "named_parameters",
    "parameters",
    "register_buffer",
    "register_load_state_dict_post_hook",
    "register_load_state_dict_pre_hook",
    "register_module",
    "register_parameter",
    "register_state_dict_post_hook",
    "register_state_dict_pre_hook",
    "requires_grad_",
    "set_extra_state",
    "set_submodule",
    "share_memory",
    "state_dict",
    "to",
    "to_empty",
    "train",
    "type",
    "xpu",
    "zero_grad",
)
# Looked up on the class by Python: a wrapper has those that the wrapped module has.
_SPECIAL_METHODS = (
    "__contains__",
    "__delitem__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__reversed__",
    "__setitem__",
)

_MAX_NAME = 200


class RecordedSample(NamedTuple):
    """Copies of what one call was given and gave."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any
    batch_size: int | None


def signature_of(module: nn.Module) -> _core.Signature:
    """The parameters of ``forward``, by which calls are normalised."""
    try:
        parameters: Iterable[inspect.Parameter] = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):  # a forward written in C++ may have none
        parameters = (
            inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
            inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
        )
    return _core.Signature(
        (parameter.name, int(parameter.kind), () if parameter.default is parameter.empty else (parameter.default,))
        for parameter in parameters
    )


class _NotSubclassed:
    """First base of the classes that are made here: they are no subclasses of the user's making, so that what a class
    of theirs does with each is not done."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "_graphtune_class" not in vars(cls):
            super().__init_subclass__(**kwargs)


# While some module is of the class.
_classes: weakref.WeakValueDictionary[tuple[type, type], type] = weakref.WeakValueDictionary()


def _class_for(wrapper: type[RecordingModule], wrapped: type) -> type:
    """The wrapper's class for modules of one class: with its special methods, and with its ``forward``'s signature."""
    found = _classes.get((wrapper, wrapped))
    return found or _classes.setdefault((wrapper, wrapped), _make_class(wrapper, wrapped))


def _make_class(wrapper: type[RecordingModule], wrapped: type) -> type:
    members: dict[str, Any] = {
        "__module__": wrapper.__module__,
        "__qualname__": wrapper.__qualname__,
        "__doc__": wrapper.__doc__,
        "_graphtune_class": wrapper,
    }
    for name in _SPECIAL_METHODS:
        if hasattr(wrapped, name):
            members[name] = _delegate(name)

    own_forward = wrapper.forward

    def forward(self: RecordingModule, *args: Any, **kwargs: Any) -> Any:
        return own_forward(self, *args, **kwargs)

    wrapped_forward = inspect.getattr_static(wrapped, "forward", None)
    members["forward"] = functools.wraps(wrapped_forward)(forward) if inspect.isfunction(wrapped_forward) else forward
    metaclass: Any = type(wrapper)
    made: type[RecordingModule] = metaclass(wrapper.__name__, (_NotSubclassed, wrapper), members)
    made._graphtune_made()
    return made


def _delegate(name: str) -> Any:
    def method(self: RecordingModule, *args: Any, **kwargs: Any) -> Any:
        wrapped = self._graphtune_wrapped
        result = getattr(wrapped, name)(*args, **kwargs)
        return self if result is wrapped else result

    method.__name__ = name
    return method


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise GraphtuneTypeError(f"name must be a str, not {type(name).__name__}")
    if not name:
        raise GraphtuneValueError("name must not be empty: reports and bundles call the module by it")
    if len(name) > _MAX_NAME:
        raise GraphtuneValueError(
            f"name has {len(name)} characters, at most {_MAX_NAME} are allowed: {shorten(name)!r}"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise GraphtuneValueError(f"name {name!r} is no Unicode text, which a bundle could not hold: {error}") from None


def _restore(cls: type[RecordingModule], module: nn.Module, state: dict[str, Any]) -> RecordingModule:
    restored = cls(module, name=state["name"], strict=state["strict"])
    for attribute, hooks in state["hooks"].items():
        object.__setattr__(restored, attribute, hooks)
    return restored


def is_traced() -> bool:
    """The call is being compiled, exported or traced: what it does is not a sample."""
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None or _is_traced_by_fx()


def _is_traced_by_fx() -> bool:
    return torch.fx._symbolic_trace.is_fx_symbolic_tracing()


class RecordingModule(nn.Module):
    """Wraps a module and behaves as it: attributes, parameters, ``state_dict`` (with the wrapped module's own keys),
    ``to``, ``train``, special methods. Its calls are recorded: their execution graphs, what their shapes teach, and
    copies of up to ``config.max_num_samples_stored`` samples of new shapes a graph.

        module = RecordingModule(model)
        with graphtune.batch_size(2):
            module(x)
        print(module.graph_specs[0])

    The model gets the caller's own arguments; for the record, calls are normalised by the signature of ``forward``. A
    call that raises is not recorded, nor is one that is traced (``torch.compile``, ``torch.export``,
    ``torch.jit.trace``, ``torch.fx``, transforms of ``torch.func``). A graph whose input is written in place gets an
    ``eager_reason``. Copies and pickles of the wrapper start with an empty record.
    """

    _graphtune_class: type[RecordingModule] | None = None  # of a class that _class_for made: what it was made for
    _graphtune_wrapped: nn.Module
    _graphtune_name: str
    _graphtune_signature: _core.Signature
    _graphtune_recorder: _core.CallRecorder
    _graphtune_samples: dict[int, dict[int, RecordedSample]]
    _graphtune_unrecorded: str

    def __new__(cls, module: nn.Module, *args: Any, **kwargs: Any) -> RecordingModule:
        if not isinstance(module, nn.Module):
            raise GraphtuneTypeError(f"module must be an nn.Module, not {type(module).__name__}")
        if isinstance(module, RecordingModule):
            raise GraphtuneTypeError("module is wrapped already; wrap what it wraps: module.wrapped")
        if "_parameters" not in vars(module):
            raise GraphtuneTypeError(f"module: call super().__init__() in the __init__ of {type(module).__name__}")
        classes: tuple[type, type] = (cls._graphtune_class or cls, type(module))
        return super().__new__(_class_for(*classes))

    def __init__(self, module: nn.Module, name: str | None = None, strict: bool | None = None) -> None:
        super().__init__()
        if name is not None:
            _check_name(name)
        if strict is not None and not isinstance(strict, bool):
            raise GraphtuneTypeError(f"strict must be True, False or None, not {strict!r}")
        own = self.__dict__
        # Everything but hooks on calls is the wrapped module's: the very dicts, which nn.Module's methods work on.
        for attribute in list(own):
            if attribute not in _OWN_HOOKS:
                del own[attribute]
        for attribute in ("_parameters", "_buffers", "_modules"):
            own[attribute] = getattr(module, attribute)
        own["_graphtune_wrapped"] = module
        own["_graphtune_name"] = type(module).__name__[:_MAX_NAME] if name is None else name
        own["_graphtune_signature"] = signature_of(module)
        own["_graphtune_recorder"] = _core.CallRecorder(
            self.signature,
            config.strict_mode if strict is None else strict,
            config.max_num_samples_stored,
            config.max_graphs,
        )
        own["_graphtune_samples"] = {}
        own["_graphtune_unrecorded"] = ""  # why the first call that was not recorded could not be

    @classmethod
    def _graphtune_made(cls) -> None:
        """For classes that are called otherwise than Python does."""

    # Calls

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if is_traced() or call_mode() is INACTIVE:
            return self._graphtune_run_model(args, kwargs)
        return self._graphtune_record(args, kwargs)

    def _graphtune_record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outputs, sample, problem = self._graphtune_recorder.record(self._graphtune_wrapped, args, kwargs)
        self._graphtune_note(sample, problem)
        return outputs

    def _graphtune_note(self, sample: Any, problem: str | None) -> None:
        """Keeps what a recorded call gave to keep, and says what went wrong."""
        if sample is not None:
            graph, place, *parts = sample
            self._graphtune_samples.setdefault(graph, {})[place] = RecordedSample(*parts)
        if problem is not None:
            self._warn_once(problem)

    def _graphtune_run_model(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # fx looks each called module up among the submodules, of which the wrapped one is none.
        wrapped = self._graphtune_wrapped
        return wrapped.forward(*args, **kwargs) if _is_traced_by_fx() else wrapped(*args, **kwargs)

    def _warn_once(self, problem: str) -> None:
        # The model has served the call, and goes on serving: only the record is incomplete.
        if not self._graphtune_unrecorded:
            self.__dict__["_graphtune_unrecorded"] = problem
            warn_user(f"a call of {self.name} could not be recorded: {sentence(problem)} This is said once")

    # What was recorded

    @property
    def wrapped(self) -> nn.Module:
        """The module that was wrapped."""
        return self._graphtune_wrapped

    @property
    def name(self) -> str:
        return self._graphtune_name

    @property
    def strict(self) -> bool:
        """Constants are part of a graph's identity."""
        return self._graphtune_recorder.strict

    @property
    def signature(self) -> _core.Signature:
        return self._graphtune_signature

    @property
    def graph_specs(self) -> list[_core.GraphSpec]:
        """The execution graphs in the order of their first calls, as they are known now."""
        return self._graphtune_recorder.graphs()

    def samples(self, graph: int) -> list[RecordedSample]:
        """The samples kept of a graph (its index in ``graph_specs``): the first ones, and where there were more than
        ``config.max_num_samples_stored``, later ones of rarer batch sizes in the place of some."""
        kept = self._graphtune_samples.get(graph, {})
        return [kept[place] for place in sorted(kept)]

    def clear_recorded(self) -> None:
        """Forgets all graphs and samples."""
        self._graphtune_recorder.clear()
        self._graphtune_samples.clear()
        self.__dict__["_graphtune_unrecorded"] = ""

    # Being the wrapped module

    def __getattr__(self, name: str) -> Any:
        if name.startswith(_OWN) or "_graphtune_wrapped" not in self.__dict__:  # while the wrapper is being made
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.__dict__["_graphtune_wrapped"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith(_OWN) or name in _OWN_HOOKS or "_graphtune_wrapped" not in self.__dict__:
            object.__setattr__(self, name, value)
        elif isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)  # the property's own setter, or its refusal
        else:
            setattr(self._graphtune_wrapped, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._graphtune_wrapped, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._graphtune_wrapped)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._graphtune_wrapped!r})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., RecordingModule], tuple[Any, ...]]:
        hooks = {attribute: self.__dict__[attribute] for attribute in _OWN_HOOKS if attribute in self.__dict__}
        state = {"name": self.name, "strict": self.strict, "hooks": hooks}
        return _restore, (self._graphtune_class, self._graphtune_wrapped, state)

    def _replicate_for_data_parallel(self) -> RecordingModule:
        raise GraphtuneTypeError(
            f"{self.name}: a wrapped module can't be copied to several devices; wrap the parallel one: "
            "graphtune.Module(nn.DataParallel(model))"
        )

    # Else the wrapped module's own would be found, and copy only that.
    def __copy__(self) -> RecordingModule:
        function, arguments = self.__reduce_ex__(4)
        return function(*arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordingModule:
        function, arguments = self.__reduce_ex__(4)
        return function(*copy.deepcopy(arguments, memo))


for _name in _DELEGATED:
    if hasattr(nn.Module, _name):
        setattr(RecordingModule, _name, _delegate(_name))
