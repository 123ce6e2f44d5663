"""Arguments that do not fit, and layouts that are seldom seen."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from helpers import CASES, Case, ops
from torch.nn.attention import SDPBackend, sdpa_kernel

ROWWISE = [case for case in CASES if case.name != "linear_cross_entropy"]


def _layouts(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gives the same values in other strides."""
    layouts = {
        "sliced": torch.cat([tensor, tensor], -1)[..., : tensor.shape[-1]],
        "reversed in memory": tensor.permute(*range(tensor.dim())[::-1])
        .contiguous()
        .permute(*range(tensor.dim())[::-1]),
        "strided": torch.stack([tensor, tensor], -1)[..., 0],
        "offset": torch.cat([tensor.flatten()[:3], tensor.flatten()])[3:].view(tensor.shape),
    }
    if tensor.dim() == 4:
        layouts["channels last"] = tensor.contiguous(memory_format=torch.channels_last)
    return layouts


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layouts(case: Case):
    arguments = case.arguments(torch.float64, requires_grad=False)

    def run(*tensors):
        leaves = [t.requires_grad_() for t in tensors]
        result = case.op(*leaves)
        scale = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view_as(result)
        return result, *torch.autograd.grad(result, leaves, scale)

    want = run(*(a.clone() for a in arguments))
    for name in _layouts(arguments[0]):
        got = run(*(_layouts(a)[name].detach() for a in arguments))
        for a, b in zip(got, want):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-12), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layouts_of_gradients(case: Case):
    arguments = case.arguments(torch.float64)
    result = case.op(*arguments)
    scale = torch.randn_like(result)
    want = torch.autograd.grad(result, arguments, scale, retain_graph=True)
    if result.dim():
        for name, layout in _layouts(scale).items():
            got = torch.autograd.grad(result, arguments, layout, retain_graph=True)
            for a, b in zip(got, want):
                assert torch.allclose(a, b, rtol=1e-9, atol=1e-12), name
    one = torch.ones((), dtype=scale.dtype)
    want = torch.autograd.grad(result, arguments, one.expand_as(result).clone(), retain_graph=True)
    for a, b in zip(torch.autograd.grad(result, arguments, one.expand_as(result)), want):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


def test_expanded_input():
    row = torch.randn(1, 16, requires_grad=True)
    for case in ROWWISE:
        if len(case.shapes) == 1:
            case.op(row.expand(5, 16)).sum().backward()
    assert torch.isfinite(row.grad).all()
    heads = torch.randn(1, 1, 5, 8, requires_grad=True)
    expanded = heads.expand(2, 4, 5, 8)
    got = torch.autograd.grad(ops.attention(expanded, expanded, expanded).sum(), heads)
    want = torch.autograd.grad(
        F.scaled_dot_product_attention(expanded, expanded, expanded).sum(), heads
    )
    assert torch.allclose(got[0], want[0], atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 16), (2, 0, 16)])
def test_empty(shape):
    x = torch.randn(shape, requires_grad=True)
    weight = torch.randn(16, 16, requires_grad=True)
    row = torch.randn(16, requires_grad=True)
    results = [
        ops.linear(x, weight, row),
        ops.layer_norm(x, [16], row, row),
        ops.tempo_layer_norm(x, [16], row, row),
        ops.rms_norm(x, [16], row),
        ops.gelu(x),
        ops.tempo_gelu(x),
        ops.silu_mul(x, x),
        ops.dropout(x, 0.5, True),
    ]
    for result in results:
        assert result.shape == shape
    sum(r.sum() for r in results).backward()
    assert x.grad.shape == shape and not weight.grad.any() and not row.grad.any()


@pytest.mark.parametrize("operator", [ops.attention, ops.tempo_attention])
def test_empty_attention(operator):
    for batch, queries in ((0, 5), (2, 0)):
        heads = [torch.randn(batch, 4, s, 8, requires_grad=True) for s in (queries, 5, 5)]
        result = operator(*heads)
        assert result.shape == (batch, 4, queries, 8)
        result.sum().backward()
        assert all(not h.grad.any() for h in heads)


def test_empty_loss():
    x, weight = torch.randn(0, 16, requires_grad=True), torch.randn(9, 16, requires_grad=True)
    target = torch.empty(0, dtype=torch.long)
    for reduction in ("mean", "sum", "none"):
        got = ops.linear_cross_entropy(x, weight, target, reduction=reduction)
        want = F.cross_entropy(x @ weight.t(), target, reduction=reduction)
        assert torch.equal(got.isnan(), want.isnan()) and got.shape == want.shape
    # All ignored: torch gives NaN for the mean and zero for the sum.
    x, target = torch.randn(3, 16, requires_grad=True), torch.full((3,), -100)
    assert ops.linear_cross_entropy(x, weight, target).isnan()
    loss = ops.linear_cross_entropy(x, weight, target, reduction="sum")
    loss.backward()
    assert loss == 0 and not x.grad.any()


def _heads(*shapes):
    return [torch.randn(shape) for shape in shapes]


x, row, square = torch.randn(3, 16), torch.randn(16), torch.randn(16, 16)
REFUSED = {
    "features": lambda: ops.linear(x, torch.randn(8, 5)),
    "weight dimensions": lambda: ops.linear(x, row),
    "bias": lambda: ops.linear(x, square, torch.randn(5)),
    "integers": lambda: ops.linear(torch.ones(3, 16, dtype=torch.long), square),
    "integer activation": lambda: ops.gelu(torch.ones(3, dtype=torch.int32)),
    "mixed types": lambda: ops.linear(x.double(), square),
    "complex": lambda: ops.gelu(torch.ones(3, dtype=torch.complex64)),
    "normalised shape": lambda: ops.layer_norm(x, [8], row, row),
    "norm weight": lambda: ops.layer_norm(x, [16], row[:8], row),
    "rms weight": lambda: ops.rms_norm(x, [16], row[:8]),
    "no normalised shape": lambda: ops.layer_norm(x, []),
    "approximation": lambda: ops.gelu(x, approximate="sigmoid"),
    "gate and up": lambda: ops.silu_mul(x, x[:2]),
    "p below": lambda: ops.dropout(x, -0.1, True),
    "p above": lambda: ops.dropout(x, 1.5, True),
    "p not a number": lambda: ops.dropout(x, float("nan"), True),
    "three dimensions": lambda: ops.attention(*_heads((4, 5, 8), (4, 5, 8), (4, 5, 8))),
    "head dimensions": lambda: ops.attention(*_heads((1, 4, 5, 8), (1, 4, 5, 6), (1, 4, 5, 6))),
    "head groups": lambda: ops.attention(*_heads((1, 4, 5, 8), (1, 3, 5, 8), (1, 3, 5, 8))),
    "keys and values": lambda: ops.attention(*_heads((1, 4, 5, 8), (1, 4, 5, 8), (1, 4, 6, 8))),
    "batches": lambda: ops.attention(*_heads((2, 4, 5, 8), (3, 4, 5, 8), (3, 4, 5, 8))),
    "mask": lambda: ops.attention(*_heads(*[(1, 4, 5, 8)] * 3), torch.ones(5, 6, dtype=bool)),
    "integer mask": lambda: ops.attention(*_heads(*[(1, 4, 5, 8)] * 3), torch.ones(5, 5).long()),
    "attention p": lambda: ops.attention(*_heads(*[(1, 4, 5, 8)] * 3), None, 1.5),
    "tempo mask": lambda: ops.tempo_attention(*_heads(*[(1, 4, 5, 8)] * 3), torch.ones(6, 5)),
    "target type": lambda: ops.linear_cross_entropy(x, square, torch.ones(3)),
    "target shape": lambda: ops.linear_cross_entropy(x, square, torch.ones(4).long()),
    "target above": lambda: ops.linear_cross_entropy(x, square, torch.full((3,), 16)),
    "target below": lambda: ops.linear_cross_entropy(x, square, torch.full((3,), -1)),
    "reduction": lambda: ops.linear_cross_entropy(x, square, torch.ones(3).long(), reduction="max"),
    "smoothing": lambda: ops.linear_cross_entropy(
        x, square, torch.ones(3).long(), label_smoothing=1.5
    ),
    "chunk": lambda: ops.linear_cross_entropy(x, square, torch.ones(3).long(), chunk_tokens=-1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    """Says what was expected and what came."""
    with pytest.raises((RuntimeError, IndexError, ValueError), match=r"expected .*got"):
        REFUSED[name]()


def test_types_that_mix_as_in_torch():
    # Half input, float weights: what mixed-precision training feeds to norms.
    x, weight = torch.randn(3, 16).bfloat16(), torch.randn(16)
    got = ops.layer_norm(x, [16], weight, weight)
    want = F.layer_norm(x.float(), [16], weight, weight)
    assert got.dtype == torch.bfloat16 and torch.allclose(got.float(), want, atol=3e-2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_not_numbers_come_through(value):
    for case in CASES:
        if case.name == "dropout_eval" or ("attention" in case.name and value == float("-inf")):
            # The kernels of torch differ among themselves on what a score of -inf alone gives.
            continue
        arguments = case.arguments(requires_grad=False)
        arguments[0].flatten()[3] = value
        # The fused attention of torch loses NaN.
        with sdpa_kernel(SDPBackend.MATH):
            got, want = case.op(*arguments), case.reference(*arguments)
        if case.name.endswith(("gelu", "tanh", "silu_mul")) and value == float("-inf"):
            # Torch gives NaN in the limit, whose value is zero.
            want = torch.where(arguments[0] == value, got, want)
            assert got.flatten()[3] == 0 or got.flatten()[3].isnan()
        assert torch.equal(got.isfinite(), want.isfinite()), case.name
        finite = want.isfinite()
        assert torch.allclose(got[finite], want[finite], atol=1e-4), case.name


def test_gradients_of_not_numbers_stay_in_their_rows():
    x = torch.randn(4, 16)
    x[1, 2] = float("nan")
    x.requires_grad_()
    for operator in (
        lambda t: ops.layer_norm(t, [16]),
        lambda t: ops.tempo_layer_norm(t, [16]),
        lambda t: ops.rms_norm(t, [16]),
        ops.gelu,
        ops.tempo_gelu,
    ):
        (gradient,) = torch.autograd.grad(operator(x).square().sum(), x)
        assert gradient[[0, 2, 3]].isfinite().all()
        assert not gradient[1].isfinite().all()


@pytest.mark.parametrize("operator", [ops.attention, ops.tempo_attention])
def test_rows_that_see_nothing(operator):
    """As in torch: zero, and no gradient."""
    heads = [torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3)]
    seen = torch.ones(4, 4, dtype=torch.bool)
    seen[1] = False
    for mask in (seen, torch.zeros(4, 4).masked_fill(~seen, float("-inf"))):
        got = operator(*heads, mask)
        want = F.scaled_dot_product_attention(*heads, attn_mask=mask)
        assert torch.allclose(got, want, atol=1e-6)
        gradients = torch.autograd.grad(got.square().sum(), heads)
        wanted = torch.autograd.grad(want.square().sum(), heads)
        for a, b in zip(gradients, wanted):
            assert a.isfinite().all() and torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("n", [(1 << 31) + 64])
def test_sizes_beyond_32_bits_on_meta(n):
    x = torch.empty(n // 64, 64, device="meta", requires_grad=True)
    row = torch.empty(64, device="meta", requires_grad=True)
    for result in (
        ops.gelu(x),
        ops.tempo_gelu(x),
        ops.silu_mul(x, x),
        ops.dropout(x, 0.1, True),
        ops.layer_norm(x, [64], row, row),
        ops.rms_norm(x, [64], row),
        ops.linear(x, torch.empty(64, 64, device="meta")),
    ):
        assert result.shape == x.shape
        result.sum().backward()


def test_more_rows_than_16_bits():
    rows = (1 << 16) + 3
    x = torch.randn(rows, 4, requires_grad=True)
    row = torch.randn(4, requires_grad=True)
    for ours, theirs in (
        (lambda: ops.layer_norm(x, [4], row, row), lambda: F.layer_norm(x, [4], row, row)),
        (lambda: ops.rms_norm(x, [4], row, 1e-5), lambda: F.rms_norm(x, [4], row, 1e-5)),
        (lambda: ops.gelu(x), lambda: F.gelu(x)),
    ):
        got, want = (
            (y, *torch.autograd.grad(y.square().sum(), (x, row), allow_unused=True))
            for y in (ours(), theirs())
        )
        for a, b in itertools.compress(zip(got, want), [t is not None for t in want]):
            assert torch.allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_second_backward_through_a_freed_graph(case: Case):
    arguments = case.arguments()
    if case.name == "dropout_eval":
        pytest.skip("passes its input on")
    result = case.op(*arguments)
    result.sum().backward(retain_graph=True)
    first = [a.grad.clone() for a in arguments]
    result.sum().backward()
    for a, b in zip(arguments, first):
        assert torch.allclose(a.grad, 2 * b, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="second time|already been freed"):
        result.sum().backward()


def test_second_backward_through_a_recomputed_input():
    x = torch.randn(3, 16, requires_grad=True)
    weight = torch.randn(16, 16, requires_grad=True)
    result = ops.linear(ops.gelu(x), weight).sum()
    result.backward(retain_graph=True)
    first = weight.grad.clone()
    result.backward()
    assert torch.allclose(weight.grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time|already been freed"):
        result.backward()
    # Gradients of a part of the graph, the producer's backward does not run in between.
    result = ops.linear(ops.gelu(x), weight).sum()
    (only,) = torch.autograd.grad(result, weight)
    assert torch.allclose(only, first)


def test_changed_in_place_is_noticed():
    x = torch.randn(3, 16, requires_grad=True)
    weight = torch.randn(16, 16, requires_grad=True)
    y = x * 1
    result = ops.gelu(y)
    with torch.no_grad():
        y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    # The product needs what the producer gave, not what became of it.
    y = ops.gelu(x)
    result = ops.linear(y, weight)
    with torch.no_grad():
        y.mul_(2)
    try:
        (gradient,) = torch.autograd.grad(result.sum(), weight)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        assert torch.allclose(gradient, F.gelu(x).sum(0).expand(16, 16), atol=1e-5)


def test_constant_rows():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for eps in (1e-12, 1e-5):
            x = torch.full((3, 64), 7.0, dtype=dtype, requires_grad=True)
            weight = torch.ones(64, dtype=dtype, requires_grad=True)
            for operator in (ops.layer_norm, ops.tempo_layer_norm):
                y = operator(x, [64], weight, weight, eps)
                gradients = torch.autograd.grad(y.sum(), (x, weight))
                assert y.isfinite().all() and all(g.isfinite().all() for g in gradients)


def test_zero_weights_train():
    x = torch.randn(8, 16, requires_grad=True)
    weight = torch.ones(16)
    weight[3] = 0
    weight.requires_grad_()
    bias = torch.zeros(16, requires_grad=True)
    for operator in (ops.layer_norm, ops.tempo_layer_norm):
        got = torch.autograd.grad(
            operator(x, [16], weight, bias).square().sum() + operator(x, [16], weight, bias).sum(),
            (x, weight, bias),
        )
        want = torch.autograd.grad(
            F.layer_norm(x, [16], weight, bias).square().sum()
            + F.layer_norm(x, [16], weight, bias).sum(),
            (x, weight, bias),
        )
        for a, b in zip(got, want):
            assert torch.allclose(a, b, atol=1e-4)
        assert got[1][3].abs() > 0
