"""Calls of a tuned module: engines give eager's values at all sizes and in all forms of tensors, and what no engine
may have is a miss. For each engine, with one model."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.fx.experimental.proxy_tensor
from graphtune.cache import BuildCache

import graphtune

Call = dict[str, Any]


class Model(torch.nn.Module):
    """Embeds tokens and averages them, looks at a picture, and returns an input: batch axes, a length that two inputs
    share, index values, four dimensions, a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 16)
        self.linear = torch.nn.Linear(16, 8)
        self.look = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, image: torch.Tensor, scale: float = 1.0
    ) -> dict[str, torch.Tensor]:
        hidden = self.linear(self.embedding(ids)) * scale
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-6)
        return {"hidden": hidden, "pooled": pooled + self.look(image).mean((2, 3)).sum(1, True), "mask": mask}


def call_of(batch: int, length: int) -> Call:
    generator = torch.Generator().manual_seed(batch * 100 + length)
    return {
        "ids": torch.randint(0, 50, (batch, length), generator=generator),
        "mask": torch.randint(0, 2, (batch, length), generator=generator),
        "image": torch.rand(batch, 3, 6, 6, generator=generator),
    }


Bundle = tuple[str, Model, Path]


@pytest.fixture(scope="session")
def bundles(build_cache: BuildCache, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    torch.manual_seed(0)
    model = Model().eval()
    module = graphtune.Module(model, name="model")
    with torch.no_grad():
        for batch, length in ((1, 4), (2, 7), (4, 12)):
            with graphtune.batch_size(batch):
                module(**call_of(batch, length))
    made = {}
    # All are built at the first time, side by side.
    for backends in (("openvino", "aoti", "onnxruntime", "torchscript"), ("onnxruntime",), ("aoti",), ("torchscript",)):
        chosen = backends[0]
        result = module.tune(progress=False, backends=backends, force=chosen, measure_seconds=0, cache=build_cache)
        (graph,) = result.graphs["model"]
        assert graph.symbols == {"b": (1, 4), "s0": (4, 12)}
        assert graph.chosen is not None, graph
        made[chosen] = chosen, model, graphtune.save(module, tmp_path_factory.mktemp(chosen) / "model.bundle")
    return made


@pytest.fixture(scope="session", params=["openvino", "onnxruntime", "aoti", "torchscript"])
def bundle(request: pytest.FixtureRequest, bundles: dict[str, Bundle]) -> Bundle:
    return bundles[request.param]


@pytest.fixture
def model(bundle: Bundle) -> Model:
    """A copy: tests change it."""
    return copy.deepcopy(bundle[1])


@pytest.fixture
def module(bundle: Bundle, model: Model) -> Any:
    """Around the model, with counters at zero."""
    return graphtune.load(bundle[2], model)


@pytest.fixture
def served(bundle: Bundle) -> Any:
    """Without the model."""
    return graphtune.load(bundle[2])


@pytest.fixture
def engine_calls(bundle: Bundle) -> Callable[[Any], int]:
    return lambda module: module.stats()["by_graph"]["graph_0"].get(bundle[0], 0)


def assert_as_eager(module: Any, model: Model, call: Call) -> None:
    with torch.no_grad():
        expected, actual = model(**call), module(**call)
    assert type(actual) is dict
    assert list(actual) == list(expected)
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], rtol=1e-4, atol=1e-5)


# --- what engines serve ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch, length", [(1, 4), (1, 12), (4, 4), (4, 12), (2, 7), (3, 9), (2, 5)])
def test_recorded_corner_and_unseen_sizes(
    module: Any, model: Model, engine_calls: Any, batch: int, length: int
) -> None:
    assert_as_eager(module, model, call_of(batch, length))
    assert engine_calls(module) == 1


def test_however_the_call_is_written(module: Any, model: Model, engine_calls: Any) -> None:
    call = call_of(3, 5)
    with torch.no_grad():
        expected = model(**call)["pooled"]
        for result in (
            module(*call.values()),
            module(call["ids"], image=call["image"], mask=call["mask"]),
            module(**call, scale=1.0),
        ):
            torch.testing.assert_close(result["pooled"], expected, rtol=1e-4, atol=1e-5)
    assert engine_calls(module) == 3


FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "slice": lambda x: x.repeat_interleave(2, 0)[::2],
    "offset": lambda x: torch.cat([x[:1], x])[1:],
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "expanded": lambda x: x[:1].expand(x.shape),
    "reversed strides": lambda x: x.permute(*reversed(range(x.dim()))).contiguous().permute(*reversed(range(x.dim()))),
    "channels last": lambda x: x.to(memory_format=torch.channels_last) if x.dim() == 4 else x,
    "inference tensor": lambda x: torch.inference_mode()(x.clone)(),
}


@pytest.mark.parametrize("form", FORMS)
def test_tensors_in_memory_of_any_form(module: Any, model: Model, engine_calls: Any, form: str) -> None:
    call = {name: FORMS[form](tensor) for name, tensor in call_of(3, 9).items()}
    assert_as_eager(module, model, call)
    assert engine_calls(module) == 1


def test_one_tensor_passed_twice_and_overlapping_views(module: Any, model: Model, engine_calls: Any) -> None:
    call = call_of(3, 9)
    assert_as_eager(module, model, {**call, "mask": call["ids"]})
    tokens = torch.randint(0, 2, (3, 10))
    assert_as_eager(module, model, {**call, "ids": tokens[:, 1:], "mask": tokens[:, :-1]})
    assert engine_calls(module) == 2


def test_an_input_that_is_returned_comes_back_itself(module: Any, served: Any) -> None:
    call = call_of(2, 5)
    call["mask"] = FORMS["transposed"](call["mask"])
    with torch.no_grad():
        assert module(**call)["mask"] is call["mask"]
    assert served(**call)["mask"] is call["mask"]


def test_inputs_are_not_written(module: Any) -> None:
    call = call_of(2, 5)
    before = {name: tensor.clone() for name, tensor in call.items()}
    with torch.no_grad():
        module(**call)
    assert all(torch.equal(call[name], before[name]) for name in call)


def test_an_earlier_result_is_unchanged_by_a_later_call(module: Any) -> None:
    with torch.no_grad():
        first = module(**call_of(2, 7))
        kept = {name: tensor.clone() for name, tensor in first.items()}
        for call in (call_of(2, 7), call_of(4, 12), {**call_of(2, 7), "ids": torch.zeros(2, 7, dtype=torch.int64)}):
            later = module(**call)
            later["hidden"].zero_()
    assert all(torch.equal(first[name], kept[name]) for name in first)


def test_eight_threads_get_the_results_of_one(module: Any, model: Model, engine_calls: Any) -> None:
    wrong = []

    def work(seed: int) -> None:
        for turn in range(25):
            call = call_of(1 + (seed + turn) % 4, 4 + (seed * 3 + turn) % 9)
            with torch.no_grad():
                actual, expected = module(**call), model(**call)
            if not torch.allclose(actual["pooled"], expected["pooled"], rtol=1e-4, atol=1e-5):
                wrong.append((seed, turn))
            if actual["mask"] is not call["mask"]:
                wrong.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert (module.stats()["calls"], module.stats()["misses"], engine_calls(module)) == (200, {}, 200)


# --- misses -----------------------------------------------------------------------------------------------------------


def with_bad_token(token: int) -> Call:
    call = call_of(2, 5)
    call["ids"][1, 3] = token
    return call


# Reason, the call, what the error says, and whether eager takes it.
MISSES: dict[str, tuple[str, Callable[[], Call], str, bool]] = {
    "batch above": ("range", lambda: call_of(5, 4), r"axis 0 of \['ids'\].* size 5.*1 to 4", True),
    "length below": ("range", lambda: call_of(2, 3), r"axis 1 of \['ids'\].* size 3.*4 to 12", True),
    "fixed size": ("range", lambda: {**call_of(2, 5), "image": torch.rand(2, 3, 6, 7)}, r"axis 3 of \['image'\]", True),
    "relation": (
        "relation",
        lambda: {**call_of(2, 5), "mask": torch.ones(2, 6, dtype=torch.int64)},
        r"\['mask'\].*6",
        False,
    ),
    "dtype": ("unknown_graph", lambda: {**call_of(2, 5), "mask": torch.ones(2, 5)}, r"\['mask'\].*float32", True),
    "half": ("unknown_graph", lambda: {**call_of(2, 5), "image": torch.rand(2, 3, 6, 6).half()}, "float16", False),
    "rank": ("unknown_graph", lambda: {**call_of(2, 5), "image": torch.rand(3, 6, 6)}, r"\['image'\].*rank", False),
    "layout": ("unknown_graph", lambda: {**call_of(2, 5), "mask": call_of(2, 5)["mask"].to_sparse()}, "sparse", False),
    "constant": ("unknown_graph", lambda: {**call_of(2, 5), "scale": 2.0}, r"\['scale'\]", True),
    "type of a constant": ("unknown_graph", lambda: {**call_of(2, 5), "scale": 1}, r"\['scale'\]", True),
    "token above": ("index_range", lambda: with_bad_token(50), r"\['ids'\].*50 at \[1, 3\].*0 to 49", False),
    "token below": ("index_range", lambda: with_bad_token(-1), r"\['ids'\].*-1 at \[1, 3\]", False),
}


@pytest.mark.parametrize("miss", [name for name, row in MISSES.items() if row[3]])
def test_misses_run_eagerly_and_are_counted(module: Any, model: Model, engine_calls: Any, miss: str) -> None:
    reason, make, words, _ = MISSES[miss]
    call = make()
    with pytest.warns(RuntimeWarning, match=words):
        assert_as_eager(module, model, call)
    assert module.stats()["misses"] == {reason: 1}
    assert engine_calls(module) == 0


@pytest.mark.parametrize("miss", [name for name, row in MISSES.items() if not row[3]])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_eager_refuses_is_refused_in_its_words(module: Any, model: Model, miss: str) -> None:
    reason, make, _, _ = MISSES[miss]
    with torch.no_grad():
        with pytest.raises(Exception) as expected:
            model(**make())
        with pytest.raises(type(expected.value)) as caught:
            module(**make())
    assert str(caught.value) == str(expected.value)
    assert module.stats()["misses"] == {reason: 1}


@pytest.mark.parametrize("miss", MISSES)
def test_the_error_policy_names_the_place(module: Any, served: Any, miss: str) -> None:
    reason, make, words, _ = MISSES[miss]
    module.miss_policy = "error"
    with torch.no_grad(), pytest.raises(graphtune.MissError, match=words):
        module(**make())
    assert module.stats()["misses"] == {reason: 1}
    # Without a model there is no other policy.
    with pytest.raises(graphtune.MissError, match=words):
        served(**make())
    assert served.stats()["misses"] == {reason: 1}


def test_a_reason_is_warned_of_once(module: Any) -> None:
    with torch.no_grad(), pytest.warns(RuntimeWarning) as caught:
        for _ in range(3):
            module(**call_of(5, 4))
            module(**call_of(2, 3))
            module(**{**call_of(2, 5), "scale": 2.0})
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2
    assert "(range)" in messages[0]
    assert "(unknown_graph)" in messages[1]
    assert module.stats()["misses"] == {"range": 6, "unknown_graph": 3}


def test_inputs_that_require_gradients_run_eagerly_and_get_them(module: Any, model: Model, engine_calls: Any) -> None:
    def gradient(function: Any) -> torch.Tensor:
        call = call_of(2, 5)
        call["image"].requires_grad_()
        function(**call)["pooled"].sum().backward()
        assert call["image"].grad is not None
        return call["image"].grad

    with pytest.warns(RuntimeWarning, match="gradients"):
        torch.testing.assert_close(gradient(module), gradient(model))
    assert module.stats()["misses"] == {"requires_grad": 1}
    call = call_of(2, 5)
    call["image"].requires_grad_()
    assert_as_eager(module, model, call)  # under no_grad
    assert engine_calls(module) == 1


def test_train_mode_runs_eagerly(module: Any) -> None:
    module.train()
    with torch.no_grad(), pytest.warns(RuntimeWarning, match=r"train mode.*eval\(\)"):
        module(**call_of(2, 5))
    module.eval()
    with torch.no_grad():
        module(**call_of(2, 5))
    assert module.stats()["misses"] == {"train_mode": 1}


@pytest.mark.parametrize("change", ["in place", "through data", "loaded"])
def test_changed_weights_run_eagerly(module: Any, model: Model, change: str) -> None:
    with torch.no_grad():
        module(**call_of(2, 5))
        if change == "in place":
            model.linear.weight.mul_(2)
        elif change == "through data":
            model.linear.weight.data = model.linear.weight * 2
        else:
            model.load_state_dict({name: tensor * 2 for name, tensor in model.state_dict().items()})
    with pytest.warns(RuntimeWarning, match="weights"):
        assert_as_eager(module, model, call_of(2, 5))
    assert module.stats()["misses"] == {"weights_changed": 1}


@pytest.mark.parametrize("change", ["parameter", "submodule", "hook", "part in train mode", "functional_call"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_replaced_parts_and_new_hooks_run_eagerly(module: Any, model: Model, change: str) -> None:
    call = call_of(2, 5)
    doubled = {name: tensor * 2 for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        module(**call)
        if change == "functional_call":
            actual = torch.func.functional_call(module, doubled, (), call)
            expected = torch.func.functional_call(model, doubled, (), call)
            assert torch.equal(actual["hidden"], expected["hidden"])
            # They are the model's own again.
            assert_as_eager(module, model, call)
            assert module.stats()["by_graph"]["graph_0"].popitem()[1] == 2
        elif change == "parameter":
            model.linear.weight = torch.nn.Parameter(model.linear.weight * 2)
        elif change == "submodule":
            model.linear = torch.nn.Linear(16, 8)
        elif change == "part in train mode":
            model.look.train()
        else:
            model.linear.register_forward_hook(lambda part, args, output: output * 2)
        assert_as_eager(module, model, call)
    assert module.stats()["misses"] == {"weights_changed": 1}


def test_a_bundle_keeps_the_digest_of_the_weights_that_were_tuned(build_cache: BuildCache, tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 3).eval()
    module = graphtune.Module(model)
    for batch in (1, 2):
        with graphtune.batch_size(batch), torch.no_grad():
            module(torch.rand(batch, 4))
    module.tune(progress=False, backends=("openvino",), force="openvino", measure_seconds=0, cache=build_cache)
    with torch.no_grad():
        model.weight.zero_()
    graphtune.save(module, tmp_path / "linear.bundle")
    with pytest.raises(ValueError, match="its weights are not those"):
        graphtune.load(tmp_path / "linear.bundle", model)


def test_a_bundle_without_its_model_refuses_what_needs_gradients(served: Any) -> None:
    call = call_of(2, 5)
    call["image"].requires_grad_()
    with pytest.raises(graphtune.MissError, match="gradients"):
        served(**call)
    with torch.no_grad():
        assert served(**call)["hidden"].shape == (2, 5, 8)


def test_a_bundle_without_its_model_refuses_transformed_calls(served: Any) -> None:
    call = call_of(2, 5)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(graphtune.MissError, match="autocast"):
        served(**call)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(graphtune.MissError, match="forward-mode"):
        served(**call)
    with torch.no_grad():
        assert served(**call)["hidden"].shape == (2, 5, 8)


def test_transformed_calls_run_eagerly(module: Any, model: Model) -> None:
    call = call_of(2, 5)
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            assert module(**call)["hidden"].dtype == model(**call)["hidden"].dtype == torch.bfloat16
        arguments = tuple(call.values())
        traced = torch.jit.trace(module, arguments, check_trace=False, strict=False)
        other = tuple(call_of(3, 6).values())
        torch.testing.assert_close(traced(*other)["hidden"], model(*other)["hidden"])
        graph = torch.fx.experimental.proxy_tensor.make_fx(lambda *args: module(*args)["hidden"])(*arguments)
        other = tuple(tensor.flip(0) for tensor in arguments)
        torch.testing.assert_close(graph(*other), model(*other)["hidden"])
        with torch.autograd.forward_ad.dual_level():
            image = torch.autograd.forward_ad.make_dual(call["image"], torch.ones_like(call["image"]))
            pooled = module(call["ids"], call["mask"], image)["pooled"]
            assert torch.autograd.forward_ad.unpack_dual(pooled).tangent is not None
    assert module.stats()["misses"] == {}


def test_engines_serve_without_a_warning(module: Any, served: Any) -> None:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        module(**call_of(2, 5))
        served(**call_of(2, 5))
