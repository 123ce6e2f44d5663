"""Gradients of the operators against fp64."""

import dataclasses
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

import palmist  # noqa: F401, loads the operators
from table import Row

ops = torch.ops.palmist
ROWS, WIDTH, CLASSES = 512, 768, 1000
#: The minimum of x Φ(x), where the inverse of the output-only GELU has its branch point.
GELU_MINIMUM = -0.751791524693564


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator, the same of torch, and its differentiable arguments in fp64."""

    name: str
    ours: Callable
    torch: Callable
    arguments: tuple[torch.Tensor, ...]


def _cases() -> list[Case]:
    torch.manual_seed(0)
    draw = lambda *shape: torch.randn(shape, dtype=torch.float64)  # noqa: E731
    x, scale, shift = draw(ROWS, WIDTH), 1 + 0.1 * draw(WIDTH), 0.1 * draw(WIDTH)
    heads = (draw(2, 8, 256, 64), draw(2, 4, 256, 64), draw(2, 4, 256, 64))
    weight, target = draw(CLASSES, WIDTH) / WIDTH**0.5, torch.arange(ROWS) % CLASSES
    norm = lambda op: lambda x, w, b: op(x, [WIDTH], w, b, 1e-5)  # noqa: E731
    causal = lambda op: lambda q, k, v: op(q, k, v, is_causal=True)  # noqa: E731
    attention = lambda q, k, v: F.scaled_dot_product_attention(  # noqa: E731
        q, k, v, is_causal=True, enable_gqa=True
    )
    tanh = {"approximate": "tanh"}
    return [
        Case("linear", ops.linear, F.linear, (x, weight, draw(CLASSES))),
        Case("layer_norm", norm(ops.layer_norm), norm(F.layer_norm), (x, scale, shift)),
        Case(
            "rms_norm",
            lambda x, w: ops.rms_norm(x, [WIDTH], w, 1e-6),
            lambda x, w: F.rms_norm(x, [WIDTH], w, 1e-6),
            (x, scale),
        ),
        Case("gelu", ops.gelu, F.gelu, (2 * x,)),
        Case("gelu, tanh", lambda x: ops.gelu(x, **tanh), lambda x: F.gelu(x, **tanh), (2 * x,)),
        Case("silu_mul", ops.silu_mul, lambda g, u: F.silu(g) * u, (x, draw(ROWS, WIDTH))),
        Case("attention, causal, grouped", causal(ops.attention), attention, heads),
        Case(
            "linear_cross_entropy",
            lambda x, w: ops.linear_cross_entropy(x, w, target),
            lambda x, w: F.cross_entropy(F.linear(x, w), target),
            (x, weight),
        ),
        Case("tempo_layer_norm", norm(ops.tempo_layer_norm), norm(F.layer_norm), (x, scale, shift)),
        Case("tempo_attention, causal, grouped", causal(ops.tempo_attention), attention, heads),
    ]


def _gradients(operator: Callable, arguments, dtype) -> list[torch.Tensor]:
    """Returns the gradients in fp64, of a weighted sum of the outputs."""
    inputs = [argument.to(dtype, copy=True).requires_grad_() for argument in arguments]
    output = operator(*inputs)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(3))
    # Rounded once, so that every type is handed the same numbers.
    output.backward(weights.bfloat16().to(dtype))
    return [tensor.grad.double() for tensor in inputs]


def _results(case: Case, dtype) -> tuple[list, dict[str, list]]:
    """Returns the gradients by torch in fp64, at inputs of `dtype`, and those in `dtype`."""
    arguments = [argument.to(dtype).double() for argument in case.arguments]
    exact = _gradients(case.torch, arguments, torch.float64)
    return exact, {
        "ours": _gradients(case.ours, arguments, dtype),
        "torch": _gradients(case.torch, arguments, dtype),
    }


def _relative(exact: list[torch.Tensor], got: list[torch.Tensor]) -> float:
    return max(float((g - e).norm() / e.norm()) for e, g in zip(exact, got))


def _largest(exact: list[torch.Tensor], got: list[torch.Tensor]) -> float:
    return max(float((g - e).abs().max()) for e, g in zip(exact, got))


def _ulps_bf16(exact: list[torch.Tensor], got: list[torch.Tensor]) -> float:
    """Returns the largest error in units of the last place of bf16, at the exact value.

    Where sums cancel, fp32 arithmetic is the limit: a unit is that of 1/1024 of the rms at least.
    """
    worst = 0.0
    for e, g in zip(exact, got):
        magnitude = e.abs().clamp(min=float(e.square().mean().sqrt()) / 1024)
        ulp = torch.exp2(magnitude.log2().floor() - 7)
        worst = max(worst, float(((g - e).abs() / ulp).max()))
    return worst


def _fp32_rows() -> Iterator[Row]:
    for case in _cases():
        exact, got = _results(case, torch.float32)
        yield Row(
            f"{case.name}, fp32: gradients, rel-L2",
            ours=_relative(exact, got["ours"]),
            peer=_relative(exact, got["torch"]),
            bar=("<=", 1e-6),
            note=f"max-abs {_largest(exact, got['ours']):.1e} against "
            f"{_largest(exact, got['torch']):.1e}",
            data={"operator": case.name, "dtype": "fp32"},
        )


def _bf16_rows() -> Iterator[Row]:
    kept_input = ("layer_norm", "rms_norm", "gelu", "gelu, tanh", "silu_mul")
    for case in _cases():
        if case.name not in (*kept_input, "tempo_layer_norm"):
            continue
        exact, got = _results(case, torch.bfloat16)
        if case.name in kept_input:
            yield Row(
                f"{case.name}, bf16: gradients, ulp",
                ours=_ulps_bf16(exact, got["ours"]),
                peer=_ulps_bf16(exact, got["torch"]),
                bar=("<=", 1.0),
                note=f"rel-L2 {_relative(exact, got['ours']):.1e} against "
                f"{_relative(exact, got['torch']):.1e}",
            )
            continue
        # The tolerance that NVIDIA apex's tests of its norms have for bf16.
        excess = [
            float(((g[0] - exact[0]).abs() / (3e-3 + 1.6e-2 * exact[0].abs())).max())
            for g in (got["ours"], got["torch"])
        ]
        yield Row(
            f"{case.name}, bf16: dx error / (3e-3 + 1.6e-2 |dx|)",
            ours=excess[0],
            peer=excess[1],
            bar=("<=", 1.0),
            note=f"all gradients: rel-L2 {_relative(exact, got['ours']):.1e} against "
            f"{_relative(exact, got['torch']):.1e}",
        )


def _inverse_rows() -> Iterator[Row]:
    """The derivative that the output-only GELU recovers from its output."""
    tolerances = {torch.float32: ("fp32", 2e-4, 5e-6), torch.bfloat16: ("bf16", 2e-2, 3e-3)}
    for dtype, (name, near_bar, far_bar) in tolerances.items():
        x = torch.linspace(-8, 8, 400_001).to(dtype)
        exact = x.double().requires_grad_()
        F.gelu(exact).backward(torch.ones_like(exact))
        errors = []
        for operator in (ops.tempo_gelu, F.gelu):
            got = x.clone().requires_grad_()
            operator(got).backward(torch.ones_like(got))
            # What rounding the result itself costs is no error of the inverse.
            half_ulp = exact.grad.abs() * torch.finfo(dtype).eps / 2
            errors.append(((got.grad.double() - exact.grad).abs() - half_ulp).clamp(min=0))
        is_near = (exact.detach() - GELU_MINIMUM).abs() <= 0.25
        for place, where, bar in (("near", is_near, near_bar), ("off", ~is_near, far_bar)):
            yield Row(
                f"tempo_gelu, {name}: max |Δg'| {place} the minimum",
                ours=float(errors[0][where].max()),
                peer=float(errors[1][where].max()),
                bar=("<=", bar),
                data={"operator": f"tempo_gelu, {place} the minimum", "dtype": name},
            )


def measure_rows() -> list[Row]:
    """Returns all rows."""
    return [*_fp32_rows(), *_inverse_rows(), *_bf16_rows()]
