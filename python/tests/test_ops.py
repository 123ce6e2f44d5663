"""The operators: values, gradients, registrations, dropout."""

import pytest
import torch
import torch.nn.functional as F
from helpers import CASES, TEMPO, Case, ops
from torch.autograd.gradcheck import GradcheckError
from torch.utils.checkpoint import checkpoint

LEAN = [case for case in CASES if not case.name.startswith("tempo")]


def _error(got: torch.Tensor, exact: torch.Tensor) -> float:
    return float((got.double() - exact.double()).norm() / exact.double().norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_matches_torch(case: Case, dtype):
    arguments = case.arguments(dtype)
    exact_arguments = [a.detach().double().requires_grad_() for a in arguments]
    exact = case.reference(*exact_arguments)
    result = case.op(*arguments)
    weights = torch.randn_like(exact)
    gradients = torch.autograd.grad(result, arguments, weights.to(result.dtype))
    exact_gradients = torch.autograd.grad(exact, exact_arguments, weights.to(dtype).double())
    # The roundings of the type; the output-only operators lose a little more beside the minimum.
    bound = {
        torch.float64: 1e-4 if case.name in TEMPO[1:] else 1e-10,
        torch.float32: 1e-4 if case.name in TEMPO else 2e-6,
        torch.float16: 6e-3,
        torch.bfloat16: 4e-2,
    }[dtype]
    assert _error(result, exact) <= bound
    for gradient, exact_gradient in zip(gradients, exact_gradients):
        assert gradient.dtype == dtype
        assert _error(gradient, exact_gradient) <= bound


@pytest.mark.parametrize("case", LEAN, ids=str)
def test_gradcheck(case: Case):
    torch.autograd.gradcheck(case.op, case.arguments(torch.float64), fast_mode=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_double_backward_is_right_or_refused(case: Case):
    arguments = case.arguments(torch.float64)
    try:
        torch.autograd.gradgradcheck(case.op, arguments, fast_mode=True)
    except RuntimeError as error:
        assert not isinstance(error, GradcheckError)
        # An error names what to use instead; those without one are differentiable throughout.
        assert case.name.startswith(("tempo", "linear_cross_entropy"))
        assert "; use " in str(error)


@pytest.mark.parametrize("case", LEAN, ids=str)
def test_opcheck(case: Case):
    calls = {
        "linear": (ops.linear.default, lambda a: a, {}),
        "layer_norm": (ops.layer_norm.default, lambda a: (a[0], [16], a[1], a[2]), {}),
        "rms_norm": (ops.rms_norm.default, lambda a: (a[0], [16], a[1]), {}),
        "gelu": (ops.gelu.default, lambda a: a, {}),
        "gelu_tanh": (ops.gelu.default, lambda a: a, {"approximate": "tanh"}),
        "silu_mul": (ops.silu_mul.default, lambda a: a, {}),
        "dropout_eval": (ops.dropout.default, lambda a: (a[0], 0.5, False), {}),
        "attention": (ops.attention.default, lambda a: a, {}),
        "attention_causal": (ops.attention.default, lambda a: (*a, None, 0.0, True), {}),
        "linear_cross_entropy": (
            ops.linear_cross_entropy.default,
            lambda a: (a[0], a[1], torch.arange(6), a[2]),
            {},
        ),
    }
    operator, order, options = calls[case.name]
    torch.library.opcheck(operator, tuple(order(case.arguments())), options)


@pytest.mark.parametrize("name", ["tempo_gelu", "tempo_layer_norm", "tempo_attention"])
def test_opcheck_tempo(name):
    arguments = {
        "tempo_gelu": (torch.randn(3, 16, requires_grad=True),),
        "tempo_layer_norm": (torch.randn(3, 16, requires_grad=True), [16]),
        "tempo_attention": tuple(torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3)),
    }[name]
    torch.library.opcheck(getattr(ops, name).default, arguments)


def test_opcheck_random():
    # Draws differ from call to call, so what compares runs has to be left out.
    tests = ("test_schema", "test_faketensor")
    x = torch.randn(4, 8, requires_grad=True)
    heads = [torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3)]
    torch.library.opcheck(ops.dropout.default, (x, 0.5, True), test_utils=tests)
    for operator in (ops.attention.default, ops.tempo_attention.default):
        torch.library.opcheck(operator, (*heads, None, 0.5), test_utils=tests)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("chunk_tokens", [0, 1, 4])
def test_linear_cross_entropy_chunks(reduction, chunk_tokens):
    x = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(9, 16, dtype=torch.float64, requires_grad=True)
    target = torch.randint(0, 9, (2, 5))
    target[0, 3] = 7
    options = {"reduction": reduction, "ignore_index": 7}
    got = ops.linear_cross_entropy(x, weight, target, chunk_tokens=chunk_tokens, **options)
    want = F.cross_entropy((x @ weight.t()).flatten(0, 1), target.flatten(), **options)
    assert torch.allclose(got.flatten(), want.flatten())
    scale = torch.randn_like(got)
    for a, b in zip(
        torch.autograd.grad(got, (x, weight), scale),
        torch.autograd.grad(want, (x, weight), scale.view_as(want)),
    ):
        assert torch.allclose(a, b)


def test_linear_cross_entropy_z_loss():
    x = torch.randn(5, 16, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(9, 16, dtype=torch.float64, requires_grad=True)
    target = torch.randint(0, 9, (5,))
    got = ops.linear_cross_entropy(x, weight, target, z_loss=0.01)
    logits = x @ weight.t()
    want = F.cross_entropy(logits, target) + 0.01 * logits.logsumexp(-1).square().mean()
    assert torch.allclose(got, want)
    for a, b in zip(torch.autograd.grad(got, (x, weight)), torch.autograd.grad(want, (x, weight))):
        assert torch.allclose(a, b)


@pytest.mark.parametrize("operator", [ops.attention, ops.tempo_attention])
@pytest.mark.parametrize("kind", ["bool", "additive", "row", "learned"])
def test_attention_masks(operator, kind):
    heads = [torch.randn(2, 4, n, 8, dtype=torch.float64) for n in (5, 7, 7)]
    heads = [h.requires_grad_() for h in heads]
    mask = {
        "bool": torch.rand(2, 1, 5, 7) > 0.3,
        "additive": torch.randn(2, 4, 5, 7, dtype=torch.float64),
        "row": torch.rand(2, 1, 1, 7) > 0.3,
        "learned": torch.randn(1, 4, 5, 7, dtype=torch.float64, requires_grad=True),
    }[kind]
    if mask.dtype == torch.bool:
        mask[..., 0] = True
    wanted = [*heads, mask] if kind == "learned" else heads
    got = operator(*heads, mask, scale=0.3)
    want = F.scaled_dot_product_attention(*heads, attn_mask=mask, scale=0.3)
    assert torch.allclose(got, want)
    scale = torch.randn_like(got)
    for a, b in zip(
        torch.autograd.grad(got, wanted, scale), torch.autograd.grad(want, wanted, scale)
    ):
        assert torch.allclose(a, b)


def test_attention_result_is_free_to_reshape():
    heads = [torch.randn(2, 4, 5, 8) for _ in range(3)]
    assert ops.attention(*heads).transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("length", [1, 17, 64, 129])
def test_attention_lengths(length):
    heads = [torch.randn(1, 2, length, 16, requires_grad=True) for _ in range(3)]
    got = ops.attention(*heads, None, 0.0, True)
    want = F.scaled_dot_product_attention(*heads, is_causal=True)
    assert torch.allclose(got, want, atol=1e-5)
    scale = torch.randn_like(got)
    for a, b in zip(
        torch.autograd.grad(got, heads, scale), torch.autograd.grad(want, heads, scale)
    ):
        assert torch.allclose(a, b, atol=1e-5)


class TestDropout:
    def test_keep_rate_and_scale(self):
        p, n = 0.3, 200_000
        y = ops.dropout(torch.ones(n), p, True)
        kept = int((y != 0).sum())
        assert abs(kept - n * (1 - p)) < 5 * (n * p * (1 - p)) ** 0.5
        assert torch.allclose(y[y != 0], torch.tensor(1 / (1 - p)))

    def test_backward_has_the_mask_of_forward(self):
        x = torch.randn(1000, requires_grad=True)
        y = ops.dropout(x, 0.4, True)
        y.sum().backward()
        assert torch.equal(x.grad != 0, y != 0)

    def test_calls_differ_and_a_seed_repeats(self):
        x = torch.ones(1000)
        torch.manual_seed(3)
        first, second = ops.dropout(x, 0.5, True), ops.dropout(x, 0.5, True)
        torch.manual_seed(3)
        assert not torch.equal(first, second)
        assert torch.equal(ops.dropout(x, 0.5, True), first)

    def test_mask_does_not_depend_on_threads(self):
        x = torch.ones(100_003)
        masks = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch.manual_seed(5)
            masks.append(ops.dropout(x, 0.5, True))
        assert torch.equal(*masks)

    def test_edges(self):
        x = torch.randn(50, requires_grad=True)
        assert torch.equal(ops.dropout(x, 0.0, True), x)
        assert torch.equal(ops.dropout(x, 0.5, False), x)
        y = ops.dropout(x, 1.0, True)
        y.sum().backward()
        assert not y.any() and not x.grad.any()

    def test_keeps_no_mask(self):
        from helpers import kept_bytes

        x = torch.randn(1 << 16, requires_grad=True)
        assert kept_bytes(ops.dropout, x, 0.5, True) <= 64

    @pytest.mark.parametrize("operator", [ops.attention, ops.tempo_attention])
    def test_attention_drops_probabilities(self, operator):
        # Values of one give the sum of what was kept: its mean is one, and it varies.
        query, key = (torch.randn(4, 4, 64, 16) for _ in range(2))
        value = torch.ones(4, 4, 64, 16, requires_grad=True)
        y = operator(query, key, value, None, 0.2)
        assert abs(float(y.mean()) - 1) < 0.02
        assert float(y.std()) > 0.01
        # What a value got to weigh in forward is its gradient in backward.
        y.sum().backward()
        assert abs(float(value.grad.sum() - y.sum())) < 1e-2

    @pytest.mark.parametrize("operator", [ops.attention, ops.tempo_attention])
    def test_attention_gradients_are_of_the_drawn_mask(self, operator):
        def attend(query, key, value):
            torch.manual_seed(11)
            return operator(query, key, value, None, 0.3)

        arguments = [
            torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)
        ]
        torch.autograd.gradcheck(attend, arguments)

    @pytest.mark.parametrize("use_reentrant", [False, True])
    def test_checkpoint_repeats_the_mask(self, use_reentrant):
        x = torch.randn(1000, requires_grad=True)
        y = checkpoint(lambda t: ops.dropout(t, 0.5, True), x, use_reentrant=use_reentrant)
        y.sum().backward()
        assert torch.equal(x.grad != 0, y != 0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_grad_keeps_nothing(case: Case):
    with torch.no_grad():
        assert case.op(*case.arguments()).grad_fn is None
    with torch.inference_mode():
        assert case.op(*case.arguments(requires_grad=False)).is_inference()
    assert case.op(*case.arguments(requires_grad=False)).grad_fn is None


@pytest.mark.parametrize("case", CASES, ids=str)
def test_meta(case: Case):
    if case.name == "linear_cross_entropy":
        pytest.skip("the target of this case has values")
    result = case.op(*(a.to("meta") for a in case.arguments()))
    want = case.op(*case.arguments())
    assert result.device.type == "meta"
    assert result.shape == want.shape and result.stride() == want.stride()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_function_transforms(case: Case):
    """vmap loops over the operator; transforms that differentiate are refused."""
    arguments = case.arguments(torch.float64, requires_grad=False)
    first, *others = arguments
    batch = torch.stack([first, first + 1])
    got = torch.func.vmap(lambda x: case.op(x, *others))(batch)
    want = torch.stack([case.op(x, *others) for x in batch])
    assert torch.allclose(got, want)
    if case.name != "dropout_eval":
        with pytest.raises(RuntimeError):
            torch.func.grad(lambda *a: case.op(*a).sum())(*arguments)


def test_lean_linear_recomputes_bitwise():
    """The gradient of a weight is the same bits as when the input is kept."""
    x = torch.randn(4, 6, 32)
    weight = torch.randn(8, 32)
    norm = (torch.randn(32), torch.randn(32))
    producers = [
        lambda t: ops.gelu(t),
        lambda t: ops.layer_norm(t, [32], *norm),
        lambda t: ops.rms_norm(t, [32], norm[0]),
        lambda t: ops.silu_mul(t, t),
    ]
    for producer in producers:
        gradients = []
        for break_link in (False, True):
            w = weight.clone().requires_grad_()
            y = producer(x.clone().requires_grad_())
            ops.linear(y.clone() if break_link else y, w).square().sum().backward()
            gradients.append(w.grad)
        assert torch.equal(*gradients)
