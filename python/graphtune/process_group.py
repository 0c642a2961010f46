"""Processes that run in a session of their own, so that all that they start can be stopped, counted and ended."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = [
    "available_memory",
    "die_with_parent",
    "end_group",
    "group_memory",
    "last_lines",
    "peak_memory",
    "signal_group",
    "signal_name",
    "start_python",
]

_FROM_MAIN_THREAD = "GRAPHTUNE_PARENT_IS_MAIN_THREAD"


def start_python(
    arguments: Sequence[str],
    log: Path,
    pass_fds: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Starts this Python on other arguments, in its own session, with this process's import path."""
    paths = [str(Path(__file__).absolute().parents[1]), *(str(Path(entry).absolute()) for entry in sys.path)]
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        _FROM_MAIN_THREAD: str(int(threading.current_thread() is threading.main_thread())),
        **(environment or {}),
    }
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=stdin,
            stdout=output,
            stderr=output,
            env=variables,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )


def die_with_parent() -> None:
    """Called in a child: the kernel ends it when its parent is gone, even while it is stopped."""
    # The kernel means the thread that started us: where that is not the main one, it may end long before its process.
    if sys.platform != "linux" or os.environ.get(_FROM_MAIN_THREAD) != "1":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> bool:
    """Signals a child and all of its group; False where none is left."""
    try:
        os.killpg(process.pid, number)  # the child leads its session: its group has its id
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a child with all of its group, and reaps it."""
    signal_group(process, signal.SIGKILL)
    for member in _members(process.pid):
        # A compiler that made a group of its own is still of our session.
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def _members(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in brackets may hold anything; the session is the fourth field behind it.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, UnicodeDecodeError):
            continue  # gone since it was listed
        if len(fields) > 3 and int(fields[3]) == session:
            found.append(int(entry.name))
    return found


def group_memory(process: subprocess.Popen[bytes]) -> int:
    """Bytes of memory that a child's session holds now."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for member in _members(process.pid):
        try:
            total += int(Path(f"/proc/{member}/statm").read_text().split()[1]) * page
        except (OSError, IndexError):
            continue  # ended meanwhile
    return total


def peak_memory() -> int:
    """Bytes that this process held at most.

    ``getrusage`` won't do: what it gives also counts the process that this one was forked from.
    """
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise OSError("/proc/self/status has no VmHWM")
    return int(found[1]) * 1024


def available_memory() -> int:
    """Bytes of memory that this machine, or this container, has in all."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def signal_name(return_code: int) -> str:
    """How a process ended: "SIGSEGV", or "exit status 3"."""
    if return_code >= 0:
        return f"exit status {return_code}"
    try:
        return signal.Signals(-return_code).name
    except ValueError:
        return f"signal {-return_code}"


def last_lines(log: Path, count: int = 5, limit: int = 2000) -> list[str]:
    """The last lines of a log that say something."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 64 * 1024))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [line[:limit] for line in lines[-count:]]
