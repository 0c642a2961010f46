"""`python -m graphtune.worker_main FD`: the other side of processes.Worker; replies are written to FD."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import IO, Any

from .process_group import die_with_parent


def _reply_to(replies: IO[str], action: Any) -> Any:
    """Runs an action and sends its result, or its error."""
    try:
        result = action()
        line = json.dumps({"result": None if callable(result) else result})
    except Exception as error:  # whatever it is, it is the parent that decides
        said = {"kind": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
        replies.write(json.dumps({"error": said}) + "\n")
        replies.flush()
        return None
    replies.write(line + "\n")
    replies.flush()
    return result


def main(descriptor: int) -> int:
    die_with_parent()
    with os.fdopen(descriptor, "w") as replies:
        start = json.loads(sys.stdin.readline() or "null")
        if start is None:
            return 0

        def load() -> Any:
            module, _, name = start["function"].partition(":")
            return getattr(importlib.import_module(module), name)(start["setup"])

        handler = _reply_to(replies, load)
        if handler is None:
            return 1
        for line in sys.stdin:
            message = json.loads(line)
            _reply_to(replies, lambda message=message: handler(message["command"], message["payload"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
