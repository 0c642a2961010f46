"""Conditions on several sizes together: parsed and evaluated as Python does, found by the exporter, checked at each
call, and validated up to where they end."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from graphtune._core import SizeCondition
from graphtune.builders import range_ends
from graphtune.cache import BuildCache
from graphtune.probing import Point, between, corners, grid
from graphtune.size_expressions import evaluate, holding_range, holds, nearest, symbols_of, without_implied
from graphtune.validation import CaseMaker
from hypothesis import given, settings
from hypothesis import strategies as st

import graphtune

# --- the grammar, in both languages -----------------------------------------------------------------------------------

SYMBOLS = ("b", "s0", "s1")


def of_pairs(parts: st.SearchStrategy[str], signs: tuple[str, ...]) -> st.SearchStrategy[str]:
    """With and without brackets: then the rules of precedence say what is meant."""
    forms = st.sampled_from(["{}{}{}", "({}){}({})", "{}{}({})", "({}){}{}"])
    return st.builds(lambda form, *texts: form.format(*texts), forms, parts, st.sampled_from(signs), parts)


def sizes_over(constants: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(SYMBOLS) | constants.map(str),
        lambda parts: (
            of_pairs(parts, ("+", "-", "*", " // ", "%", " - ", "//", " % "))
            | st.builds("-{}".format, parts)
            | st.builds("-({})".format, parts)
            | st.builds("{}({}, {})".format, st.sampled_from(("min", "max")), parts, parts)
            | st.builds("min({},{}, {})".format, parts, parts, parts)
        ),
        max_leaves=8,
    )


def conditions_over(sizes: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sign = st.sampled_from(["==", "!=", "<", " <= ", ">", ">="])
    return st.recursive(
        st.builds("{}{}{}".format, sizes, sign, sizes)
        | st.builds("{}{}{}{}{}".format, sizes, sign, sizes, sign, sizes)
        | st.builds("({} {} {})".format, sizes, sign, sizes),
        lambda parts: (
            of_pairs(parts, (" and ", " or ")) | st.builds("not {}".format, parts) | st.builds("not ({})".format, parts)
        ),
        max_leaves=5,
    )


def values_in(low: int, high: int) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({name: st.integers(low, high) for name in SYMBOLS})


@given(conditions_over(sizes_over(st.integers(0, 12))), values_in(0, 12))
@settings(max_examples=1000)
def test_both_languages_agree(text: str, values: dict[str, int]) -> None:
    condition = SizeCondition(text)
    assert condition.holds(values) == holds(text, values)
    written = str(condition)
    assert SizeCondition(written) == condition
    assert holds(written, values) == holds(text, values)
    assert tuple(condition.symbols) == symbols_of(text)


@given(
    conditions_over(sizes_over(st.integers(0, 2**63 - 1) | st.integers(0, 4))),
    values_in(-(2**63), 2**63 - 1),
)
@settings(max_examples=1000)
def test_nothing_holds_beyond_64_bits_that_does_not_hold_in_python(text: str, values: dict[str, int]) -> None:
    condition = SizeCondition(text)
    assert not condition.holds(values) or holds(text, values)
    assert SizeCondition(str(condition)).holds(values) == condition.holds(values)


def test_a_condition_as_an_object() -> None:
    condition = SizeCondition("b * s0 % 4 == 0")
    assert (str(condition), repr(condition)) == ("(b*s0) % 4 == 0", "SizeCondition('(b*s0) % 4 == 0')")
    assert condition == SizeCondition("((b*s0)%4) == 0") != SizeCondition("b == 0")
    assert len({condition, SizeCondition("(b*s0) % 4 == 0")}) == 1
    assert condition.symbols == ["b", "s0"]
    with pytest.raises(ValueError, match=r"no size is given for s0 in \(b\*s0\) % 4 == 0"):
        condition.holds({"b": 4})
    for bad in ("b", "b < n", "b ** 2 < 1", "b < " + "(" * 40 + "1" + ")" * 40, "b <" + " 1" * 3000):
        with pytest.raises(graphtune.GraphtuneValueError, match="is no condition on sizes"):
            SizeCondition(bad)


# --- sizes where conditions hold --------------------------------------------------------------------------------------

RANGES = {"b": (1, 4), "s0": (3, 8)}
SMALL = ["b*s0 <= 20"]


def point(b: int, s0: int) -> Point:
    return Point.of({"b": b, "s0": s0})


def test_corners_where_a_condition_fails_are_replaced_by_the_last_that_hold() -> None:
    assert set(corners(RANGES, SMALL)) == {point(1, 3), point(1, 8), point(4, 3), point(4, 5), point(2, 8)}
    assert corners(RANGES, ["b >= 1"]) == corners(RANGES)
    # No symbol alone leads there from the upper corner.
    cube = {"b": (1, 8), "s0": (3, 64), "s1": (3, 64)}
    found = corners(cube, ["b*s0*s1 <= 20"])
    assert all(evaluate("b*s0*s1 <= 20", each.values) for each in found)
    assert any(each.values["s0"] > 3 for each in found) and any(each.values["b"] == 2 for each in found)
    assert corners(RANGES, ["b > 9"]) == []


def test_range_ends_are_where_the_program_holds() -> None:
    job = {"ranges": {name: list(span) for name, span in RANGES.items()}, "conditions": SMALL}
    ends = range_ends(job)
    assert ends[0] == {"b": 1, "s0": 3}
    assert {"b": 4, "s0": 5} in ends and {"b": 4, "s0": 8} not in ends


@given(
    st.dictionaries(
        st.sampled_from(SYMBOLS),
        st.tuples(st.integers(1, 40), st.integers(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1])),
        min_size=1,
    ),
    st.lists(conditions_over(sizes_over(st.integers(0, 40))), max_size=2),
)
@settings(max_examples=200)
def test_points_lie_where_conditions_hold(ranges: dict[str, tuple[int, int]], texts: list[str]) -> None:
    conditions = [text for text in texts if set(symbols_of(text)) <= set(ranges)]
    for found in (
        corners(ranges, conditions),
        between(ranges, [], 4, conditions),
        grid(ranges, [], conditions=conditions),
    ):
        assert len(set(found)) == len(found)
        for each in found:
            assert all(low <= each.values[name] <= high for name, (low, high) in ranges.items())
            assert all(holds(condition, each.values) for condition in conditions)


def test_points_between_are_found_where_few_hold() -> None:
    few = ["s0 % 16 == 0", "b % 4 == 0"]
    inner = between({"b": (4, 32), "s0": (16, 512)}, [], 4, few)
    assert len(inner) == 4
    assert all(each.values["s0"] % 16 == 0 and each.values["b"] % 4 == 0 for each in inner)


def test_the_nearest_value_that_holds() -> None:
    assert nearest(10, (1, 64), lambda value: value % 8 == 0) == 8
    assert nearest(10, (9, 64), lambda value: value % 8 == 0) == 16
    assert nearest(10, (9, 15), lambda value: value % 8 == 0) is None
    assert nearest(10**9, (1, 10**9), lambda value: value <= 5000) == 5000
    assert nearest(1, (1, 10**9), lambda value: value >= 10**8 + 7) == 10**8 + 7


def test_ranges_of_what_holds_are_found_in_any_range() -> None:
    assert holding_range(["s0 % 4 == 0", "b*s0 <= 3"], "s0", (3, 62)) == (4, 60)
    assert holding_range(["s0 > 20"], "s0", (1, 10**12)) == (21, 10**12)
    assert holding_range([], "s0", (1, 10**12)) == (1, 10**12)
    assert holding_range(["s0 < 1"], "s0", (1, 100)) is None


def test_conditions_that_others_imply_are_left_out() -> None:
    whole = ["s0 % 4 == 0", "b*s0 == 4*b*(s0 // 4)", "b*s0 <= 20", "b*s0 <= 24"]
    assert without_implied(whole, RANGES) == ["s0 % 4 == 0", "b*s0 <= 20"]
    assert without_implied(["b < 3", "b < 3 and b < 4"], RANGES) == ["b < 3"]
    assert without_implied(["b != s0", "b*s0 <= 20"], {"b": (1, 9), "s0": (1, 9)}) == ["b != s0", "b*s0 <= 20"]
    assert without_implied(["b*s0 == 4*b*(s0 // 4)", "s0 == 4 or s0 % 4 == 0"], RANGES) == ["s0 == 4 or s0 % 4 == 0"]
    # Too many points to be sure.
    wide = {"b": (1, 10**6), "s0": (1, 10**6)}
    assert without_implied(whole, wide) == whole
    assert without_implied([], {}) == []


def test_cases_are_made_where_the_conditions_hold(tmp_path: Path) -> None:
    asked: list[int] = []

    def eager(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        asked.append(tensors[0].numel())
        return [tensors[0] * 2]

    samples = [(point(b, s), [torch.rand(b, s)]) for b, s in ((1, 4), (3, 6))]
    maker = CaseMaker(eager, samples, [["b", "s0"]], tmp_path)
    cases = maker.all_cases(RANGES, conditions=SMALL)
    assert max(asked) <= 20
    assert {point(4, 5), point(2, 8), point(1, 3)} <= {case.point for case in cases}
    assert len(cases) >= 9


# --- tuned models -----------------------------------------------------------------------------------------------------

BACKENDS = ("openvino", "onnxruntime", "aoti")


def tuned(model: torch.nn.Module, sizes: list[tuple[int, int]], cache: BuildCache, **options: Any) -> tuple[Any, Any]:
    module = graphtune.Module(model.eval(), name="model")
    with torch.no_grad():
        for batch, length in sizes:
            with graphtune.batch_size(batch):
                module(torch.rand(batch, length))
    options = {"backends": BACKENDS, "force": "openvino", **options}
    result = module.tune(progress=False, measure_seconds=0, cache=cache, **options)
    return module, result.graphs["model"][0]


class SmallOrLarge(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(1, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x.unsqueeze(-1) * self.weight).sum(1)
        return y.softmax(-1) if x.shape[0] * x.shape[1] <= 20 else y - 1


class Rows(torch.nn.Module):
    """Four numbers a row, however many rows there were."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0] * x.shape[1] // 4, 4).cumsum(1)


class Pieces(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(1, (-1, 4)).softmax(-1)


@pytest.fixture(scope="module")
def small_or_large(build_cache: BuildCache) -> tuple[Any, Any]:
    return tuned(SmallOrLarge(), [(1, 3), (4, 4), (2, 8), (3, 6)], build_cache)


@pytest.fixture(scope="module")
def rows(build_cache: BuildCache) -> tuple[Any, Any]:
    return tuned(Rows(), [(1, 4), (2, 6), (4, 5), (3, 8)], build_cache)


def check_calls(module: Any, graph: Any, calls: list[tuple[int, int]], held: Any) -> None:
    """Eager's values everywhere; the engine has the calls that it may have, and the others are misses."""
    module = graphtune.load(graphtune.save(module, graph), module.wrapped)
    with torch.no_grad():
        for batch, length in calls:
            x = torch.rand(batch, length)
            if held(batch, length):
                torch.testing.assert_close(module(x), module.wrapped(x), rtol=1e-5, atol=1e-5)
            else:
                assert torch.equal(module(x), module.wrapped(x))
    count = sum(held(*sizes) for sizes in calls)
    stats = module.stats()
    assert stats["by_graph"]["graph_0"] == {"openvino": count}
    assert stats["misses"] == ({"relation": len(calls) - count} if count < len(calls) else {})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_branch_on_a_product_of_sizes(small_or_large: Any, tmp_path: Path) -> None:
    module, graph = small_or_large
    assert graph.eager_reason == ""
    assert graph.symbols == {"b": (1, 4), "s0": (3, 8)}
    assert [candidate.reason for candidate in graph.candidates] == ["", "", ""]
    assert module.graph_specs[0].conditions == ["b*s0 <= 20"]
    assert "limited to sizes where b*s0 <= 20: the exported program holds only there" in graph.notes
    assert {"b": 4, "s0": 8} not in graph.points
    every = [(batch, length) for batch in range(1, 5) for length in range(3, 9)]
    check_calls(module, tmp_path / "model.bundle", every, lambda batch, length: batch * length <= 20)


def test_a_bundle_names_the_condition(small_or_large: Any, tmp_path: Path) -> None:
    module, _ = small_or_large
    folder = graphtune.save(module, tmp_path / "model.bundle")
    served = graphtune.load(folder)
    assert served.graph_specs[0].conditions == ["b*s0 <= 20"]
    assert "only where b*s0 <= 20" in served.graph_specs[0].describe()
    x = torch.rand(4, 5)
    with torch.no_grad():
        torch.testing.assert_close(served(x), module.wrapped(x), rtol=1e-5, atol=1e-5)
        with pytest.raises(graphtune.MissError, match=r"b\*s0 <= 20 does not hold for b = 4, s0 = 8 \(b: axis 0 of "):
            served(torch.rand(4, 8))
    tool = Path(graphtune._core.__file__).parents[2] / "bin" / "graphtune"
    shown = subprocess.run([tool, "inspect", folder], capture_output=True, text=True, check=True).stdout
    assert "  only where b*s0 <= 20\n" in shown
    ran = subprocess.run([tool, "bench", folder, "--seconds", "0.01"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_shape_that_needs_divisibility(rows: Any, tmp_path: Path) -> None:
    module, graph = rows
    assert graph.eager_reason == ""
    assert graph.symbols == {"b": (1, 4), "s0": (4, 8)}
    every = [(batch, length) for batch in range(1, 5) for length in range(4, 9)]
    fits = [sizes for sizes in every if sizes[0] * sizes[1] % 4 == 0]
    assert [candidate.reason for candidate in graph.candidates] == ["", "", ""]
    check_calls(module, tmp_path / "model.bundle", fits, lambda batch, length: True)
    module = graphtune.load(graphtune.save(module, tmp_path / "other.bundle"))
    for sizes in every:
        if sizes not in fits:
            with pytest.raises(graphtune.MissError, match="does not hold for b = "):
                module(torch.rand(sizes))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_divisibility_of_one_symbol_is_no_range(build_cache: BuildCache, tmp_path: Path) -> None:
    module, graph = tuned(Pieces(), [(1, 4), (2, 12), (4, 20)], build_cache, backends=("openvino",))
    assert graph.eager_reason == ""
    assert graph.symbols == {"b": (1, 4), "s0": (4, 20)}
    assert all(each["s0"] % 4 == 0 for each in graph.points)
    fits = [(batch, length) for batch in (1, 3, 4) for length in (4, 8, 12, 16, 20)]
    check_calls(module, tmp_path / "model.bundle", fits, lambda batch, length: True)
    module = graphtune.load(graphtune.save(module, tmp_path / "other.bundle"))
    for length in (5, 6, 7, 9, 18, 19):
        with pytest.raises(graphtune.MissError, match=f"does not hold for s0 = {length}"):
            module(torch.rand(2, length))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_samples_on_both_sides_of_a_branch(build_cache: BuildCache, tmp_path: Path) -> None:
    sizes = [(1, 3), (2, 4), (3, 6), (4, 8), (3, 7)]
    module, graph = tuned(SmallOrLarge(), sizes, build_cache, backends=("openvino",))
    assert graph.eager_reason == ""
    assert module.graph_specs[0].conditions == ["b*s0 > 20"]
    assert all(each["b"] * each["s0"] > 20 for each in graph.points)
    every = [(batch, length) for batch in range(1, 5) for length in range(3, 9)]
    check_calls(module, tmp_path / "model.bundle", every, lambda batch, length: batch * length > 20)
