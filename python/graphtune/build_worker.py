"""`python -m graphtune.build_worker JOB.json`: builds one engine and writes what came of it beside the job."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from .process_group import die_with_parent


def _reason(error: BaseException, limit: int = 300) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {' '.join(lines)}" if lines else type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _write(path: Path, data: dict[str, Any]) -> None:
    """Writes a file that is there whole or not at all."""
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(data, indent=1))
    beside.replace(path)


def main(job_file: str) -> int:
    die_with_parent()
    job = json.loads(Path(job_file).read_text())
    folder = Path(job["output"])
    try:
        module, _, name = job["function"].partition(":")
        engine = getattr(importlib.import_module(module), name)(job)
        _write(folder / "engine.json", engine)
    except Exception as error:  # whatever a compiler raises is the reason that goes into the report
        traceback.print_exc()
        _write(folder / "build_result.json", {"error": _reason(error)})
        return 1
    _write(folder / "build_result.json", {"done": True})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
