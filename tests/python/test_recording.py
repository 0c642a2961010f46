"""RecordingModule: records, and otherwise is the module that it wraps."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from graphtune.errors import Error
from torch import nn

import graphtune
from graphtune import RecordingModule, config


class Model(nn.Module):
    """A small one."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("scale", torch.ones(3))
        self.register_buffer("hidden", torch.ones(1), persistent=False)
        self.calls = 0

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, *, mode: str = "a") -> dict[str, Any]:
        self.calls += 1
        y = self.linear(x) * self.scale
        return {"y": y if mask is None else y * mask, "mode": mode}

    @property
    def width(self) -> int:
        return self.linear.in_features


class Lambda(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def wrap(function: Any, **options: Any) -> RecordingModule:
    return RecordingModule(Lambda(function), **options)


# What is recorded


def test_shapes_are_learned() -> None:
    module = RecordingModule(Model())
    for batch in (1, 2, 4):
        with graphtune.batch_size(batch):
            module(torch.zeros(batch, 5, 4))
    (spec,) = module.graph_specs
    assert spec.name == "graph_0"
    assert spec.input_spec.tensor_specs[0].shape == ["batch0", 5, 4]
    assert spec.input_spec.tensor_specs[0].name == "kwargs_x"
    assert spec.output_spec.tensor_specs[0].shape == ["batch0", 5, 3]
    assert (spec.min_batch_size, spec.max_batch_size, spec.sample_count) == (1, 4, 3)
    assert not spec.eager_reason


def test_new_structures_are_new_graphs() -> None:
    module = RecordingModule(Model())
    module(torch.zeros(1, 4))
    module(torch.zeros(1, 4), torch.ones(3))
    module(torch.zeros(1, 1, 4))
    module(torch.zeros(1, 4), mode="b")
    assert [spec.name for spec in module.graph_specs] == [f"graph_{index}" for index in range(4)]


def test_strictness() -> None:
    loose = RecordingModule(Model(), strict=False)
    loose(torch.zeros(1, 4), mode="b")
    loose(torch.zeros(1, 4), mode="c")
    assert len(loose.graph_specs) == 1
    assert not loose.strict
    with config.override(strict_mode=False):
        assert not RecordingModule(Model()).strict
    assert RecordingModule(Model()).strict


def test_the_model_gets_the_callers_own_arguments() -> None:
    seen: list[Any] = []

    def keep(*args: Any, **kwargs: Any) -> torch.Tensor:
        seen.extend((args, kwargs))
        return args[0]

    x, options = torch.zeros(2), {"b": 1, "a": [2]}
    assert wrap(keep)(x, options, c=options) is x
    assert seen[0][0] is x
    assert seen[0][1] is options
    assert seen[1]["c"] is options


def test_samples_are_copies_of_new_shapes() -> None:
    module = RecordingModule(Model())
    x = torch.rand(2, 4)
    result = module(x)
    module(torch.rand(2, 4))
    with graphtune.batch_size(3):
        module(torch.rand(3, 4))
    first, second = module.samples(0)
    assert first.args[0] is not x
    assert torch.equal(first.args[0], x)
    assert torch.equal(first.outputs["y"], result["y"])
    assert first.outputs["mode"] == "a"
    assert not first.outputs["y"].requires_grad
    assert (first.batch_size, second.batch_size) == (None, 3)
    assert second.args[0].shape == (3, 4)
    assert module.samples(7) == []


def test_samples_are_as_before_the_call() -> None:
    def change(x: torch.Tensor, items: list[Any]) -> Any:
        items.append(x.add_(1))
        return [items, x]

    module = wrap(change)
    items: list[Any] = [torch.zeros(1)]
    module(torch.zeros(2), items)
    (sample,) = module.samples(0)
    assert sample.args[0].tolist() == [0, 0]
    assert len(sample.args[1]) == 1
    assert sample.outputs[1].tolist() == [1, 1]
    items[1].add_(1)
    assert sample.outputs[1].tolist() == [1, 1]


def test_a_tensor_passed_twice_is_one_in_the_sample() -> None:
    module = wrap(lambda x, y: x + y)
    x = torch.rand(2)
    module(x, x)
    (sample,) = module.samples(0)
    assert sample.args[0] is sample.args[1]


def test_strides_of_samples_are_kept() -> None:
    module = wrap(lambda x: x)
    x = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    module(x)
    assert module.samples(0)[0].args[0].stride() == x.stride()


def test_a_bounded_number_of_samples_is_kept() -> None:
    with config.override(max_num_samples_stored=2):
        module = wrap(lambda x: x)
    for size in range(1, 6):
        module(torch.zeros(size))
        module(torch.zeros(size, size))
    assert [len(module.samples(graph)) for graph in (0, 1)] == [2, 2]
    assert module.graph_specs[0].input_spec.tensor_specs[0].max_shape == [5]
    with config.override(max_num_samples_stored=0):
        module = wrap(lambda x: x)
    module(torch.zeros(1))
    assert module.samples(0) == []


def test_more_graphs_than_allowed() -> None:
    with config.override(max_graphs=2):
        module = wrap(lambda x, n: x)
    with pytest.warns(RuntimeWarning, match="max_graphs") as caught:
        for number in range(5):
            assert module(torch.zeros(1), number).shape == (1,)
    assert len(caught) == 1
    assert len(module.graph_specs) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(torch.zeros(2), 0)
    assert module.graph_specs[0].sample_count == 2


@pytest.mark.parametrize("wrapper", [RecordingModule, graphtune.Module])
def test_more_graphs_than_allowed_of_constants_that_are_no_unicode(wrapper: type[RecordingModule]) -> None:
    """The reason why a call can't be recorded quotes them; the call itself is served all the same."""
    with config.override(max_graphs=1):
        module = wrapper(Lambda(lambda x, path: x + 1))
    with pytest.warns(RuntimeWarning, match="max_graphs"):
        for number in range(3):
            assert module(torch.zeros(1), f"\udcff{number}.png").item() == 1


def nested(depth: int) -> Any:
    result: Any = torch.zeros(1)
    for _ in range(depth):
        result = [result]
    return result


def test_the_warning_of_a_call_that_is_not_recorded_points_at_the_users_line() -> None:
    module = wrap(lambda x: nested(3000))
    outer = nn.Sequential(module)
    module.register_forward_hook(lambda *_: None)
    with pytest.warns(RuntimeWarning, match="could not be recorded.*deep") as caught:
        outer(torch.zeros(1))
        outer(torch.zeros(1))
    assert [each.filename for each in caught] == [__file__]
    assert "outer(torch" in Path(__file__).read_text().splitlines()[caught[0].lineno - 1]
    assert ".." not in str(caught[0].message)


@pytest.mark.parametrize(
    "name, problem",
    [("", "empty"), ("\ud800", "Unicode"), ("n" * 201, "201 characters"), ("n" * 10**6, "1000000 char")],
)
def test_names_that_nothing_could_show_or_save_are_refused(name: str, problem: str) -> None:
    for cls in (RecordingModule, graphtune.Module):
        with pytest.raises(graphtune.GraphtuneValueError, match=f"^name.*{problem}") as caught:
            cls(Model(), name=name)
        assert len(str(caught.value)) < 400
    assert graphtune.Module(Model(), name="é" * 200).name == "é" * 200
    long_class = type("C" * 1000, (Model,), {})
    assert graphtune.Module(long_class()).name == "C" * 200


def test_long_keys_are_shortened_where_they_are_shown() -> None:
    key = "k" * 10_000
    module = wrap(lambda d, **others: d[key])
    module({key: torch.zeros(1, 2), key[1:]: torch.zeros(1)})
    with graphtune.batch_size(2):
        module({key: torch.zeros(2, 2), key[1:]: torch.zeros(2)}, **{key: 1})
    for spec in module.graph_specs:
        for level in graphtune.InfoLevel:
            text = spec.describe(level)
            assert max(map(len, text.splitlines())) < 600
    with pytest.raises(graphtune.GraphtuneValueError) as caught:
        module.graph_specs[0].input_spec.make_batch(({},), {}, batch_size=2)
    assert len(str(caught.value)) < 500


def test_clear() -> None:
    module = wrap(lambda x: x)
    module(torch.zeros(1))
    module.clear_recorded()
    assert (module.graph_specs, module.samples(0)) == ([], [])
    module(torch.zeros(1))
    assert (len(module.graph_specs), len(module.samples(0))) == (1, 1)


# What is not


def test_calls_that_raise_are_not_recorded() -> None:
    class MineError(Exception):
        pass

    def fail(x: torch.Tensor, good: bool) -> torch.Tensor:
        if not good:
            raise MineError("mine")
        return x

    module = wrap(fail)
    module(torch.zeros(1), True)
    with pytest.raises(MineError, match="mine"):
        module(torch.zeros(2), False)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        module(torch.zeros(2))
    assert len(module.graph_specs) == 1


@pytest.mark.parametrize("arguments", [((), {}), ((1, 2, 3), {}), ((torch.zeros(1, 4),), {"x": 1}), ((), {"z": 1})])
def test_wrong_arguments_are_the_models_to_refuse(arguments: Any) -> None:
    args, kwargs = arguments
    with pytest.raises(TypeError) as expected:
        Model()(*args, **kwargs)
    with pytest.raises(TypeError) as caught:
        RecordingModule(Model())(*args, **kwargs)
    assert not isinstance(caught.value, Error)
    assert str(caught.value) == str(expected.value)


def test_arguments_that_are_no_tree() -> None:
    module = wrap(lambda x: x[0])
    x: list[Any] = [torch.zeros(1)]
    x.append(x)
    with pytest.raises(ValueError, match="contains itself"):
        module(x)


def test_transforms_are_not_recorded() -> None:
    module = RecordingModule(Model().eval())
    x = torch.rand(2, 4)
    expected = module.wrapped(x)["y"]
    torch.testing.assert_close(torch.func.vmap(lambda row: module(row)["y"])(x), expected)
    torch.func.grad(lambda z: module(z)["y"].sum())(x)
    assert module.graph_specs == []


def test_fake_tensors_are_not_recorded() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    module = RecordingModule(nn.ReLU())
    with FakeTensorMode():
        assert module(torch.empty(2, 3)).shape == (2, 3)
    assert module.graph_specs == []


def test_compiling_runs_the_model() -> None:
    module = RecordingModule(Model().eval())
    compiled = torch.compile(lambda x: module(x)["y"], backend="eager", fullgraph=True)
    x = torch.rand(2, 4)
    torch.testing.assert_close(compiled(x), module.wrapped(x)["y"])
    assert module.graph_specs == []


@pytest.mark.parametrize("strict", [True, False])
def test_exporting_runs_the_model(strict: bool) -> None:
    module = RecordingModule(Model().eval())
    x = torch.rand(2, 4)
    program = torch.export.export(module, (x,), strict=strict)
    torch.testing.assert_close(program.module()(x)["y"], module.wrapped(x)["y"])
    assert module.graph_specs == []


def test_tracing_runs_the_model() -> None:
    module = RecordingModule(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    x = torch.rand(2, 4)
    traced = torch.jit.trace(module, x, check_trace=False)  # the check is a call like any other
    torch.testing.assert_close(traced(x), module.wrapped(x))
    assert module.graph_specs == []
    outer = nn.Sequential(module)
    symbolic = torch.fx.symbolic_trace(outer)
    torch.testing.assert_close(symbolic(x), module.wrapped(x))
    assert module.graph_specs == []


# Writes to inputs


def test_a_write_to_an_input_is_seen() -> None:
    module = wrap(lambda x, y: x.add_(y["z"]))
    module(torch.zeros(2), {"z": torch.ones(2)})
    (spec,) = module.graph_specs
    assert "[0]" in spec.eager_reason
    assert "in place" in spec.eager_reason


def test_a_write_to_a_view_is_seen() -> None:
    module = wrap(lambda x: x[0].mul_(2))
    module(torch.ones(2))
    assert "[0]" in module.graph_specs[0].eager_reason


def test_a_write_to_an_inference_tensor_is_seen() -> None:
    module = wrap(lambda x: x.add_(1))
    reads = wrap(lambda x: x + 1)
    with torch.inference_mode():
        module(torch.zeros(2))
        reads(torch.full((2,), float("nan")))
    assert "[0]" in module.graph_specs[0].eager_reason
    assert not reads.graph_specs[0].eager_reason


def test_a_write_that_comes_later_is_seen() -> None:
    def sometimes(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1) if x.sum() > 0 else x + 1

    module = wrap(sometimes)
    module(torch.zeros(2))
    assert not module.graph_specs[0].eager_reason
    module(torch.ones(2))
    assert module.graph_specs[0].eager_reason


def test_resizing_in_place() -> None:
    module = wrap(lambda x: x.unsqueeze_(0).squeeze_(0).resize_(50) if x.numel() < 50 else x)
    for size in (3, 4):
        module(torch.zeros(size))
    assert module.graph_specs[0].input_spec.tensor_specs[0].max_shape == [4]


# Being the wrapped module


def test_attributes() -> None:
    model = Model()
    module = RecordingModule(model)
    assert isinstance(module, nn.Module)
    assert module.wrapped is model
    assert module.name == "Model"
    assert RecordingModule(Model(), name="encoder").name == "encoder"
    assert module.linear is model.linear
    assert module.width == 4
    module.calls = 7
    module(torch.zeros(1, 4))
    assert model.calls == module.calls == 8
    module.linear = nn.Linear(4, 5)
    assert model.linear.out_features == 5
    module.extra = nn.Parameter(torch.zeros(1))
    assert "extra" in dict(model.named_parameters())
    del module.extra
    assert not hasattr(model, "extra")
    with pytest.raises(AttributeError, match="nothing"):
        module.nothing  # noqa: B018
    assert {"width", "wrapped", "calls"} <= set(dir(module))
    assert "Linear" in repr(module)
    assert module.__doc__ is not None


def test_the_signature_is_the_models() -> None:
    module = RecordingModule(Model())
    assert inspect.signature(module.forward) == inspect.signature(Model().forward)


def test_state() -> None:
    model = Model()
    module = RecordingModule(model)
    assert list(module.state_dict()) == list(model.state_dict()) == ["scale", "linear.weight", "linear.bias"]
    assert [name for name, _ in module.named_parameters()] == ["linear.weight", "linear.bias"]
    assert [name for name, _ in module.named_buffers()] == ["scale", "hidden"]
    assert [name for name, _ in module.named_children()] == ["linear"]
    assert [name for name, _ in module.named_modules()] == ["", "linear"]
    assert next(module.modules()) is module
    assert all(a is b for a, b in zip(module.parameters(), model.parameters(), strict=True))
    other = Model()
    assert module.load_state_dict(other.state_dict()).missing_keys == []
    assert torch.equal(model.linear.weight, other.linear.weight)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        module.load_state_dict({**other.state_dict(), "more": torch.zeros(1)})


def test_as_part_of_a_larger_module() -> None:
    plain = nn.Sequential(Model(), nn.Identity())
    module = RecordingModule(Model())
    outer = nn.Sequential(module, nn.Identity())
    assert list(outer.state_dict()) == list(plain.state_dict())
    outer.load_state_dict(plain.state_dict())
    assert torch.equal(module.wrapped.linear.weight, plain[0].linear.weight)
    outer.double()
    assert module.wrapped.scale.dtype == torch.float64
    outer.eval()
    assert not module.wrapped.training
    assert not module.wrapped.linear.training
    outer.requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert outer.get_submodule("0.linear") is module.wrapped.linear
    seen: list[nn.Module] = []
    outer.apply(seen.append)
    assert module.wrapped in seen


def test_moving_and_modes() -> None:
    model = Model()
    module = RecordingModule(model)
    assert module.eval() is module
    assert not (module.training or model.training or model.linear.training)
    assert module.train() is module
    assert model.linear.training
    assert module.to(torch.float64) is module
    assert model.linear.weight.dtype == torch.float64
    assert module.half() is module
    assert module.float() is module
    assert module.cpu() is module
    assert module.requires_grad_(False) is module
    assert not model.linear.weight.requires_grad
    module.zero_grad()
    assert module.to("meta").wrapped.linear.weight.is_meta


def test_overridden_methods_are_the_models() -> None:
    class Loud(Model):
        trained = 0

        def train(self, mode: bool = True) -> Loud:
            self.trained += 1
            return super().train(mode)

        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return {"mine": 1}

        def extra_repr(self) -> str:
            return "loud"

    module = RecordingModule(Loud())
    module.eval()
    assert module.trained == 1
    assert module.state_dict() == {"mine": 1}
    assert "loud" in repr(module)


def test_hooks() -> None:
    order: list[str] = []
    model = Model()
    module = RecordingModule(model)
    module.register_forward_pre_hook(lambda *_: order.append("pre"))
    model.register_forward_hook(lambda *_: order.append("inner"))
    handle = module.register_forward_hook(lambda *_: order.append("outer"))
    module(torch.zeros(1, 4))
    assert order == ["pre", "inner", "outer"]
    handle.remove()
    module.register_forward_hook(lambda _, args, output: {"y": output["y"] + 1})
    assert torch.equal(module(torch.zeros(1, 4))["y"], model(torch.zeros(1, 4))["y"] + 1)
    plain = RecordingModule(nn.Linear(4, 3))  # torch calls backward hooks of results that are tensors
    plain.register_full_backward_hook(lambda *_: order.append("backward"))
    plain(torch.zeros(1, 4, requires_grad=True)).sum().backward()
    assert order[-1] == "backward"


def test_special_methods_of_containers() -> None:
    module = RecordingModule(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    assert len(module) == 2
    assert isinstance(module[1], nn.ReLU)
    assert [type(layer) for layer in module] == [nn.Linear, nn.ReLU]
    module[1] = nn.GELU()
    assert isinstance(module.wrapped[1], nn.GELU)
    assert bool(RecordingModule(Model()))
    with pytest.raises(TypeError):
        len(RecordingModule(Model()))


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "torch.save"])
def test_copies_start_afresh(how: str) -> None:
    module = RecordingModule(Model(), name="mine", strict=False)
    x = torch.rand(2, 4)
    expected = module(x)["y"]
    if how == "deepcopy":
        copied = copy.deepcopy(module)
    elif how == "pickle":
        copied = pickle.loads(pickle.dumps(module))
    else:
        file = io.BytesIO()
        torch.save(module, file)
        file.seek(0)
        copied = torch.load(file, weights_only=False)
    assert isinstance(copied, RecordingModule) and copied._graphtune_class is RecordingModule
    assert (copied.name, copied.strict, copied.graph_specs) == ("mine", False, [])
    assert copied.wrapped is not module.wrapped
    assert torch.equal(copied(x)["y"], expected)
    assert len(copied.graph_specs) == len(module.graph_specs) == 1


def test_a_shallow_copy_shares_the_module() -> None:
    module = RecordingModule(Model())
    copied = copy.copy(module)
    assert copied.wrapped is module.wrapped
    copied(torch.zeros(1, 4))
    assert module.graph_specs == []


def test_a_scripted_module() -> None:
    module = RecordingModule(torch.jit.script(nn.Sequential(nn.Linear(4, 3), nn.ReLU())))
    x = torch.rand(2, 4)
    assert torch.equal(module(x), module.wrapped(x))
    assert list(module.state_dict()) == ["0.weight", "0.bias"]
    assert len(module.graph_specs) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((lambda x: x,), "module must be an nn.Module"),
        ((RecordingModule(nn.ReLU()),), "wrapped already"),
        ((nn.ReLU(), 1), "name must be a str"),
        ((nn.ReLU(), None, 1), "strict must be"),
    ],
)
def test_wrong_construction(arguments: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        RecordingModule(*arguments)


def test_gradients() -> None:
    module = RecordingModule(Model())
    x = torch.rand(2, 4, requires_grad=True)
    module(x)["y"].sum().backward()
    assert x.grad is not None
    assert module.linear.weight.grad is not None


# Threads


def test_calls_from_eight_threads() -> None:
    module = RecordingModule(Model().eval())
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            generator = torch.Generator().manual_seed(seed)
            for step in range(25):
                batch = 1 + (seed + step) % 5
                x = torch.rand(batch, 4, generator=generator)
                with graphtune.batch_size(batch):
                    assert torch.equal(module(x)["y"], module.wrapped(x)["y"])
                    module(x.unsqueeze(0) if step % 2 else x)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    specs = module.graph_specs
    assert len(specs) == 2
    assert sum(spec.sample_count for spec in specs) == 8 * 25 * 2
    assert (specs[0].min_batch_size, specs[0].max_batch_size) == (1, 5)
    assert len(module.samples(0)) == 5
