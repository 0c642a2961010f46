"""What compilers and engines sometimes do; the tests run these in processes of their own."""

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path


def build_well(job):
    (Path(job["output"]) / "weights").mkdir(exist_ok=True)
    (Path(job["output"]) / "weights" / "model.bin").write_text(job["options"].get("text", "x"))
    return {"format": 1, "backend": job["backend"]}


def build_and_raise(job):
    raise NotImplementedError("the op frobnicate\nis not known")


def build_and_hang(job):
    # What it started must end with it.
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (Path(job["output"]) / "child.pid").write_text(str(child.pid))
    time.sleep(600)


def build_and_crash(job):
    print("about to dereference", file=sys.stderr, flush=True)
    ctypes.string_at(0)


def build_and_exit(job):
    os._exit(7)


def build_and_eat_memory(job):
    eaten = []
    while True:
        eaten.append(bytearray(os.urandom(1) * (64 << 20)))
        time.sleep(0.02)


def build_and_take_memory(job):
    """Enough that two at a time are too many for 1 GiB."""
    taken = bytearray(600 << 20)
    taken[:: 1 << 12] = b"x" * len(taken[:: 1 << 12])
    time.sleep(4)
    return build_well(job)


def echo_worker(setup):
    def handle(command, payload):
        if command == "crash":
            print("last words", file=sys.stderr, flush=True)
            ctypes.string_at(0)
        if command == "hang":
            time.sleep(600)
        if command == "raise":
            raise ValueError("no such size: 7")
        if command == "print":
            print("noise on stdout", flush=True)
        if command == "count":
            setup["count"] = setup.get("count", 0) + 1
        return {"command": command, "pid": os.getpid(), **setup, **payload}

    return handle


def broken_worker(setup):
    raise FileNotFoundError("model.pt2 is missing")


def ticking_worker(setup):
    """Writes a growing number to a file until it ends."""
    import threading

    def tick():
        for count in range(10**9):
            Path(setup["file"]).write_text(str(count))
            time.sleep(0.005)

    threading.Thread(target=tick, daemon=True).start()
    return lambda command, payload: None


def worker_with_sets(setup):
    return lambda command, payload: {1, 2}


def timing_worker(setup):
    """Says that its calls take so many seconds."""
    return lambda command, payload: [setup["seconds"]] * payload["n_calls"]
