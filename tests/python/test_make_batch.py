"""Calls brought to another batch size."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sample_types import Plain

from graphtune import SampleMetadata


def learned(*shapes: tuple[int, ...], make: Any = torch.zeros) -> SampleMetadata:
    """Of calls whose tensors have `shapes` at batch size 1; a first axis is a batch axis."""
    metadata = SampleMetadata.from_inputs(tuple(make(*shape) for shape in shapes), {}, batch_size=1)
    for batch in (2, 3):
        tensors = tuple(make(shape[0] * batch, *shape[1:]) for shape in shapes)
        metadata.update_shapes_seen(SampleMetadata.from_inputs(tensors, {}, batch_size=batch))
    return metadata


def long_zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def resized(metadata: SampleMetadata, tensor: torch.Tensor, batch_size: int) -> torch.Tensor:
    (result,), kwargs = metadata.make_batch((tensor,), {}, batch_size)
    assert kwargs == {}
    return result


def test_rows_are_repeated_in_turn() -> None:
    assert resized(learned((1,), make=long_zeros), torch.arange(3), 8).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize(("size", "expected"), [(1, [0, 10]), (2, [0, 1, 10, 11]), (4, [0, 1, 0, 1, 10, 11, 10, 11])])
def test_stacked_blocks_are_resized_each_by_itself(size: int, expected: list[int]) -> None:
    metadata = learned((2,), make=long_zeros)
    assert metadata.tensor_specs[0].get_batch_axis_multipliers() == {0: 2}
    assert resized(metadata, torch.tensor([0, 1, 10, 11]), size).tolist() == expected


def test_the_right_size_comes_back_itself() -> None:
    metadata = SampleMetadata.from_inputs((torch.zeros(1, 3),), {"a": [torch.zeros(1)]}, batch_size=1)
    metadata.update_shapes_seen(SampleMetadata.from_inputs((torch.zeros(2, 3),), {"a": [torch.zeros(2)]}, batch_size=2))
    args, kwargs = (torch.zeros(5, 3),), {"a": [torch.zeros(5)]}
    new_args, new_kwargs = metadata.make_batch(args, kwargs, 5)
    assert new_args is args
    assert new_kwargs is kwargs


def test_only_what_differs_is_made_anew() -> None:
    metadata = learned((1, 3), (1,))
    right, short = torch.zeros(4, 3), torch.zeros(2)
    (first, second), _ = metadata.make_batch((right, short), {}, 4)
    assert first is right
    assert second.shape == (4,)
    assert short.shape == (2,)


def test_shrinking_gives_views_that_keep_strides() -> None:
    metadata = learned((1, 3, 4, 4))
    for tensor in (
        torch.rand(8, 3, 4, 4),
        torch.rand(8, 3, 4, 4).to(memory_format=torch.channels_last),
        torch.rand(4, 3, 4, 8).transpose(0, 3),
    ):
        result = resized(metadata, tensor, 2)
        assert torch.equal(result, tensor[:2])
        assert result.stride() == tensor.stride()
        assert result.data_ptr() == tensor.data_ptr()


def test_shrinking_blocks_to_one_row_each_gives_a_view() -> None:
    tensor = torch.rand(8, 3)
    result = resized(learned((2, 3)), tensor, 1)
    assert torch.equal(result, tensor[[0, 4]])
    assert result.data_ptr() == tensor.data_ptr()


def test_growing_keeps_the_order_of_strides() -> None:
    metadata = learned((1, 3, 4, 4))
    tensor = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    result = resized(metadata, tensor, 5)
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(result, tensor[[0, 1, 0, 1, 0]])
    turned = torch.rand(4, 4, 3, 2).permute(3, 2, 1, 0)
    result = resized(metadata, turned, 5)
    assert torch.equal(result, turned[[0, 1, 0, 1, 0]])
    assert sorted(range(4), key=result.stride) == sorted(range(4), key=turned.stride)


def test_expanded_tensors() -> None:
    result = resized(learned((1, 3)), torch.arange(3.0).expand(2, 3), 4)
    assert torch.equal(result, torch.arange(3.0).expand(4, 3))


def test_an_axis_in_the_middle() -> None:
    metadata = SampleMetadata.from_inputs((torch.zeros(7, 1, 2),), {}, batch_size=1)
    metadata.update_shapes_seen(SampleMetadata.from_inputs((torch.zeros(7, 2, 2),), {}, batch_size=2))
    tensor = torch.rand(7, 3, 2)
    assert torch.equal(resized(metadata, tensor, 4), tensor[:, [0, 1, 2, 0]])


def test_what_is_no_batch_axis_stays() -> None:
    metadata = SampleMetadata.from_inputs((torch.zeros(1, 10),), {}, batch_size=1)
    metadata.update_shapes_seen(SampleMetadata.from_inputs((torch.zeros(2, 15),), {}, batch_size=2))
    assert resized(metadata, torch.zeros(2, 12), 8).shape == (8, 12)


def test_other_constants_and_new_lengths_are_welcome() -> None:
    metadata = SampleMetadata.from_inputs((torch.zeros(1), "a"), {}, strict=True, batch_size=1)
    metadata.update_shapes_seen(SampleMetadata.from_inputs((torch.zeros(2), "a"), {}, strict=True, batch_size=2))
    (tensor, text), _ = metadata.make_batch((torch.zeros(3), "b"), {}, 4)
    assert (tensor.shape, text) == ((4,), "b")


# Tensors of other kinds


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("convert", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse_csc])
def test_sparse_tensors(convert: Any, size: int) -> None:
    metadata = learned((1, 3), make=lambda *shape: convert(torch.ones(shape)))
    dense = torch.tensor([[0.0, 1, 0], [2, 0, 3]])
    result = resized(metadata, convert(dense), size)
    assert result.layout == convert(dense).layout
    assert torch.equal(result.to_dense(), dense[[row % 2 for row in range(size)]])


@pytest.mark.parametrize("size", [1, 3, 6])
def test_gradients_flow_through(size: int) -> None:
    """As through torch's own operations: the result is no leaf, and no Parameter."""
    leaf = torch.rand(3, 2, requires_grad=True)
    result = resized(learned((1, 2)), leaf * 2, size)
    result.sum().backward()
    assert leaf.grad is not None
    parameter = torch.nn.Parameter(torch.rand(3, 2))
    result = resized(learned((1, 2)), parameter, size)
    assert result.requires_grad
    if size == 3:
        assert result is parameter
    else:
        assert type(result) is torch.Tensor
        assert not result.is_leaf


def test_inference_tensors() -> None:
    with torch.inference_mode():
        tensor = torch.rand(2, 2)
    assert resized(learned((1, 2)), tensor, 3).shape == (3, 2)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.complex64, torch.float8_e5m2]
)
def test_types_of_elements(dtype: torch.dtype) -> None:
    metadata = learned((1, 2), make=lambda *shape: torch.zeros(shape).to(dtype))
    tensor = torch.tensor([[0.0, 1], [1, 0]]).to(dtype)
    result = resized(metadata, tensor, 3)
    assert result.dtype == dtype
    assert torch.equal(result.to(torch.float32), tensor.to(torch.float32)[[0, 1, 0]])


def test_elements_of_less_than_a_byte() -> None:
    metadata = learned((1, 2), make=lambda *shape: torch.zeros(shape, dtype=torch.uint8).view(torch.float4_e2m1fn_x2))
    tensor = torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8)
    result = resized(metadata, tensor.view(torch.float4_e2m1fn_x2), 3)
    assert torch.equal(result.view(torch.uint8), tensor[[0, 1, 0]])


def test_a_trace_repeats_the_rows_that_it_is_given() -> None:
    metadata = learned((1, 2))
    traced = torch.jit.trace(lambda x: resized(metadata, x, 3), torch.zeros(2, 2), check_trace=False)
    assert torch.equal(
        traced(torch.tensor([[1.0, 2.0], [3.0, 4.0]])), torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    )


def test_tensors_that_change_while_others_are_copied() -> None:
    """The plan is of the sizes that the call had; a tensor that has others by then raises, or is left alone."""
    metadata = learned((1, 2000), (1, 2000))
    first, second = torch.rand(64, 2000), torch.rand(64, 2000)
    stop = threading.Event()

    def shrink() -> None:
        while not stop.is_set():
            second.resize_(8, 2000)
            second.resize_(64, 2000)

    thread = threading.Thread(target=shrink)
    thread.start()
    try:
        for _ in range(200):
            try:
                metadata.make_batch((first, second), {}, 128)
            except (ValueError, IndexError, RuntimeError) as error:
                assert str(error)
    finally:
        stop.set()
        thread.join()


def test_meta_and_quantised_tensors() -> None:
    metadata = learned((1, 2), make=lambda *shape: torch.empty(shape, device="meta"))
    assert resized(metadata, torch.empty(2, 2, device="meta"), 5).shape == (5, 2)
    quantise = lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)  # noqa: E731
    metadata = learned((1, 2), make=lambda *shape: quantise(torch.zeros(shape)))
    tensor = quantise(torch.tensor([[0.0, 1], [1, 0]]))
    assert torch.equal(resized(metadata, tensor, 3).dequantize(), tensor.dequantize()[[0, 1, 0]])


@pytest.mark.parametrize("lazy", [torch.conj, torch._neg_view, lambda tensor: tensor.conj().imag])
def test_lazily_conjugated_and_negated_tensors(lazy: Any) -> None:
    """What stands in their memory is not their values."""
    tensor = lazy(torch.complex(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0]])))
    metadata = learned((1, 1), make=lambda *shape: torch.zeros(shape, dtype=tensor.dtype))
    assert torch.equal(resized(metadata, tensor, 3), tensor[[0, 1, 0]])


def test_tangents_are_kept() -> None:
    metadata = learned((1, 2))
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.rand(2, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tangent = torch.autograd.forward_ad.unpack_dual(resized(metadata, dual, 3)).tangent
    assert torch.equal(tangent, torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))


def test_modes_see_what_is_done() -> None:
    seen: list[str] = []

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    metadata = learned((1, 2))
    with Mode():
        resized(metadata, torch.rand(2, 2), 3)
    assert "aten.index_select.default" in seen


def test_a_tensor_without_elements_grows() -> None:
    metadata = learned((1, 0))
    assert resized(metadata, torch.rand(2, 0), 5).shape == (5, 0)


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
    axis=st.integers(0, 4),
    blocks=st.integers(1, 3),
    current=st.integers(1, 4),
    target=st.integers(1, 9),
    step=st.integers(1, 2),
)
def test_values_and_memory_format_are_those_of_index_select(
    shape: list[int], order: Any, axis: int, blocks: int, current: int, target: int, step: int
) -> None:
    """For any strides: permuted axes, gaps between elements, several blocks along any axis."""
    axis %= len(shape)
    shape[axis] = blocks * current

    def sample(batch: int) -> torch.Tensor:
        return torch.zeros([blocks * batch if i == axis else size for i, size in enumerate(shape)])

    metadata = SampleMetadata.from_inputs((sample(1),), {}, batch_size=1)
    for batch in (2, 3, 5):
        metadata.update_shapes_seen(SampleMetadata.from_inputs((sample(batch),), {}, batch_size=batch))
    permutation = list(range(len(shape)))
    order.shuffle(permutation)
    memory = torch.rand([shape[i] for i in permutation[:-1]] + [shape[permutation[-1]] * step])
    inverse = [permutation.index(i) for i in range(len(shape))]
    tensor = memory[..., ::step].permute(inverse)
    assert list(tensor.shape) == shape
    result = resized(metadata, tensor, target)
    rows = [block * current + row % current for block in range(blocks) for row in range(target)]
    assert torch.equal(result, tensor.index_select(axis, torch.tensor(rows)))
    if target > current and tensor.is_contiguous():
        assert result.is_contiguous()
    elif target > current:
        outward = [i for i in permutation if shape[i] > 1 and result.shape[i] > 1]
        strides = [result.stride(i) for i in outward]
        assert strides == sorted(strides, reverse=True)


# Arguments


def test_containers_of_arguments() -> None:
    metadata = learned((1,), (1,))
    args, kwargs = metadata.make_batch([torch.zeros(2), torch.zeros(2)], None, 3)
    assert isinstance(args, list)
    assert kwargs == {}
    metadata = SampleMetadata.from_inputs((), {"x": Plain(torch.zeros(1))}, batch_size=1)
    metadata.update_shapes_seen(SampleMetadata.from_inputs((), {"x": Plain(torch.zeros(2))}, batch_size=2))
    original = {"x": Plain(torch.zeros(2), "kept")}
    _, kwargs = metadata.make_batch((), original, 3)
    assert (kwargs["x"].a.shape, kwargs["x"].b) == ((3,), "kept")  # type: ignore[attr-defined]
    assert original["x"].a.shape == (2,)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((torch.zeros(2),), r"\[0\].*rank"),
        (("no tensor",), r"\[0\]"),
        ((), r"\[0\]"),
        ((torch.zeros(0, 3),), r"\[0\]"),
    ],
)
def test_calls_that_do_not_fit(args: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        learned((1, 3)).make_batch(args, {}, 4)


def test_a_batch_that_is_no_multiple() -> None:
    with pytest.raises(ValueError, match=r"\[0\]"):
        learned((2, 3)).make_batch((torch.zeros(3, 3),), {}, 4)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [(torch.zeros(1), {}, "args must be"), ((), [], "kwargs must be"), ((), {1: 2}, "kwargs must have strings")],
)
def test_arguments_of_a_wrong_type(args: Any, kwargs: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        learned((1,)).make_batch(args, kwargs, 2)
    with pytest.raises(TypeError, match=words):
        SampleMetadata.from_inputs(args, kwargs)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 3))
def test_row_r_is_row_r_modulo_the_block(current: int, target: int, blocks: int) -> None:
    tensor = torch.arange(float(current * blocks)).reshape(-1, 1)
    result = resized(learned((blocks, 1)), tensor, target)
    expected = [block * current + row % current for block in range(blocks) for row in range(target)]
    assert result.flatten().tolist() == expected
