"""Builds are found again by what they were made from, and never when damaged."""

import pytest
import torch
from graphtune.cache import BuildCache, cache_folder, fingerprint


def program(scale=1.0):
    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((3,), scale, dtype=torch.bfloat16))

        def forward(self, x):
            return x * self.weight

    return torch.export.export(Scale().eval(), (torch.ones(2, 3, dtype=torch.bfloat16),))


@pytest.fixture
def cache(tmp_path):
    return BuildCache(tmp_path)


def build(cache, key, text="engine"):
    receipt = {"seconds": 1.5}
    with cache.stage(key) as staging:
        (staging.engine / "model.bin").write_text(text)
        return staging.keep(receipt), receipt


def test_fingerprint_depends_on_weights():
    assert fingerprint(program(1.0)) == fingerprint(program(1.0))
    assert fingerprint(program(1.0)) != fingerprint(program(2.0))


def test_key_depends_on_every_fact(cache):
    base = ("p", "aoti", {"freezing": True}, {"torch": "2"})
    keys = {
        cache.key(*base),
        cache.key("q", *base[1:]),
        cache.key("p", "openvino", *base[2:]),
        cache.key("p", "aoti", {"freezing": False}, base[3]),
        cache.key(*base[:3], {"torch": "3"}),
    }
    assert len(keys) == 5
    assert cache.key(*base) == cache.key(*base)


def test_build_is_found_again(cache):
    assert cache.find("k") is None
    folder, receipt = build(cache, "k")
    assert (folder / "model.bin").read_text() == "engine"
    assert cache.find("k") == (folder, receipt)


@pytest.mark.parametrize("damage", ["truncate", "change", "remove", "receipt"])
def test_damaged_build_is_absent_and_built_anew(cache, damage):
    folder, _ = build(cache, "k")
    file = folder / "model.bin"
    if damage == "truncate":
        file.write_text("eng")
    elif damage == "change":
        file.write_text("Engine")
    elif damage == "remove":
        file.unlink()
    else:
        (folder.parent / "build.json").write_text("[")
    assert cache.find("k") is None
    build(cache, "k", "again")
    assert cache.find("k") is not None


def test_a_failed_build_leaves_nothing(cache, tmp_path):
    with pytest.raises(RuntimeError), cache.stage("k") as staging:
        (staging.engine / "half").write_text("x")
        raise RuntimeError("no")
    assert cache.find("k") is None
    assert not any((tmp_path / "builds").iterdir())


def test_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("GRAPHTUNE_CACHE_DIR", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("GRAPHTUNE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "graphtune"
