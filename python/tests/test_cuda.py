"""The CUDA kernels of operators, against the CPU's and float64. All skipped where no GPU is."""

import pytest
import torch
import torch.nn.functional as F
from helpers import ops

import palmist._library as library

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
#: Rows of whole vectors, of odd lengths, of one element, and more than shared memory holds.
SHAPES = [(5, 4096), (3, 7, 33), (70, 257), (4, 1), (2, 20000)]
#: Relative errors against float64: the roundings of the result, and sums in float32.
BOUNDS = {
    torch.float64: 1e-12,
    torch.float32: 2e-6,
    torch.float16: 2e-3,
    torch.bfloat16: 1.5e-2,
}


def _has_kernel(name: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"palmist::{name}", "CUDA")


def _random(shape, dtype, scale=1.0) -> torch.Tensor:
    return (torch.randn(shape, dtype=torch.float64) * scale).to(dtype)


def _error(got: torch.Tensor, exact: torch.Tensor) -> float:
    got, exact = got.detach(), exact.detach().double().cpu()
    return float((got.double().cpu() - exact).norm() / exact.norm().clamp_min(1e-30))


def _free_bytes() -> int:
    return torch.cuda.mem_get_info()[0]


def test_library_is_loaded():
    path = library.find_library("palmist_ops").with_name("libpalmist_ops_cuda.so")
    if not path.is_file():
        pytest.skip("built without PALMIST_WITH_CUDA")
    names = ("dropout_apply", "rms_norm_fwd", "rms_norm_bwd", "silu_mul_fwd", "silu_mul_bwd")
    assert all(map(_has_kernel, names))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 63, 64, 65, 100_003])
@pytest.mark.parametrize("p", [0.0, 1e-9, 0.1, 0.5, 1.0])
def test_dropout_is_the_cpus(dtype, size, p):
    x = _random((size,), dtype, 3)
    seed = torch.tensor([-(2**61) + 12345])
    device = x.cuda()
    # All, a view that begins between two vectors, and one with gaps.
    for view in (slice(None), slice(1, None), slice(None, None, 2)):
        got = ops.dropout_apply(device[view], seed, p)
        assert torch.equal(got.cpu(), ops.dropout_apply(x[view], seed, p))


def test_dropout_of_lost_numbers():
    x = torch.full((4096,), float("nan"), device="cuda")
    y = ops.dropout_apply(x, torch.tensor([7]), 0.5)
    assert 0 < int((y == 0).sum()) < 4096
    assert torch.equal(ops.dropout_apply(x, torch.tensor([7]), 1.0), torch.zeros_like(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_silu_mul(dtype, shape):
    gate, up, dy = (_random(shape, dtype, scale) for scale in (4, 1, 1))
    exact_gate, exact_up = (t.double().requires_grad_() for t in (gate, up))
    exact = F.silu(exact_gate) * exact_up
    exact_gradients = torch.autograd.grad(exact, (exact_gate, exact_up), dy.double())
    device = [t.cuda() for t in (gate, up)]
    assert _error(ops.silu_mul_fwd(*device), exact) <= BOUNDS[dtype]
    for got, want in zip(ops.silu_mul_bwd(dy.cuda(), *device), exact_gradients):
        assert _error(got, want) <= BOUNDS[dtype]


def test_silu_mul_at_the_ends():
    gate = torch.tensor([float("-inf"), -200.0, -0.0, 0.0, 200.0, float("inf"), float("nan")])
    one = torch.ones_like(gate)

    def run(gate, one):
        return (ops.silu_mul_fwd(gate, one), *ops.silu_mul_bwd(one, gate, one))

    for got, want in zip(run(gate.cuda(), one.cuda()), run(gate, one)):
        assert torch.equal(got.cpu().nan_to_num(nan=7), want.nan_to_num(nan=7))


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rms_norm(dtype, shape, weighted):
    if shape[-1] == 1 and dtype != torch.float64:
        pytest.skip("the gradient of a row of one element is what rounding leaves")
    x, dy = _random(shape, dtype, 2), _random(shape, dtype)
    weight = _random(shape[-1:], dtype) if weighted else None
    exact = [t.double().requires_grad_() for t in (x, weight) if t is not None]
    result = F.rms_norm(exact[0], shape[-1:], exact[1] if weighted else None, 1e-3)
    exact_gradients = torch.autograd.grad(result, exact, dy.double())
    device = [t if t is None else t.cuda() for t in (x, weight)]
    y, rstd = ops.rms_norm_fwd(device[0], 1, device[1], 1e-3)
    assert _error(y, result) <= BOUNDS[dtype]
    again, _ = ops.rms_norm_fwd(device[0].clone(), 1, device[1], 1e-3)
    assert torch.equal(y, again)
    gradients = ops.rms_norm_bwd(dy.cuda(), device[0], 1, device[1], rstd, [True, weighted])
    for got, want in zip(gradients, exact_gradients):
        assert got.dtype == dtype
        assert _error(got, want) <= BOUNDS[dtype]


def test_rms_norm_of_mixed_types():
    x = _random((6, 64), torch.bfloat16).cuda().requires_grad_()
    weight = _random((64,), torch.float32).cuda().requires_grad_()
    got = ops.rms_norm(x, [64], weight, 1e-5)
    want = ops.rms_norm(x.cpu(), [64], weight.cpu(), 1e-5)
    assert got.dtype == torch.float32
    assert _error(got.detach(), want.detach()) <= 4e-3
    dy = torch.randn_like(got)
    for a, b in zip(
        torch.autograd.grad(got, (x, weight), dy),
        torch.autograd.grad(want, (x, weight), dy.cpu()),
    ):
        assert a.dtype == b.dtype and _error(a, b) <= 4e-3


@pytest.mark.parametrize("rows", [2**16 + 3, 2**20 + 1])
def test_rms_norm_of_many_rows(rows):
    x = torch.randn(rows, 24, device="cuda")
    weight = torch.rand(24, device="cuda") + 0.5
    y, rstd = ops.rms_norm_fwd(x, 1, weight, 1e-5)
    assert _error(y, F.rms_norm(x.double(), [24], weight.double(), 1e-5)) <= 2e-6
    dx, dweight = ops.rms_norm_bwd(y, x, 1, weight, rstd, [True, True])
    again = ops.rms_norm_bwd(y, x, 1, weight, rstd, [True, True])
    assert torch.equal(dx, again[0]) and torch.equal(dweight, again[1])
    exact = (y.double() * x.double() * rstd.double()).sum(0)
    assert _error(dweight, exact) <= 2e-6


def _rows(logits, target, write_gradient=True, ignore_index=-100, smoothing=0.0, z_loss=0.0):
    if not _has_kernel("cross_entropy_rows_"):
        pytest.skip("palmist::cross_entropy_rows_ is not there")
    compute = torch.float64 if logits.dtype == torch.float64 else torch.float32
    loss = torch.empty(len(target), dtype=compute, device=logits.device)
    ops.cross_entropy_rows_(logits, target, ignore_index, smoothing, z_loss, write_gradient, loss)
    return loss


@pytest.mark.parametrize("smoothing, z_loss", [(0.0, 0.0), (0.1, 0.0), (0.0, 1e-3), (0.2, 1e-2)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("classes", [1, 7, 1024, 50257])
def test_cross_entropy_rows(dtype, classes, smoothing, z_loss):
    logits = _random((9, classes), dtype, 3)
    target = torch.randint(0, classes, (9,))
    target[4] = -100
    exact = logits.double().requires_grad_()
    counts = target != -100
    losses = F.cross_entropy(exact, target, reduction="none", label_smoothing=smoothing)
    losses = (losses + z_loss * exact.logsumexp(1).square()) * counts
    (gradient,) = torch.autograd.grad(losses.sum(), exact)
    device = logits.cuda()
    got = _rows(device, target.cuda(), True, -100, smoothing, z_loss)
    assert (got.double().cpu() - losses).abs().max() <= (1e-11 if dtype == torch.float64 else 2e-5)
    assert (device.double().cpu() - gradient).abs().max() <= BOUNDS[dtype]
    untouched = logits.cuda()
    assert torch.equal(_rows(untouched, target.cuda(), False, -100, smoothing, z_loss), got)
    assert torch.equal(untouched.cpu(), logits)


def test_cross_entropy_rows_of_hidden_classes_and_bad_targets():
    logits = torch.randn(3, 300, device="cuda")
    logits[:, 5] = float("-inf")
    want = logits.double().log_softmax(1)
    target = torch.tensor([2, 300, -1], device="cuda")
    loss = _rows(logits, target)
    assert abs(float(loss[0]) + float(want[0, 2])) <= 1e-5
    assert float(logits[0, 5]) == 0
    assert loss[1:].isnan().all() and logits[1:].isnan().all()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_linear_cross_entropy(reduction):
    x = _random((50, 32), torch.float32).requires_grad_()
    weight = _random((301, 32), torch.float32).requires_grad_()
    target = torch.randint(0, 301, (50,))
    target[7] = -100
    want = ops.linear_cross_entropy(x, weight, target, reduction=reduction, chunk_tokens=16)
    got = ops.linear_cross_entropy(
        x.cuda(), weight.cuda(), target.cuda(), reduction=reduction, chunk_tokens=16
    )
    assert torch.allclose(got.cpu(), want, rtol=1e-4, atol=1e-4)
    scale = torch.rand_like(want)
    for a, b in zip(
        torch.autograd.grad(got, (x, weight), scale.cuda()),
        torch.autograd.grad(want, (x, weight), scale),
    ):
        assert _error(a, b) <= 1e-4


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1, 8, 1003, 65536])
def test_tempo_gelu(dtype, size, approximate):
    if not _has_kernel("tempo_gelu_fwd"):
        pytest.skip("built without PALMIST_WITH_CUDA")
    x, dy = _random((size,), dtype, 3), _random((size,), dtype)
    want, want_bits = ops.tempo_gelu_fwd(x, approximate)
    got, bits = ops.tempo_gelu_fwd(x.cuda(), approximate)
    assert torch.equal(bits.cpu(), want_bits)
    assert _error(got, F.gelu(x.double(), approximate=approximate)) <= BOUNDS[dtype]
    # From one output: what the two forwards round differently is not the backward's.
    got = ops.tempo_gelu_bwd(dy.cuda(), want.cuda(), bits, approximate)
    assert _error(got, ops.tempo_gelu_bwd(dy, want, want_bits, approximate)) <= BOUNDS[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_tensors(dtype):
    x = torch.empty(0, 8, dtype=dtype, device="cuda")
    weight = torch.ones(8, dtype=dtype, device="cuda")
    assert ops.dropout_apply(x, torch.tensor([1]), 0.5).shape == x.shape
    assert ops.silu_mul_fwd(x, x).shape == x.shape
    assert [t.shape for t in ops.silu_mul_bwd(x, x, x)] == [x.shape] * 2
    y, rstd = ops.rms_norm_fwd(x, 1, weight, 1e-5)
    assert y.shape == x.shape and rstd.shape == (0, 1)
    dx, dweight = ops.rms_norm_bwd(x, x, 1, weight, rstd, [True, True])
    assert dx.shape == x.shape and torch.equal(dweight, torch.zeros_like(weight))
    torch.cuda.synchronize()


def test_runs_on_the_current_stream():
    x = torch.randn(1 << 22, device="cuda")
    want = ops.silu_mul_fwd(x + 1, x + 1)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    y = torch.zeros_like(x)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)  # what is queued elsewhere would overtake the copy
        y.copy_(x + 1)
        got = ops.silu_mul_fwd(y, y)
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(got, want)


def test_refuses_other_devices():
    x = torch.randn(4, 8, device="cuda")
    with pytest.raises(RuntimeError, match="silu_mul: expected up on cuda"):
        ops.silu_mul_fwd(x, x.cpu())
    with pytest.raises(RuntimeError, match="rms_norm: expected weight on cuda"):
        ops.rms_norm_fwd(x, 1, torch.ones(8), 1e-5)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_runs_on_the_tensors_device():
    x = torch.randn(64, 128, device="cuda:1")
    with torch.cuda.device(0):
        got = ops.silu_mul_fwd(x, x)
    assert got.device == x.device
    assert _error(got, F.silu(x) * x) <= 1e-6


def test_more_than_2_to_the_31_elements():
    n = 2**31 + 64 + 5
    if _free_bytes() < 5 * 2 * n:
        pytest.skip(f"needs {5 * 2 * n / 2**30:.0f} GiB of GPU memory")
    x = torch.ones(n, dtype=torch.bfloat16, device="cuda")
    y = ops.silu_mul_fwd(x, x)
    assert torch.equal(y[-100:], y[:100]) and float(y[-1]) == float(F.silu(x[-1:]))
    del y
    y = ops.dropout_apply(x, torch.tensor([3]), 0.5)
    # The last block's words are those of its own index: dropping its head moves nothing.
    words = ops.dropout_apply(x[: n % 64 + 64], torch.tensor([3]), 0.5)
    tail = y[n // 64 * 64 - 64 :]
    assert set(tail.tolist()) <= {0.0, 2.0} and not torch.equal(tail, words)
    kept = sum(int((part != 0).sum()) for part in y.split(2**28))
    assert abs(kept - n / 2) <= 5 * (n / 4) ** 0.5
    del y, x
    rows = 2**17 + 1
    x = torch.ones(rows, 2**14, dtype=torch.bfloat16, device="cuda")
    y, rstd = ops.rms_norm_fwd(x, 1, None, 0.0)
    assert torch.equal(rstd, torch.ones_like(rstd)) and torch.equal(y[-1], x[-1])
