"""The examples of the README and of docs/cpp.md do what they say."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import graphtune

ROOT = Path(__file__).resolve().parents[2]
# The package lies in the build, beside the C++ library: build/<preset>/python/graphtune.
BUILD = Path(graphtune._core.__file__).parents[2]


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def python_example(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the Python example prints, and the bundle that it saves."""
    folder = tmp_path_factory.mktemp("readme")
    (code,) = blocks("README.md", "python")
    # The example measures for as long as it likes; the test need not.
    quick = "batch_sizes=[1, 2, 4, 8], measure_seconds=1, backends=('openvino',), force='openvino'"
    code = code.replace("batch_sizes=[1, 2, 4, 8]", quick)
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(folder)
        patch.setenv("GRAPHTUNE_CACHE_DIR", str(folder / "cache"))
        exec(compile(code, "README.md", "exec"), {})
    return printed.getvalue(), folder / "classifier.bundle"


def test_python_example(python_example: tuple[str, Path]) -> None:
    printed, bundle = python_example
    assert "torch.Size([3, 4])" in printed
    assert "torch.Size([5, 4])" in printed
    assert "'openvino': 1" in printed
    assert (bundle / "manifest.json").is_file()


Run = Callable[..., str]


@pytest.fixture(scope="module")
def run() -> Run:
    def run(*command: Any) -> str:
        # The engine's libraries are found by the installation alone.
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        done = subprocess.run(
            [str(each) for each in command], capture_output=True, text=True, timeout=300, env=environment, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def compiler() -> str:
    cache = BUILD / "CMakeCache.txt"
    if not cache.is_file() or shutil.which("cmake") is None:
        pytest.skip("graphtune was not built here with CMake")
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def installed(compiler: str, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


def test_cpp_example_serves_the_bundle_of_the_python_example(
    python_example: tuple[str, Path], compiler: str, installed: Path, run: Run, tmp_path: Path
) -> None:
    folder = ROOT / "examples" / "cpp"
    assert (folder / "classify.cpp").read_text(encoding="utf-8") in blocks("README.md", "cpp")
    (recipe,) = blocks("README.md", "cmake")
    assert all(line in (folder / "CMakeLists.txt").read_text(encoding="utf-8") for line in recipe.splitlines())
    options = (f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_PREFIX_PATH={installed}", "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "-S", folder, "-B", tmp_path, *options)
    run("cmake", "--build", tmp_path)

    _, bundle = python_example
    printed = run(tmp_path / "classify", bundle)
    expected = graphtune.load(bundle)(torch.full((3, 16), 0.5))
    shape, first = printed.strip().split(", first ")
    assert shape == "3 x 4"
    assert float(first) == pytest.approx(float(expected[0, 0]), rel=1e-4)

    missing = subprocess.run([tmp_path / "classify", "nowhere"], capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert missing.stderr.startswith("classify: ")
    assert "nowhere" in missing.stderr


def test_cpp_guide_compiles(compiler: str, installed: Path, run: Run, tmp_path: Path) -> None:
    """Each block as the body of a function that is given what the page doesn't make."""
    code = blocks("docs/cpp.md", "cpp")
    assert code
    includes = "".join(re.findall(r"^#include .*\n", "".join(code), re.MULTILINE))
    functions = [
        f"void block_{number}(const graphtune::Tensor& ids, const graphtune::Tensor& mask) {{\n"
        + re.sub(r"^#include .*\n", "", block, flags=re.MULTILINE)
        + "}\n"
        for number, block in enumerate(code)
    ]
    source = tmp_path / "guide.cpp"
    source.write_text(includes + "\n".join(functions), encoding="utf-8")
    run(compiler, "-std=c++20", "-fsyntax-only", f"-I{installed / 'include'}", source)
