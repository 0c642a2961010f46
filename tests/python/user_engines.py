"""Engines that a user might write, good and bad; processes that build and measure import them from here."""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

Function = Callable[[list[torch.Tensor]], list[torch.Tensor]]


class Interpreter:
    """Runs the exported program as it is, one operator after another."""

    factor = 1.0

    def build(self, job: Mapping[str, Any]) -> dict[str, Any]:
        shutil.copyfile(job["program"], Path(job["output"]) / "program.pt2")
        return {"file": "program.pt2", "options": {"note": "hello"}, "versions": {"interpreter": "1.0"}}

    def load(self, folder: Path, options: Mapping[str, Any]) -> Function:
        assert options["note"] == "hello"
        assert isinstance(options["threads"], int)
        program = torch.export.load(str(folder / "program.pt2")).module()
        return lambda tensors: [
            result * self.factor if result.is_floating_point() else result for result in program(*tensors)
        ]

    @staticmethod
    def version() -> str:
        return "interpreter 1.0"


class TwoPercentOff(Interpreter):
    factor = 1.02


class Unavailable(Interpreter):
    @staticmethod
    def unavailable_reason() -> str:
        return "no such device"


class ReusesMemory(Interpreter):
    """Gives the same tensors each time, as static buffers are."""

    def load(self, folder: Path, options: Mapping[str, Any]) -> Function:
        inner = super().load(folder, options)
        kept: dict[Any, list[torch.Tensor]] = {}

        def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            results = inner(tensors)
            known = kept.setdefault(tuple(result.shape for result in results), results)
            for place, result in zip(known, results, strict=True):
                place.copy_(result)
            return known

        return run


class TakesTurns(Interpreter):
    """Fails when two calls are in it at once."""

    def load(self, folder: Path, options: Mapping[str, Any]) -> Function:
        inner = super().load(folder, options)
        inside = threading.Semaphore(1)

        def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            if not inside.acquire(blocking=False):
                raise RuntimeError("two calls at once")
            try:
                time.sleep(0.001)
                return inner(tensors)
            finally:
                inside.release()

        return run


class RaisesInBuild(Interpreter):
    def build(self, job: Mapping[str, Any]) -> dict[str, Any]:
        raise NotImplementedError("no kernel for this")


class RaisesInLoad(Interpreter):
    def load(self, folder: Path, options: Mapping[str, Any]) -> Function:
        raise OSError("no licence\nfound")


class RaisesInRun(Interpreter):
    def load(self, folder: Path, options: Mapping[str, Any]) -> Function:
        def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            raise ValueError("cannot do this")

        return run


class GivesNoList(Interpreter):
    def load(self, folder: Path, options: Mapping[str, Any]) -> Function:
        return lambda tensors: tensors[0]  # type: ignore[return-value]


class HangsInLoad(Interpreter):
    def load(self, folder: Path, options: Mapping[str, Any]) -> Function:
        time.sleep(600)
        raise AssertionError


def is_measured() -> bool:
    """Whether this is the process that validates and measures; nothing bad may happen in the test's own."""
    return bool(os.environ.get("GRAPHTUNE_PARENT_IS_MAIN_THREAD"))


class CrashesInRun(Interpreter):
    def load(self, folder: Path, options: Mapping[str, Any]) -> Function:
        def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            assert is_measured()
            ctypes.string_at(0)
            return tensors

        return run


class CrashesWhenItIsMeasured(Interpreter):
    """Is well where it is built, and dies where it is validated."""

    def load(self, folder: Path, options: Mapping[str, Any]) -> Function:
        inner = super().load(folder, options)
        if (Path(folder) / "build_job.json").exists():
            return inner
        assert is_measured()
        ctypes.string_at(0)
        return inner


class FailsLater(Interpreter):
    """Serves until it is told to fail, by a variable of this module."""

    fails = False
    interrupts = False

    def load(self, folder: Path, options: Mapping[str, Any]) -> Function:
        inner = super().load(folder, options)

        def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            if FailsLater.interrupts:
                raise KeyboardInterrupt
            if FailsLater.fails:
                raise RuntimeError("out of luck")
            return inner(tensors)

        return run


class NotAnEngine:
    def build(self, job: Mapping[str, Any]) -> dict[str, Any]:
        return {}
