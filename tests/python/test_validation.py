"""What engines are compared with eager at, and that no wrong value passes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from graphtune.engine_worker import _Server, read_case
from graphtune.probing import Point
from graphtune.validation import CaseMaker, Verdict, Verify, validate

RANGES = {"b": (1, 4), "s0": (3, 12)}
RECORDED = ((1, 4), (2, 7), (4, 12), (1, 3))


def point(b: int, s0: int) -> Point:
    return Point.of({"b": b, "s0": s0})


def eager(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensors[0] * 2 + 1, tensors[0].argmax(1)]


def maker(folder: Path, run: Any = eager) -> CaseMaker:
    samples = [(point(b, s), [torch.rand(b, s)]) for b, s in RECORDED]
    return CaseMaker(run, samples, [["b", "s0"]], folder)


class Engine:
    """Gives eager's values, changed by ``damage`` at the sizes that ``where`` picks."""

    def __init__(self, damage: Any, where: Any = lambda b, s: True) -> None:
        self.damage, self.where = damage, where

    def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        outputs = eager(inputs)
        return self.damage(inputs, outputs) if self.where(*inputs[0].shape) else outputs


class InThisProcess:
    def __init__(self, engine: Engine, tolerances: dict[str, tuple[float, float]]) -> None:
        self.server = _Server({"own": engine}, tolerances, ["outputs_0", "outputs_1"], ["cpu"])  # type: ignore[dict-item]

    def call(self, command: str, timeout_s: float, **payload: Any) -> Any:
        return self.server.handle(command, payload)


def verdict_on(
    folder: Path, engine: Engine, verify: Verify | None = None, **tolerances: tuple[float, float]
) -> Verdict:
    cases = maker(folder).all_cases(RANGES)
    return validate(InThisProcess(engine, tolerances), cases, verify=verify)  # type: ignore[arg-type]


def two_percent_off(_: Any, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [outputs[0] * 1.02, outputs[1]]


def test_recorded_sizes_corners_and_sizes_in_between(tmp_path: Path) -> None:
    cases = maker(tmp_path).all_cases(RANGES)
    origins = {case.point: case.origin for case in cases}
    assert len(origins) == len(cases)
    assert {p for p in origins if origins[p] == "recorded"} == {point(*sizes) for sizes in RECORDED}
    assert {point(b, s) for b in (1, 4) for s in (3, 12)} <= set(origins)
    inside = [p.values for p in origins if origins[p] == "between"]
    assert len(inside) >= 3
    assert all(1 <= values["b"] <= 4 and 3 <= values["s0"] <= 12 for values in inside)
    for case in cases:
        inputs, outputs = read_case(case.path)
        assert tuple(inputs[0].shape) == (case.point.values["b"], case.point.values["s0"])
        assert torch.equal(outputs[0], eager(inputs)[0])


def test_eagers_own_values_pass(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, Engine(lambda _, outputs: [outputs[0] * (1 + 1e-7), outputs[1]]))
    assert not verdict.problem
    assert verdict.cases >= 8
    assert 0 < verdict.deviation < 1e-5


def test_two_percent_off_is_rejected_and_the_worst_element_named(tmp_path: Path) -> None:
    verdict = verdict_on(tmp_path, Engine(two_percent_off))
    assert "recorded sizes" in verdict.problem
    assert "outputs_0" in verdict.problem
    assert "worst at [" in verdict.problem
    assert verdict.deviation > 0.01


@pytest.mark.parametrize(
    ("where", "origin"),
    [
        (lambda b, s: (b, s) == (4, 3), "corner sizes b=4, s0=3"),
        (lambda b, s: (b, s) == (1, 12), "corner sizes b=1, s0=12"),
        (lambda b, s: (b, s) not in RECORDED and b in (2, 3), "between sizes"),
    ],
    ids=["largest batch", "largest length", "never recorded"],
)
def test_what_is_wrong_at_some_sizes_only_is_found(tmp_path: Path, where: Any, origin: str) -> None:
    assert origin in verdict_on(tmp_path, Engine(two_percent_off, where)).problem


def nan(_: Any, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    outputs[0][0, 0] = torch.nan
    return outputs


def write(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    inputs[0][0, 0] += 1
    return outputs


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (nan, "outputs_0.*nan"),
        (write, "wrote to its input 0"),
        (lambda _, outputs: outputs[:1], "1 outputs, eager gives 2"),
        (lambda _, outputs: [outputs[0][:, :1], outputs[1]], r"outputs_0.*\[1, 1\]"),
        (lambda _, outputs: [outputs[0].double(), outputs[1]], "outputs_0.*float64"),
        (lambda _, outputs: [outputs[0], outputs[1] + 1], "outputs_1"),
    ],
    ids=["nan", "write", "number", "shape", "dtype", "integers"],
)
def test_other_wrong_results(tmp_path: Path, damage: Any, words: str) -> None:
    assert re.search(words, verdict_on(tmp_path, Engine(damage)).problem)


def test_tolerances_of_the_user(tmp_path: Path) -> None:
    assert not verdict_on(tmp_path, Engine(two_percent_off), float32=(0.05, 0.0)).problem


def test_the_users_own_judgement_replaces_the_tolerances(tmp_path: Path) -> None:
    seen = []

    def verify(expected: list[torch.Tensor], actual: list[torch.Tensor]) -> str:
        seen.append(expected[0].shape)
        return "" if torch.allclose(expected[0], actual[0], rtol=0.05) else "too far"

    verdict = verdict_on(tmp_path, Engine(two_percent_off), verify)
    assert not verdict.problem
    assert verdict.deviation > 0.01
    assert len(seen) == verdict.cases
    far = Engine(lambda _, outputs: [outputs[0] * 1.2, outputs[1]])
    assert re.search("at recorded sizes .*: too far", verdict_on(tmp_path, far, verify).problem)
    # What is no matter of values is not the user's to allow.
    cut = Engine(lambda _, outputs: [outputs[0][:, :1], outputs[1]])
    assert "outputs_0" in verdict_on(tmp_path, cut, lambda *_: "").problem


def test_sizes_that_the_model_refuses_are_left_out_and_said(tmp_path: Path) -> None:
    def only_short(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if tensors[0].shape[1] > 7:
            raise ValueError("too long\nby far")
        return eager(tensors)

    cases = maker(tmp_path, only_short)
    made = cases.all_cases(RANGES)
    assert made
    assert all(case.point.values["s0"] <= 7 for case in made)
    assert cases.refusal(Point.of({"b": 1, "s0": 12})) == "ValueError: too long"
    assert cases.refusal(Point.of({"b": 1, "s0": 7})) == ""
