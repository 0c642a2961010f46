"""Watches the modules of a model while it runs: calls, execution graphs and times, by hooks that are taken off."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from . import _core
from .config import config
from .errors import GraphtuneValueError
from .recording import RecordingModule, signature_of

__all__ = ["ModuleWatch", "Watched"]


class Watched:
    """What one module did: ``total_seconds`` with all that it called, ``own_seconds`` without the modules within."""

    def __init__(self, module: torch.nn.Module | None) -> None:
        self.module = module
        self.calls = 0
        self.total_seconds = 0.0
        self.own_seconds = 0.0
        self.problem = ""  # why some calls are in no graph
        self._recorder: Any = None
        if module is not None:
            signature = module.signature if isinstance(module, RecordingModule) else signature_of(module)
            strict = module.strict if isinstance(module, RecordingModule) else config.strict_mode
            self._recorder = _core.CallRecorder(signature, strict, 0, config.max_graphs)

    @property
    def graph_specs(self) -> list[Any]:
        return list(self._recorder.graphs()) if self._recorder is not None else []

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return self._recorder.begin(args, kwargs)
        except GraphtuneValueError as error:
            self.problem = str(error)
            return None

    def finish(self, call: Any, outputs: Any) -> None:
        if call is None:
            return
        try:
            self._recorder.finish(call, outputs)
        except GraphtuneValueError as error:
            self.problem = str(error)


class _Frame:
    """A call under way. ``overhead`` is what hooks had taken in its thread when it began."""

    def __init__(self, watched: Watched, call: Any) -> None:
        self.watched = watched
        self.call = call
        self.inner_seconds = 0.0
        self.started = 0.0
        self.overhead = 0.0


class _Thread(threading.local):
    def __init__(self) -> None:
        self.frames: list[_Frame] = []
        self.overhead = 0.0


class ModuleWatch:
    """Watches ``modules`` while ``hooks()`` is entered, and what runs within ``run()`` as a whole.

    Calls may come from several threads; each has its own nesting. Modules that are called from within compiled code
    are not seen.
    """

    def __init__(self, modules: Sequence[torch.nn.Module]) -> None:
        self.whole = Watched(None)
        self._watched = {id(module): Watched(module) for module in modules}
        self._thread = _Thread()
        self._lock = threading.Lock()

    def __getitem__(self, module: torch.nn.Module) -> Watched:
        return self._watched[id(module)]

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        """Hooks on every module, taken off at the end whatever happened."""
        with contextlib.ExitStack() as stack:
            for watched in self._watched.values():
                module = watched.module
                assert module is not None
                before = module.register_forward_pre_hook(self._before, prepend=True, with_kwargs=True)
                stack.callback(before.remove)
                # A call that raises has no result, but has to end too.
                returned = module.register_forward_hook(self._returned)
                stack.callback(returned.remove)
                ended = module.register_forward_hook(self._ended, always_call=True)
                stack.callback(ended.remove)
            yield

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """The whole: its time without that of the modules is its own."""
        frame = _Frame(self.whole, None)
        self._push(frame)
        try:
            yield
        finally:
            self._pop(frame)

    def _before(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        started = time.perf_counter()
        watched = self._watched[id(module)]
        frame = _Frame(watched, watched.begin(args, kwargs))
        self._thread.overhead += time.perf_counter() - started
        self._push(frame)

    def _returned(self, module: torch.nn.Module, args: tuple[Any, ...], outputs: Any) -> None:
        started = time.perf_counter()
        watched = self._watched[id(module)]
        frames = self._thread.frames
        if frames and frames[-1].watched is watched:
            watched.finish(frames[-1].call, outputs)
        self._thread.overhead += time.perf_counter() - started

    def _ended(self, module: torch.nn.Module, args: tuple[Any, ...], outputs: Any) -> None:
        watched = self._watched[id(module)]
        frame = next((each for each in reversed(self._thread.frames) if each.watched is watched), None)
        if frame is not None:
            self._pop(frame)

    def _push(self, frame: _Frame) -> None:
        self._thread.frames.append(frame)
        frame.overhead = self._thread.overhead
        frame.started = time.perf_counter()

    def _pop(self, frame: _Frame) -> None:
        seconds = time.perf_counter() - frame.started - (self._thread.overhead - frame.overhead)
        frames = self._thread.frames
        while frames.pop() is not frame:  # what ended without a word, as by KeyboardInterrupt
            pass
        if frames:
            frames[-1].inner_seconds += seconds
        watched = frame.watched
        with self._lock:
            watched.calls += 1
            watched.own_seconds += seconds - frame.inner_seconds
            # A call within another of the same module is part of that one's time.
            if all(each.watched is not watched for each in frames):
                watched.total_seconds += seconds
