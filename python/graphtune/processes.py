"""Worker processes: commands go in and results come out as lines of JSON; tensors go by files.

A worker runs `function(setup)`, named as "module:function", which gives a handler:
`handler(command, payload) -> result`. It can be paused with all its threads, so that another may have the machine to
itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from .process_group import end_group, last_lines, signal_group, signal_name, start_python

__all__ = ["Worker", "WorkerDied", "WorkerError", "WorkerFailure", "WorkerTimeout"]


class WorkerFailure(RuntimeError):  # noqa: N818 - the base of the three below
    """A command that a worker did not carry out."""


class WorkerError(WorkerFailure):
    """The worker raised; it goes on living. `kind` is the exception's type, `details` its traceback."""

    def __init__(self, message: str, kind: str, details: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = details


class WorkerDied(WorkerFailure):
    """The worker is gone: `ending` says how ("SIGSEGV", "exit status 3"), `last_lines` what it said last."""

    def __init__(self, message: str, ending: str, last: list[str]) -> None:
        super().__init__(message)
        self.ending = ending
        self.last_lines = last


class WorkerTimeout(WorkerFailure):
    """The worker did not reply in time and was ended."""


class Worker:
    """One worker process. Not for use by several threads at once."""

    def __init__(
        self,
        function: str,
        setup: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        start_timeout_s: float = 120.0,
        reply_timeout_s: float = 120.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the process and waits until `function(setup)` has given its handler."""
        self.name = name or function
        self.reply_timeout_s = reply_timeout_s
        self.paused = False
        self._failure: WorkerFailure | None = None
        self._buffer = b""
        log, self._log = tempfile.mkstemp(prefix="graphtune-worker-", suffix=".log")
        os.close(log)
        self._replies, child_end = os.pipe()
        try:
            self._process = start_python(
                ["-m", "graphtune.worker_main", str(child_end)],
                Path(self._log),
                pass_fds=(child_end,),
                environment=environment,
                stdin=subprocess.PIPE,
            )
        except BaseException:
            os.close(self._replies)
            Path(self._log).unlink(missing_ok=True)
            raise
        finally:
            os.close(child_end)  # ours: so that the pipe ends when the worker does
        try:
            self._exchange({"function": function, "setup": dict(setup or {})}, start_timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._failure is None

    def call(self, command: str, timeout_s: float | None = None, **payload: Any) -> Any:
        """The handler's result for a command. A paused worker is woken for it, and stays awake."""
        if self._failure is not None:
            raise self._failure
        self.resume()
        return self._exchange(
            {"command": command, "payload": payload}, self.reply_timeout_s if timeout_s is None else timeout_s
        )

    def pause(self) -> None:
        """Stops the process with all its threads, until `resume` or the next call."""
        if not self.paused and self._failure is None:
            signal_group(self._process, signal.SIGSTOP)
            self.paused = True

    def resume(self) -> None:
        if self.paused:
            signal_group(self._process, signal.SIGCONT)
            self.paused = False

    def close(self) -> None:
        """Lets the worker end, and ends it with all it started if it does not."""
        if self._replies < 0:
            return
        self.resume()
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()  # the worker's loop ends with its input
            self._process.wait(timeout=2)
        except (OSError, subprocess.TimeoutExpired):
            pass  # it is ended now
        finally:
            end_group(self._process)
            os.close(self._replies)
            self._replies = -1
            self._failure = self._failure or WorkerFailure(f"{self.name}: the worker is closed")
            Path(self._log).unlink(missing_ok=True)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _exchange(self, message: Mapping[str, Any], timeout_s: float) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ConnectionResetError):
            raise self._died() from None
        try:
            reply = json.loads(self._read_line(time.monotonic() + timeout_s, timeout_s))
        except KeyboardInterrupt:
            # Its reply would be taken for that of the next command.
            self._failure = WorkerFailure(f"{self.name}: interrupted")
            end_group(self._process)
            raise
        if "error" in reply:
            error = reply["error"]
            text = f"{self.name}: {error['kind']}: {error['message']}"
            raise WorkerError(text, error["kind"], error["traceback"])
        return reply["result"]

    def _read_line(self, deadline: float, timeout_s: float) -> bytes:
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                end_group(self._process)
                self._failure = WorkerTimeout(f"{self.name}: no reply within {timeout_s:g} s; the worker was ended")
                raise self._failure
            part = os.read(self._replies, 1 << 16)
            if not part:
                raise self._died()
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _died(self) -> WorkerDied:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)  # it has closed its pipes: its end is near
        end_group(self._process)
        ending = signal_name(self._process.returncode)
        last = last_lines(Path(self._log))
        said = f": {last[-1]}" if last else ""
        died = WorkerDied(f"{self.name}: the worker died of {ending}{said}", ending, last)
        self._failure = died
        return died
