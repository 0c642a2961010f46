"""Batches of any data set, at any batch size, with the batch size measured rather than believed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

__all__ = ["Batch", "BatchSource", "first_tensor"]


@dataclasses.dataclass(frozen=True)
class Batch:
    """One batch: ``data`` as the collate function made it, and the number of items that it really holds."""

    data: Any
    size: int


def first_tensor(data: Any) -> torch.Tensor | None:
    """The first tensor of a nested batch, by which its batch size is measured."""
    if isinstance(data, torch.Tensor):
        return data
    if isinstance(data, Mapping):
        data = data.values()
    elif dataclasses.is_dataclass(data) and not isinstance(data, type):
        data = [getattr(data, field.name) for field in dataclasses.fields(data)]
    elif isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        return None
    return next((found for found in map(first_tensor, data) if found is not None), None)


def _measured(data: Any, where: str) -> Batch:
    tensor = first_tensor(data)
    if tensor is None or tensor.dim() == 0:
        raise ValueError(
            f"{where}: no tensor with a batch axis was found in this batch ({type(data).__name__}), so its batch size "
            "can't be measured; yield batches with a tensor whose axis 0 is the batch, or pass a list of single items"
        )
    return Batch(data, int(tensor.shape[0]))


class BatchSource:
    """A data set that can be iterated at several batch sizes.

    What it takes, and what one batch is then:

    * a ``DataLoader``: its data set and collate function, loaded again at each batch size. One over an
      ``IterableDataset``, with ``batch_size=None`` or with a batch sampler of its own can't be: its batches are
      taken as they come, and their size is measured on axis 0 of the first tensor;
    * a tensor, or a dict or tuple of tensors of equal length: slices along axis 0;
    * a ``Dataset`` or a list of items: items, collated;
    * a generator or other iterable of items: kept once, then as a list.

    ``collate`` turns a list of items into a batch (default: torch's ``default_collate``).

    Raises ``TypeError`` for something that can't be iterated and ``ValueError`` for an empty data set.
    """

    def __init__(
        self,
        dataset: Any,
        collate: Callable[[list[Any]], Any] | None = None,
        max_batches: int | None = None,
    ) -> None:
        self.max_batches = max_batches
        self._collate = collate or default_collate
        self._rows: Any = None
        self._items: Any = None
        self._loader: DataLoader[Any] | None = None
        self.fixed_batches: list[Any] | None = None  # batches that can't be made at another size
        if isinstance(dataset, DataLoader):
            self._take_loader(dataset, collate)
        elif collate is None and _is_rows(dataset):
            self._rows = dataset
            self._require_items(_row_count(dataset))
        elif isinstance(dataset, (str, bytes, Mapping)) or not (
            isinstance(dataset, Iterable) or hasattr(dataset, "__getitem__")
        ):
            raise TypeError(
                f"dataset: a {type(dataset).__name__} can't be iterated as samples; pass a DataLoader, a Dataset, a "
                "list or generator of items, or tensors (or a dict or tuple of tensors of equal length) whose axis 0 "
                "is the batch"
            )
        else:
            sized = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
            self._items = dataset if sized else list(dataset)
            self._require_items(len(self._items))

    def _take_loader(self, loader: DataLoader[Any], collate: Callable[[list[Any]], Any] | None) -> None:
        can_rebatch = (
            not isinstance(loader.dataset, IterableDataset)
            and loader.batch_size is not None
            and hasattr(loader.dataset, "__len__")
        )
        if can_rebatch:
            self._loader = loader
            self._items = loader.dataset
            self._collate = collate or loader.collate_fn
            self._require_items(len(self._items))
            return
        limit = self.max_batches
        self.fixed_batches = list(loader if limit is None else itertools.islice(loader, limit))
        self._require_items(len(self.fixed_batches))

    @staticmethod
    def _require_items(count: int) -> None:
        if count == 0:
            raise ValueError("dataset: it is empty, so no call could be recorded; pass at least a few samples")

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Yields the data set in batches of ``batch_size`` items; the last may be shorter and says so."""
        if self.fixed_batches is not None:
            for number, data in enumerate(self.fixed_batches):
                yield _measured(data, f"dataset: batch {number}")
            return
        count = _row_count(self._rows) if self._rows is not None else len(self._items)
        starts: Iterable[int] = range(0, count, batch_size)
        if self.max_batches is not None:
            starts = itertools.islice(starts, self.max_batches)
        for start in starts:
            stop = min(start + batch_size, count)
            if self._rows is not None:
                yield Batch(_slice_rows(self._rows, start, stop), stop - start)
            else:
                items = [self._items[index] for index in range(start, stop)]
                yield Batch(self._collate(items), stop - start)


def _is_rows(dataset: Any) -> bool:
    """Tensors whose axis 0 is the data set: one, or a dict or tuple of several of equal length.

    A list is always a list of items, also when the items are tensors.
    """
    if isinstance(dataset, torch.Tensor):
        return dataset.dim() > 0
    values: Sequence[Any]
    if isinstance(dataset, Mapping):
        values = list(dataset.values())
    elif isinstance(dataset, tuple):
        values = dataset
    else:
        return False
    return (
        len(values) > 0
        and all(isinstance(value, torch.Tensor) and value.dim() > 0 for value in values)
        and len({len(value) for value in values}) == 1
    )


def _row_count(rows: Any) -> int:
    if isinstance(rows, torch.Tensor):
        return len(rows)
    return len(next(iter(rows.values() if isinstance(rows, Mapping) else rows)))


def _slice_rows(rows: Any, start: int, stop: int) -> Any:
    if isinstance(rows, torch.Tensor):
        return rows[start:stop]
    if isinstance(rows, Mapping):
        return {key: value[start:stop] for key, value in rows.items()}
    return tuple(value[start:stop] for value in rows)
