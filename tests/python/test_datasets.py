"""Batches of every kind of data set; sizes are measured."""

import pytest
import torch
from graphtune.datasets import BatchSource, first_tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset


class Squares(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, index):
        return {"x": torch.full((3,), float(index)), "y": index}


class Stream(IterableDataset):
    def __iter__(self):
        for index in range(5):
            yield torch.full((2,), float(index))


def sizes(source, batch_size):
    return [batch.size for batch in source.batches(batch_size)]


def test_list_of_items_is_collated():
    batches = list(BatchSource([torch.zeros(4)] * 5).batches(2))
    assert [batch.size for batch in batches] == [2, 2, 1]
    assert batches[0].data.shape == (2, 4)


def test_a_generator_serves_several_batch_sizes():
    source = BatchSource(torch.full((1,), float(i)) for i in range(4))
    assert sizes(source, 1) == [1, 1, 1, 1]
    assert sizes(source, 4) == [4]


def test_data_loader_is_loaded_again_at_each_size_with_its_collate():
    loader = DataLoader(
        Squares(),
        batch_size=3,
        collate_fn=lambda items: {"n": torch.tensor([i["y"] for i in items])},
    )
    source = BatchSource(loader)
    assert sizes(source, 4) == [4, 3]
    assert [b.data["n"].tolist() for b in source.batches(4)] == [[0, 1, 2, 3], [4, 5, 6]]


def test_iterable_loader_is_taken_as_it_comes_and_measured():
    source = BatchSource(DataLoader(Stream(), batch_size=2))
    assert source.fixed_batches is not None
    assert sizes(source, 4) == [2, 2, 1]


def test_loader_without_batching_is_measured():
    source = BatchSource(DataLoader([torch.zeros(3, 2), torch.zeros(2, 2)], batch_size=None))
    assert sizes(source, 1) == [3, 2]


def test_tensor_dataset():
    source = BatchSource(TensorDataset(torch.arange(5.0), torch.arange(5)))
    first = next(source.batches(3))
    assert first.size == 3
    assert [t.shape[0] for t in first.data] == [3, 3]


@pytest.mark.parametrize(
    "rows",
    [
        torch.zeros(5, 2),
        {"a": torch.zeros(5, 2), "b": torch.zeros(5)},
        (torch.zeros(5), torch.zeros(5, 1)),
    ],
)
def test_tensors_are_sliced_without_copy(rows):
    source = BatchSource(rows)
    assert sizes(source, 2) == [2, 2, 1]
    tensor = first_tensor(next(source.batches(2)).data)
    assert tensor.data_ptr() == first_tensor(rows).data_ptr()


def test_collate_of_strings():
    source = BatchSource(["a", "bb", "ccc"], collate=lambda texts: torch.tensor([len(t) for t in texts]))
    assert [b.data.tolist() for b in source.batches(2)] == [[1, 2], [3]]


def test_max_batches():
    assert sizes(BatchSource(torch.zeros(100, 1), max_batches=3), 2) == [2, 2, 2]


@pytest.mark.parametrize("empty", [[], (x for x in ()), torch.zeros(0, 3), DataLoader([], batch_size=None)])
def test_empty_data_set(empty):
    with pytest.raises(ValueError, match="empty"):
        BatchSource(empty)


@pytest.mark.parametrize("bad", [None, 3, "text", b"bytes", {"a": torch.zeros(3), "b": torch.zeros(4)}])
def test_no_data_set(bad):
    with pytest.raises(TypeError, match="dataset"):
        BatchSource(bad)


def test_batch_without_tensor_says_so():
    source = BatchSource(DataLoader(["a", "b"], batch_size=None))
    with pytest.raises(ValueError, match=r"batch 0.*can't be measured"):
        list(source.batches(1))
