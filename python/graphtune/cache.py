"""Built engines, kept between runs by what they were built from."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

__all__ = ["BuildCache", "Staging", "cache_folder", "fingerprint", "update_digest"]

_RECEIPT = "build.json"


def cache_folder() -> Path:
    """Where engines are kept: ``GRAPHTUNE_CACHE_DIR``, else ``graphtune`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    chosen = os.environ.get("GRAPHTUNE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphtune"


def fingerprint(program: torch.export.ExportedProgram) -> str:
    """SHA-256 over an exported program: its graph, ranges, signature, weights and constants."""
    digest = hashlib.sha256()
    for part in (program.graph, program.graph_signature, sorted(map(str, program.range_constraints.items()))):
        digest.update(str(part).encode())
    tensors: dict[str, Any] = {**program.state_dict, **program.constants}
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(name.encode())
        if isinstance(value, torch.Tensor):
            update_digest(digest, value)
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()


def update_digest(digest: Any, tensor: torch.Tensor) -> None:
    """Adds a tensor's type, sizes and bytes to a digest."""
    digest.update(f"{tensor.dtype}{tuple(tensor.shape)}{tensor.device.type}".encode())
    digest.update(_bytes_of(tensor))


def _bytes_of(tensor: torch.Tensor) -> Any:
    if tensor.numel() == 0 or tensor.is_meta:
        return b""
    dense = tensor.detach().cpu().contiguous()
    # A view of the bytes without numpy, which knows neither bfloat16 nor float8.
    return (ctypes.c_char * dense.nbytes).from_address(dense.data_ptr())


class BuildCache:
    """Finished builds under ``folder``, one sub-folder a build, written beside its place and renamed when complete.

    A build is found again by program, backend, options, library versions and processor. Files are checked against
    their sizes and digests before they are used; a damaged build counts as absent. Processes may share a folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder()

    def key(
        self, program_fingerprint: str, backend: str, options: Mapping[str, Any], versions: Mapping[str, str]
    ) -> str:
        facts = {
            "program": program_fingerprint,
            "backend": backend,
            "options": dict(options),
            "versions": dict(versions),
            "machine": [platform.machine(), torch.backends.cpu.get_cpu_capability(), _processor(), *_cuda_devices()],
            "threads": torch.get_num_threads(),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]

    def find(self, key: str) -> tuple[Path, dict[str, Any]] | None:
        """Folder and receipt of a complete, undamaged build."""
        place = self.folder / "builds" / key
        receipt = place / _RECEIPT
        if not receipt.is_file():
            return None
        try:
            facts = json.loads(receipt.read_text(encoding="utf-8"))
            files = facts["files"]
            for name, known in files.items():
                path = place / "engine" / name
                if path.stat().st_size != known["size"] or file_digest(path) != known["sha256"]:
                    return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # damaged: it is built again and replaced
        return place / "engine", facts["receipt"]

    @contextlib.contextmanager
    def stage(self, key: str) -> Iterator[Staging]:
        """A folder to build in, beside the build's place; what was not kept when the context ends is removed."""
        staging = Staging(self, key)
        try:
            yield staging
        finally:
            staging.remove()


class Staging:
    """Where a build is made before it is kept; its engine's files belong into ``engine``."""

    def __init__(self, cache: BuildCache, key: str) -> None:
        self._cache = cache
        self._key = key
        builds = cache.folder / "builds"
        builds.mkdir(parents=True, exist_ok=True)
        self._folder = builds / f".{key}.{os.getpid()}"
        self.remove()
        self.engine = self._folder / "engine"
        self.engine.mkdir(parents=True)

    def keep(self, receipt: Mapping[str, Any]) -> Path:
        """Moves the build to its place, with the receipt and the digests of its files; gives the engine's folder."""
        files = {
            path.relative_to(self.engine).as_posix(): {"size": path.stat().st_size, "sha256": file_digest(path)}
            for path in sorted(self.engine.rglob("*"))
            if path.is_file()
        }
        text = json.dumps({"files": files, "receipt": dict(receipt)}, indent=1, sort_keys=True)
        (self._folder / _RECEIPT).write_text(text, encoding="utf-8")
        place = self._cache.folder / "builds" / self._key
        if place.exists():
            shutil.rmtree(place)
        try:
            self._folder.rename(place)
        except OSError:
            # Another process finished the same build first: its result serves as well.
            if self._cache.find(self._key) is None:
                raise
        return place / "engine"

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cuda_devices() -> list[str]:
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
