"""The shapes that TensorRT is to be built for, as ONNX Runtime's TensorRT provider takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .size_expressions import Ranges, Shape, evaluate, ranges_of, symbols_of

__all__ = ["shape_profiles"]


def shape_profiles(
    inputs: Sequence[tuple[str, Shape]], ranges: Ranges, opt: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Options ``trt_profile_min_shapes``, ``…_opt_shapes`` and ``…_max_shapes``: "ids:1x4,mask:1x4".

    ``inputs``: name and shape of each of the model's inputs; those without a symbol are left out, and without any
    there is no option. ``ranges``: lowest and highest value of each symbol. ``opt``: the value that each is tuned for,
    moved into its range; of a symbol without one, the highest. Always min <= opt <= max on each axis. Raises KeyError
    for a symbol without a range.
    """
    usual = {name: _clamp((opt or {}).get(name, high), low, high) for name, (low, high) in ranges.items()}
    profiles: dict[str, list[str]] = {"min": [], "opt": [], "max": []}
    for name, shape in inputs:
        if not any(symbols_of(size) for size in shape):
            continue
        spans = [ranges_of(size, ranges) for size in shape]
        sizes = {
            "min": [low for low, _ in spans],
            "max": [high for _, high in spans],
            # Where a size is no sum of multiples, the corners don't bound it: hence the second clamp.
            "opt": [_clamp(int(evaluate(size, usual)), *span) for size, span in zip(shape, spans, strict=True)],
        }
        for kind, each in sizes.items():
            profiles[kind].append(f"{name}:{'x'.join(map(str, each))}")
    return {f"trt_profile_{kind}_shapes": ",".join(texts) for kind, texts in profiles.items() if texts}


def _clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)
