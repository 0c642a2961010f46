"""Recording, tuning and routing end to end, on small models and on a real one."""

import threading

import pytest
import torch
from graphtune.cache import BuildCache

import graphtune


class Pool(torch.nn.Module):
    """Embeds tokens and averages them: batch axis, dynamic axis shared by two inputs, index input, dict result."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 16)
        self.linear = torch.nn.Linear(16, 8)

    def forward(self, ids, mask=None, scale=1.0):
        hidden = self.linear(self.embedding(ids)) * scale
        weights = torch.ones_like(ids) if mask is None else mask
        weights = weights.unsqueeze(-1).to(hidden.dtype)
        return {"hidden": hidden, "pooled": (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-6)}


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """One build cache for the session: equal models are built once."""
    return BuildCache(tmp_path_factory.mktemp("cache"))


def sample(batch, length):
    generator = torch.Generator().manual_seed(batch * 100 + length)
    return {
        "ids": torch.randint(0, 50, (batch, length), generator=generator),
        "mask": torch.ones(batch, length, dtype=torch.int64),
    }


def record(module, sizes=((1, 4), (2, 7), (4, 7), (2, 12))):
    with torch.no_grad():
        for batch, length in sizes:
            with graphtune.batch_size(batch):
                module(**sample(batch, length))


@pytest.fixture(scope="session")
def tuned(cache):
    torch.manual_seed(0)
    model = Pool().eval()
    module = graphtune.Module(model, name="pool")
    record(module)
    result = module.tune(progress=False, backends=("openvino",), force="openvino", measure_seconds=1.0, cache=cache)
    return model, module, result


def assert_same(actual, expected):
    assert type(actual) is type(expected)
    assert list(actual) == list(expected)
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch, length", [(1, 4), (1, 12), (4, 4), (4, 12), (3, 9), (2, 5)])
def test_recorded_corner_and_unseen_sizes_agree_with_eager(tuned, batch, length):
    model, module, _ = tuned
    inputs = sample(batch, length)
    before = module.stats()["by_graph"]["graph_0"].get("openvino", 0)
    with torch.no_grad():
        assert_same(module(**inputs), model(**inputs))
        assert_same(module(inputs["ids"], inputs["mask"]), model(**inputs))
    assert module.stats()["by_graph"]["graph_0"]["openvino"] == before + 2


def test_result_tells_what_was_done(tuned):
    _, module, result = tuned
    assert result.module is module
    (graph,) = result.graphs["pool"]
    assert graph.symbols == {"b": (1, 4), "s0": (4, 12)}
    assert graph.chosen.name == "openvino"
    assert graph.chosen.max_deviation < 1e-4
    assert len(graph.chosen.speed_ups) == len(graph.points) >= 4
    text = str(result)
    assert "['ids']" in text and "batch0" in text and "openvino" in text and "Plan:" in text
    assert result.to_dict()["schema_version"] == 1


@pytest.mark.parametrize("layout", ["transposed", "sliced", "expanded"])
def test_strided_inputs_agree_with_eager(tuned, layout):
    model, module, _ = tuned
    ids = sample(4, 12)["ids"]
    if layout == "transposed":
        ids = ids.t().contiguous().t()
    elif layout == "sliced":
        ids = sample(4, 12)["ids"].repeat(2, 2)[::2, ::2][:, :12]
    else:
        ids = ids[:1].expand(4, 12)
    mask = torch.ones(4, ids.shape[1], dtype=torch.int64)
    with torch.no_grad():
        assert_same(module(ids=ids, mask=mask), model(ids, mask))


MISSES = {
    "range": (lambda: sample(5, 4), "axis 0 of .*ids.* size 5"),
    "relation": (lambda: {"ids": sample(2, 5)["ids"], "mask": torch.ones(2, 6, dtype=torch.int64)}, "s0"),
    "dtype": (lambda: {**sample(2, 5), "mask": torch.ones(2, 5)}, "mask.*float32"),
    "structure": (lambda: {"ids": sample(2, 5)["ids"]}, "graph"),
    "constant": (lambda: {**sample(2, 5), "scale": 2.0}, "scale"),
}


@pytest.mark.parametrize("miss", [name for name in MISSES if name != "relation"])
def test_misses_run_eagerly_and_are_counted(tuned, miss):
    model, module, _ = tuned
    inputs = MISSES[miss][0]()
    before = sum(module.stats()["misses"].values())
    with torch.no_grad(), pytest.warns(RuntimeWarning) if before == 0 else no_check():
        assert_same(module(**inputs), model(**inputs))
    assert sum(module.stats()["misses"].values()) == before + 1


class no_check:  # noqa: N801
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


@pytest.mark.parametrize("miss", MISSES)
def test_error_policy_names_the_place(tuned, miss):
    _, module, _ = tuned
    make, pattern = MISSES[miss]
    with (
        graphtune.config.override(miss_policy="error"),
        torch.no_grad(),
        pytest.raises(graphtune.MissError, match=pattern),
    ):
        module(**make())


def test_a_bad_index_is_an_error_as_in_eager(tuned):
    model, module, _ = tuned
    inputs = sample(2, 5)
    inputs["ids"][1, 3] = 50
    with torch.no_grad():
        with pytest.raises(IndexError):
            model(**inputs)
        with pytest.raises(IndexError):
            module(**inputs)
        with graphtune.config.override(miss_policy="error"), pytest.raises(graphtune.MissError, match=r"50.*49"):
            module(**inputs)


def test_record_policy_learns_the_new_call(cache):
    module = graphtune.Module(Pool().eval(), miss_policy="record")
    record(module)
    module.tune(progress=False, backends=("openvino",), force="openvino", measure_seconds=0.5, cache=cache)
    with torch.no_grad(), graphtune.batch_size(6):
        module(**sample(6, 9))
    module.tune(progress=False, backends=("openvino",), force="openvino", measure_seconds=0.5, cache=cache)
    (spec,) = module.graph_specs
    assert spec.max_batch_size == 6


def test_gradients_are_computed_eagerly(cache):
    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    module = graphtune.Module(Double().eval())
    for batch in (1, 3):
        with graphtune.batch_size(batch):
            module(torch.ones(batch, 2))
    module.tune(progress=False, backends=("openvino",), force="openvino", measure_seconds=0.5, cache=cache)
    x = torch.ones(2, 2, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="gradients"):
        module(x).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert module.stats()["misses"] == {"requires_grad": 1}


def test_threads_get_their_own_results_and_every_call_is_counted(tuned):
    model, module, _ = tuned
    before = module.stats()["calls"]
    wrong = []

    def work(seed):
        for turn in range(25):
            inputs = sample(1 + (seed + turn) % 4, 4 + (seed * 3 + turn) % 9)
            with torch.no_grad():
                actual, expected = module(**inputs), model(**inputs)
            if not torch.allclose(actual["pooled"], expected["pooled"], rtol=1e-4, atol=1e-5):
                wrong.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert module.stats()["calls"] == before + 200


def test_an_earlier_output_is_unchanged_by_a_later_call(tuned):
    _, module, _ = tuned
    with torch.no_grad():
        first = module(**sample(2, 7))
        kept = {name: tensor.clone() for name, tensor in first.items()}
        module(**sample(2, 12))
        module(**{**sample(2, 7), "ids": torch.zeros(2, 7, dtype=torch.int64)})
    for name, tensor in first.items():
        assert torch.equal(tensor, kept[name])


def test_train_mode_and_changed_weights_run_eagerly(cache):
    model = Pool().eval()
    module = graphtune.Module(model)
    record(module)
    module.tune(progress=False, backends=("openvino",), force="openvino", measure_seconds=0.5, cache=cache)
    module.train()
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="train"):
        module(**sample(2, 5))
    module.eval()
    with torch.no_grad():
        model.linear.weight.mul_(2)
        with pytest.warns(RuntimeWarning, match="weights"):
            assert_same(module(**sample(2, 5)), model(**sample(2, 5)))
    assert module.stats()["misses"] == {"train_mode": 1, "weights_changed": 1}


def test_an_ambiguous_axis_is_settled_by_asking_the_model(cache):
    class Scale(torch.nn.Module):
        def forward(self, x):
            return x * 2 + 1

    module = graphtune.Module(Scale().eval())
    for batch in (1, 2):
        with graphtune.batch_size(batch):
            module(torch.ones(batch, 10 * batch))
    result = module.tune(progress=False, backends=("openvino",), force="openvino", measure_seconds=0.5, cache=cache)
    (graph,) = result.graphs["Scale"]
    assert any("independent of the batch size" in line for line in graph.evidence)
    assert graph.symbols == {"b": (1, 2), "s0": (10, 20)}


def test_an_input_that_is_returned_comes_back_itself(cache):
    class Through(torch.nn.Module):
        def forward(self, x, y):
            return x + 1, y

    module = graphtune.Module(Through().eval())
    for batch in (2, 3):
        with graphtune.batch_size(batch):
            module(torch.ones(batch, 2), torch.zeros(batch, 4))
    module.tune(progress=False, backends=("openvino",), force="openvino", measure_seconds=0.5, cache=cache)
    y = torch.full((2, 4), 3.0)
    with torch.no_grad():
        outputs = module(torch.ones(2, 2), y)
    assert outputs[1] is y
    assert outputs[0].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert module.stats()["by_graph"]["graph_0"]["openvino"] == 1


def stays_eager(module, *calls):
    for batch, args in calls:
        with torch.no_grad(), graphtune.batch_size(batch):
            module(*args)
    return module.tune(progress=False, backends=("openvino",), measure_seconds=0.5).graphs[module.name][0]


def test_state_and_in_place_writes_stay_eager():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return x + self.count

    class Writes(torch.nn.Module):
        def forward(self, x):
            x += 1
            return x * 2

    for model, word in ((Counter(), "count"), (Writes(), "in place")):
        module = graphtune.Module(model.eval())
        graph = stays_eager(module, (1, (torch.ones(1, 2),)), (2, (torch.ones(2, 2),)))
        assert word in graph.eager_reason
        assert word in module.graph_specs[0].eager_reason
        with torch.no_grad():
            x = torch.ones(2, 2)
            assert torch.equal(module(x.clone()), type(model)().eval()(x.clone()) + 0) or word == "count"
            module(x)
        # State that the model changes itself is no change of weights by the user.
        assert module.stats()["misses"] == {"not_tuned": 2}


def test_control_flow_on_values_stays_eager_with_the_reason():
    class Branch(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x - 1

    module = graphtune.Module(Branch().eval())
    graph = stays_eager(module, (1, (torch.ones(1, 2),)), (2, (torch.ones(2, 2),)))
    assert "export" in graph.eager_reason
    with torch.no_grad():
        assert torch.equal(module(-torch.ones(2, 2)), -2 * torch.ones(2, 2))


def test_opaque_arguments_stay_eager():
    class Thing:
        def __init__(self):
            self.tensor = torch.ones(2)

    class Takes(torch.nn.Module):
        def forward(self, x, thing):
            return x + thing.tensor

    module = graphtune.Module(Takes().eval())
    graph = stays_eager(module, (1, (torch.ones(1, 2), Thing())), (2, (torch.ones(2, 2), Thing())))
    assert len(module.graph_specs) == 1
    assert "Thing" in graph.eager_reason


# --- bad input ----------------------------------------------------------------------------------------------------


def test_tune_refuses_train_mode():
    module = graphtune.Module(Pool())
    with pytest.raises(graphtune.GraphtuneValueError, match=r"train mode.*eval\(\)"):
        graphtune.tune(module, [sample(1, 4)], batch_sizes=[1], progress=False)


def test_tune_refuses_an_empty_data_set_and_keeps_what_was_recorded():
    module = graphtune.Module(Pool().eval())
    record(module)
    with pytest.raises(graphtune.GraphtuneValueError, match="empty"):
        graphtune.tune(module, [], progress=False)
    assert len(module.graph_specs) == 1
    assert module.graph_specs[0].sample_count == 4


def test_tune_refuses_a_function_that_calls_no_wrapped_module():
    with pytest.raises(graphtune.GraphtuneValueError, match="called no module"):
        graphtune.tune(lambda batch: batch, torch.ones(4, 2), progress=False)


@pytest.mark.parametrize("sizes", [[0], [-1], []])
def test_tune_refuses_bad_batch_sizes(sizes):
    with pytest.raises(graphtune.GraphtuneValueError, match="batch_sizes"):
        graphtune.tune(graphtune.Module(Pool().eval()), torch.ones(4, 2), batch_sizes=sizes, progress=False)


@pytest.mark.parametrize("sizes", [[True], [1.0], ["1"], 3])
def test_tune_refuses_batch_sizes_of_wrong_types(sizes):
    with pytest.raises(graphtune.GraphtuneTypeError, match="batch_sizes"):
        graphtune.tune(graphtune.Module(Pool().eval()), torch.ones(4, 2), batch_sizes=sizes, progress=False)


def test_tune_refuses_unknown_backends_and_options():
    module = graphtune.Module(Pool().eval())
    with pytest.raises(graphtune.GraphtuneValueError, match="nope"):
        graphtune.tune(module, torch.ones(4, 2), backends=("nope",), progress=False)
    with pytest.raises(graphtune.GraphtuneTypeError, match="budget"):
        graphtune.tune(module, torch.ones(4, 2), budget=3, progress=False)


def test_nothing_recorded():
    with pytest.raises(graphtune.GraphtuneValueError, match="no call was recorded"):
        graphtune.Module(Pool().eval()).tune(progress=False)


def test_one_batch_size_only_is_said_aloud(cache):
    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    module = graphtune.Module(Double().eval())
    with torch.no_grad(), graphtune.batch_size(2):
        module(torch.ones(2, 3))
    result = module.tune(progress=False, backends=("openvino",), force="openvino", measure_seconds=0.5, cache=cache)
    (graph,) = result.graphs["Double"]
    assert any("same sizes" in note for note in graph.notes)
    with torch.no_grad(), graphtune.config.override(miss_policy="error"), pytest.raises(graphtune.MissError):
        module(torch.ones(3, 3))
