"""The examples of the README do what they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(language):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_python_example(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPHTUNE_CACHE_DIR", str(tmp_path / "cache"))
    (code,) = blocks("python")
    # The example measures for as long as it likes; the test need not.
    code = code.replace("batch_sizes=[1, 2, 4, 8]", "batch_sizes=[1, 2, 4, 8], measure_seconds=2, force='openvino'")
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "torch.Size([3, 4])" in printed
    assert "torch.Size([5, 4])" in printed
    assert "'openvino': 1" in printed
    assert (tmp_path / "classifier.bundle" / "manifest.json").is_file()


def test_cpp_example_is_the_one_that_is_built():
    source = (ROOT / "examples" / "cpp" / "classify.cpp").read_text(encoding="utf-8")
    assert source in blocks("cpp")
