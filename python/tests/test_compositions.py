"""What a device without kernels of its own gets: compositions of torch's operators, run on CPU.

The dispatcher's entry of a backend that is not there holds the composition; calling it with CPU
tensors runs it on CPU.
"""

import pytest
import torch
from helpers import ops

OTHER_DEVICE = torch._C.DispatchKeySet(torch._C.DispatchKey.XLA)
BOUNDS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}


def _random(*shape) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64)


def _norm(forward: str, extra: tuple) -> tuple:
    """Arguments of a norm's forward and of its backward, the rows' statistics among these."""
    x, dy, weight = _random(6, 33), _random(6, 33), _random(33)
    statistics = getattr(ops, forward)(x, 1, weight, *extra)[1:]
    # Statistics are fp32 or wider, whatever the type of the input.
    return x, dy, weight, tuple(t.float() for t in statistics)


def _cases() -> dict[str, tuple]:
    torch.manual_seed(0)
    x, dy, up = _random(6, 33), _random(6, 33), _random(6, 33)
    layer_x, layer_dy, weight, layer = _norm("layer_norm_fwd", (_random(33), 1e-5))
    rms_x, rms_dy, rms_weight, rms = _norm("rms_norm_fwd", (1e-6,))
    target = torch.tensor([0, 3, -100, 8, 2, 5])
    return {
        "gelu_fwd": (x, "none"),
        "gelu_bwd": (dy, x, "tanh"),
        "silu_mul_fwd": (x, up),
        "silu_mul_bwd": (dy, x, up),
        "layer_norm_fwd": (layer_x, 1, weight, _random(33), 1e-5),
        "layer_norm_bwd": (layer_dy, layer_x, 1, weight, *layer, [True] * 3),
        "rms_norm_fwd": (rms_x, 1, rms_weight, 1e-6),
        "rms_norm_bwd": (rms_dy, rms_x, 1, rms_weight, *rms, [True] * 2),
        "dropout_apply": (x, torch.tensor([123456789]), 0.3),
        "linear_cross_entropy_rows": (
            *(_random(6, 16), _random(9, 16), target, _random(9)),
            *(torch.full((6,), 0.2), -100, 0.1, 1e-3, 4, [True] * 3),
        ),
    }


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("name", _cases())
def test_is_the_kernel_of_cpu(name, dtype):
    if name.startswith("layer_norm") and dtype.itemsize == 2:
        pytest.skip("torch's layer norm keeps its statistics in halves on CPU, in fp32 elsewhere")

    def convert(value):
        is_input = isinstance(value, torch.Tensor) and value.dtype == torch.float64
        return value.to(dtype) if is_input else value

    arguments = [convert(value) for value in _cases()[name]]
    if dtype == torch.float64:
        arguments = [
            value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
            for value in arguments
        ]
    operator = getattr(ops, name).default
    want, got = operator(*arguments), operator.redispatch(OTHER_DEVICE, *arguments)
    if isinstance(want, torch.Tensor):
        want, got = (want,), (got,)
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        error = (a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-30)
        assert float(error) <= BOUNDS[dtype]


def test_dropout_draws_the_same_mask():
    x, seed = torch.ones(1000), torch.tensor([-(2**61) + 99])
    got = ops.dropout_apply.default.redispatch(OTHER_DEVICE, x, seed, 0.4)
    assert torch.equal(got, ops.dropout_apply(x, seed, 0.4))
