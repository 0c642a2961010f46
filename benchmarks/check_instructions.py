"""Counts the instructions of the core's paths under callgrind, and compares them with the stored counts.

    .venv/bin/python benchmarks/check_instructions.py [--update] [--limit 0.05]

Instructions don't depend on what else a machine does, so a path that grew is seen where its time would drown in noise.
They do depend on the compiler: counts of another one are no measure, which ends with exit status 3. Exit status 1 when
a path takes over 5 % more or fewer instructions than stored; after a change that was meant, ``--update`` stores the
new ones (benchmarks/instructions.json).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STORED = Path(__file__).with_name("instructions.json")
BUILD = ROOT / "build" / "release"
PROGRAM = BUILD / "bin" / "graphtune_call_path"
#: Calls of the two runs whose difference counts: what starts and sets up is in both.
FEW, MANY = 1000, 3000


def compiler() -> str:
    """The compiler and the settings that the counts hold for, as CMake has cached them."""
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    entries = dict(re.findall(r"^(CMAKE_CXX_COMPILER|CMAKE_BUILD_TYPE|CMAKE_CXX_FLAGS):\w+=(.*)$", cache, re.MULTILINE))
    shown = subprocess.run([entries["CMAKE_CXX_COMPILER"], "--version"], capture_output=True, text=True, check=True)
    parts = [shown.stdout.splitlines()[0], entries.get("CMAKE_BUILD_TYPE", ""), entries.get("CMAKE_CXX_FLAGS", "")]
    return " ".join(part for part in parts if part)


def collected(path: str, calls: int) -> int:
    with tempfile.NamedTemporaryFile(suffix=".callgrind") as out:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", PROGRAM, path, str(calls)],
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or found is None:
        raise RuntimeError(f"{path} under callgrind ended with {run.returncode}:\n{run.stdout}{run.stderr}")
    return int(found[1])


def instructions(path: str) -> float:
    return (collected(path, MANY) - collected(path, FEW)) / (MANY - FEW)


def count_all() -> dict[str, float]:
    paths = subprocess.run([PROGRAM], capture_output=True, text=True, check=True).stdout.split()
    with ThreadPoolExecutor() as pool:
        return dict(zip(paths, pool.map(instructions, paths), strict=True))


def compare(stored: dict[str, float], found: dict[str, float], limit: float) -> bool:
    """Prints the paths; whether each takes as many instructions as stored, within ``limit``."""
    good = True
    for path in sorted(stored.keys() | found.keys()):
        before, now = stored.get(path), found.get(path)
        if before is None or now is None:
            good = False
            print(f"{path:24} {'is not stored' if before is None else 'is stored, and no longer counted'}")
            continue
        change = now / before - 1
        off = abs(change) > limit
        good = good and not off
        print(f"{path:24} {before:10.0f} {now:10.0f} {change:+7.1%}{'  beyond the limit' if off else ''}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="store the counts of this build")
    parser.add_argument("--limit", type=float, default=0.05, help="largest change, as a share (0.05)")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("callgrind is needed: install valgrind", file=sys.stderr)
        return 2
    by_compiler: dict[str, dict[str, Any]] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    here = compiler()
    if here not in by_compiler and not options.update:
        known = "; ".join(by_compiler) or "none"
        print(f"no counts are stored for {here}, only for: {known}. Store this build's with --update", file=sys.stderr)
        return 3
    found = count_all()
    good = compare(by_compiler.get(here, {}), found, options.limit)
    if options.update:
        by_compiler[here] = {path: round(count, 1) for path, count in found.items()}
        STORED.write_text(json.dumps(by_compiler, indent=2) + "\n", encoding="utf-8")
        print(f"stored for {here}")
        return 0
    if not good:
        print("Where the change is meant: make bench-check UPDATE=--update, and say in the commit why")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
