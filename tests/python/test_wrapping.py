"""Wrapping the modules of a pipeline in place, and unwrapping them."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from torch import nn

import graphtune
from graphtune import GraphtuneTypeError, GraphtuneValueError


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.parts = nn.ModuleDict({"norm": nn.LayerNorm(4), "list": nn.ModuleList([nn.ReLU(), nn.GELU()])})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts["norm"](self.parts["list"][1](self.linear(x)))


class Pipeline:
    """Modules in all the places that a pipeline may have."""

    def __init__(self) -> None:
        self.encoder = Block().eval()
        self.stages = [nn.Linear(4, 4), nn.Linear(4, 4)]
        self.heads: dict[Any, nn.Module] = {"main": nn.Linear(4, 2), "v1.5": nn.Linear(4, 3), 7: nn.Linear(4, 1)}
        self.nested = types.SimpleNamespace(decoder=Block().eval())
        self.fixed = (nn.Linear(4, 4), self.encoder)
        self.tokenizer = str.split
        self._hidden = nn.Linear(4, 4)
        self.size = 4

    @property
    def hidden(self) -> nn.Module:
        return self._hidden

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads["main"](self.stages[1](self.stages[0](self.encoder(x))))


def is_wrapped(module: Any) -> bool:
    return isinstance(module, graphtune.Module)


PLACES = {
    "encoder": lambda p: p.encoder,
    "encoder.linear": lambda p: p.encoder.linear,
    "encoder.parts.norm": lambda p: p.encoder.parts["norm"],
    "encoder.parts.list.1": lambda p: p.encoder.parts["list"][1],
    "stages.1": lambda p: p.stages[1],
    "heads.main": lambda p: p.heads["main"],
    "heads.v1.5": lambda p: p.heads["v1.5"],
    "heads.7": lambda p: p.heads[7],
    "nested.decoder.linear": lambda p: p.nested.decoder.linear,
    "_hidden": lambda p: p._hidden,
}


@pytest.mark.parametrize("path", PLACES)
def test_a_module_is_wrapped_where_it_is_and_unwrapped_again(path: str) -> None:
    pipeline = Pipeline()
    original = PLACES[path](pipeline)
    x = torch.randn(2, 4)
    with torch.no_grad():
        expected = pipeline(x)
        (module,) = graphtune.wrap(pipeline, path).values()
        assert PLACES[path](pipeline) is module
        assert module.wrapped is original
        assert module.name == path
        torch.testing.assert_close(pipeline(x), expected)
    assert graphtune.unwrap(pipeline) == {path: original}
    assert PLACES[path](pipeline) is original


def test_by_default_the_outermost_modules_are_wrapped() -> None:
    pipeline = Pipeline()
    modules = graphtune.wrap(pipeline, strict=False, miss_policy="error")
    assert list(modules) == [
        "encoder", "stages.0", "stages.1", "heads.main", "heads.v1.5", "heads.7", "nested.decoder", "_hidden"
    ]  # fmt: skip
    assert all(not module.strict and module.miss_policy == "error" for module in modules.values())
    # Of a module, its children; a ModuleList is never called, what it holds is.
    model = nn.Sequential(nn.Linear(4, 4), nn.ModuleList([nn.ReLU()]))
    assert list(graphtune.wrap(model)) == ["0", "1.0"]
    assert list(graphtune.unwrap(model)) == ["0", "1.0"]
    with pytest.raises(GraphtuneValueError, match=r"no module that could be wrapped was found in object"):
        graphtune.wrap(object())


def test_a_shared_module_is_wrapped_once_and_put_at_all_its_places() -> None:
    pipeline = Pipeline()
    pipeline.nested.decoder.linear = pipeline.encoder.linear
    modules = graphtune.wrap(pipeline, ["encoder.linear"])
    assert pipeline.nested.decoder.linear is modules["encoder.linear"]
    assert pipeline.fixed[1] is pipeline.encoder
    assert set(graphtune.unwrap(pipeline, "nested.decoder.linear")) == {"encoder.linear", "nested.decoder.linear"}
    assert not is_wrapped(pipeline.encoder.linear)
    # Both may be named; and a place within a wrapped module stays as it is.
    modules = graphtune.wrap(pipeline, ["encoder.linear", "nested.decoder.linear"])
    assert modules["encoder.linear"] is modules["nested.decoder.linear"]
    graphtune.unwrap(pipeline)
    modules = graphtune.wrap(pipeline, ["encoder.linear", "nested.decoder"])
    assert is_wrapped(pipeline.encoder.linear)
    assert not is_wrapped(modules["nested.decoder"].wrapped.linear)


def test_a_property_can_be_wrapped_where_it_can_be_set() -> None:
    class Settable(Pipeline):
        @property
        def hidden(self) -> nn.Module:
            return self._hidden

        @hidden.setter
        def hidden(self, value: nn.Module) -> None:
            self._hidden = value

    pipeline = Settable()
    (module,) = graphtune.wrap(pipeline, "hidden").values()
    assert pipeline._hidden is module
    graphtune.unwrap(pipeline, "hidden")
    assert not is_wrapped(pipeline._hidden)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("encodr", GraphtuneValueError, r"encodr: the target \(Pipeline\) has no 'encodr'; it has encoder, stages"),
        ("encoder.parts.nom", GraphtuneValueError, r"encoder.parts \(ModuleDict\) has no 'nom'; it has norm, list"),
        ("stages.2", GraphtuneValueError, r"stages \(list\) has no '2'; it has 0, 1"),
        ("size.x", GraphtuneValueError, r"size \(int\) has no 'x'"),
        ("", GraphtuneValueError, "names the target itself"),
        ("size", GraphtuneTypeError, "size: an nn.Module is needed, there is a int"),
        ("stages", GraphtuneTypeError, "stages: an nn.Module is needed, there is a list"),
        ("encoder.parts", GraphtuneTypeError, "a ModuleDict is never called itself"),
        (["encoder", "encoder.linear"], GraphtuneValueError, "encoder.linear: it lies in encoder, which is wrapped"),
        (["stages.0", "fixed.0"], GraphtuneTypeError, "fixed.0: nothing else can be put .* tuple"),
        (["stages.0", "hidden"], GraphtuneTypeError, "hidden: nothing else can be put in this place"),
        (["stages.0", 3], GraphtuneTypeError, "names: paths are strings"),
        ([], GraphtuneValueError, "no path was given"),
    ],
)
def test_what_can_not_be_wrapped_is_said_and_leaves_the_pipeline_as_it_was(
    names: Any, error: type[Exception], message: str
) -> None:
    pipeline = Pipeline()
    with pytest.raises(error, match=message):
        graphtune.wrap(pipeline, names)
    found = [pipeline.encoder, *pipeline.encoder.modules(), *pipeline.stages, pipeline._hidden]
    assert not any(map(is_wrapped, found))


def test_what_is_wrapped_is_not_wrapped_again() -> None:
    pipeline = Pipeline()
    graphtune.wrap(pipeline, ["encoder", "nested.decoder.linear"])
    with pytest.raises(GraphtuneValueError, match=r"encoder: it is wrapped already, as 'encoder'; graphtune.unwrap"):
        graphtune.wrap(pipeline, ["stages.0", "encoder"])
    with pytest.raises(GraphtuneValueError, match=r"encoder.linear: it lies in encoder, which is wrapped"):
        graphtune.wrap(pipeline, "encoder.linear")
    with pytest.raises(GraphtuneValueError, match=r"nested.decoder: it holds nested.decoder.linear, which is wrapped"):
        graphtune.wrap(pipeline, "nested.decoder")
    with pytest.raises(GraphtuneValueError, match=r"pipeline: it is wrapped itself"):
        graphtune.wrap(pipeline.encoder, "linear")
    assert not is_wrapped(pipeline.stages[0])
    with pytest.raises(GraphtuneValueError, match=r"stages.0: it is not wrapped"):
        graphtune.unwrap(pipeline, ["encoder", "stages.0"])
    assert is_wrapped(pipeline.encoder)


def test_a_place_that_refuses_leaves_the_others_as_they_were() -> None:
    class Picky(Pipeline):
        def __setattr__(self, name: str, value: Any) -> None:
            if is_wrapped(value):
                raise AttributeError("only plain modules")
            super().__setattr__(name, value)

    class Forgetful(Pipeline):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value.wrapped if is_wrapped(value) else value)

    for kind, message in ((Picky, "_hidden: .*only plain modules"), (Forgetful, "_hidden: its setter keeps something")):
        pipeline = kind()
        before = [*pipeline.stages, pipeline._hidden]
        with pytest.raises(GraphtuneTypeError, match=message):
            graphtune.wrap(pipeline, ["stages.0", "stages.1", "_hidden"])
        assert [*pipeline.stages, pipeline._hidden] == before


def test_pipelines_that_refer_to_themselves_and_hold_much_else() -> None:
    pipeline = Pipeline()
    pipeline.me = pipeline  # type: ignore[attr-defined]
    pipeline.vocabulary = list(range(1_000_000))  # type: ignore[attr-defined]
    pipeline.stages.append(pipeline)  # type: ignore[arg-type]
    assert "encoder" in graphtune.wrap(pipeline)
