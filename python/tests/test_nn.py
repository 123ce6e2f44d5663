"""The modules: torch's constructors, keys and values."""

import copy
import pickle

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from palmist import nn

#: Ours, torch's, the shape of an input.
PAIRS = {
    "Linear": (lambda m, **v: m.Linear(16, 8), {}, (2, 3, 16)),
    "Linear without bias": (lambda m, **v: m.Linear(16, 8, bias=False), {}, (16,)),
    "GELU": (lambda m, **v: m.GELU(**v), {"variant": "lean"}, (2, 3, 16)),
    "GELU tanh": (lambda m, **v: m.GELU("tanh", **v), {"variant": "lean"}, (2, 3, 16)),
    "GELU tempo": (lambda m, **v: m.GELU(**v), {"variant": "tempo"}, (2, 3, 16)),
    "LayerNorm": (lambda m, **v: m.LayerNorm(16, eps=1e-3, **v), {"variant": "lean"}, (2, 3, 16)),
    "LayerNorm tempo": (lambda m, **v: m.LayerNorm(16, **v), {"variant": "tempo"}, (2, 3, 16)),
    "LayerNorm of two dimensions": (lambda m, **v: m.LayerNorm((3, 16)), {}, (2, 3, 16)),
    "LayerNorm without bias": (lambda m, **v: m.LayerNorm(16, bias=False), {}, (2, 3, 16)),
    "LayerNorm without weights": (
        lambda m, **v: m.LayerNorm(16, elementwise_affine=False, **v),
        {"variant": "tempo"},
        (2, 3, 16),
    ),
    "RMSNorm": (lambda m, **v: m.RMSNorm(16), {}, (2, 3, 16)),
    "RMSNorm with eps": (lambda m, **v: m.RMSNorm((3, 16), eps=1e-2), {}, (2, 3, 16)),
    "RMSNorm without weights": (
        lambda m, **v: m.RMSNorm(16, elementwise_affine=False),
        {},
        (2, 3, 16),
    ),
    "Dropout of nothing": (lambda m, **v: m.Dropout(0.0), {}, (2, 3, 16)),
}


def _pair(name):
    build, options, shape = PAIRS[name]
    theirs, ours = build(torch.nn), build(nn, **options)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return ours, theirs, torch.randn(shape)


def _run(module, x):
    x = x.clone().requires_grad_()
    y = module(x)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y))
    return [y, x.grad, *(p.grad for p in module.parameters())]


def _assert_close(got, want, tolerance):
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        assert float((a - b).detach().double().norm()) <= tolerance * float(
            b.detach().double().norm()
        )


@pytest.mark.parametrize("name", PAIRS)
def test_is_its_namesake(name):
    ours, theirs, x = _pair(name)
    assert isinstance(ours, type(theirs))
    _assert_close(_run(ours, x), _run(theirs, x), 1e-4 if "tempo" in name else 2e-6)


@pytest.mark.parametrize("name", PAIRS)
def test_halves_err_no_more_than_torch(name):
    ours, theirs, x = _pair(name)
    x = x.bfloat16()
    exact = _run(copy.deepcopy(theirs).bfloat16().double(), x.double())
    theirs_error, our_error = (
        max(
            float((a.double() - b).detach().norm() / b.detach().norm())
            for a, b in zip(_run(module.bfloat16(), x), exact, strict=True)
        )
        for module in (theirs, ours)
    )
    assert our_error <= (4 if "tempo" in name else 1.25) * theirs_error + 1e-3


@pytest.mark.parametrize("name", PAIRS)
def test_copies_pickles_and_prints(name):
    ours, theirs, x = _pair(name)
    want = ours(x)
    for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert torch.equal(again(x), want)
        assert repr(again) == repr(ours)
        assert not set(map(id, again.parameters())) & set(map(id, ours.parameters()))
    assert repr(ours).startswith(repr(theirs)[:-1])


@pytest.mark.parametrize("variant", ["lean", "tempo"])
def test_dropout_is_off_in_eval(variant):
    x = torch.randn(2, 5, 16)
    attention = nn.Attention(16, 4, dropout=0.5, variant=variant)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))
    dropout = nn.Dropout(0.5)
    assert not torch.equal(dropout(x), x)
    assert torch.equal(dropout.eval()(x), x)


def test_dropout_in_place_is_torchs():
    x = torch.ones(1000)
    y = nn.Dropout(0.5, inplace=True)(x)
    assert y is x and 0 < int((x == 0).sum()) < 1000


def test_conv1d_has_a_transposed_weight():
    module, x = nn.Conv1D(8, 16), torch.randn(3, 16)
    assert module.weight.shape == (16, 8)
    assert torch.allclose(module(x), x @ module.weight + module.bias, atol=1e-6)
    assert repr(module) == "Conv1D(nf=8, nx=16)"


@pytest.mark.parametrize("variant", ["lean", "tempo"])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_mlp(variant, approximate):
    ours = nn.MLP(16, 32, approximate=approximate, variant=variant)
    theirs = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(approximate), torch.nn.Linear(32, 16)
    )
    theirs.load_state_dict(
        {k.replace("fc1", "0").replace("fc2", "2"): v for k, v in ours.state_dict().items()}
    )
    x = torch.randn(2, 3, 16)
    _assert_close(_run(ours, x), _run(theirs, x), 1e-4 if variant == "tempo" else 2e-6)


def test_swiglu():
    ours, x = nn.SwiGLU(16, 32), torch.randn(2, 3, 16, requires_grad=True)
    want = ours.down_proj.weight @ (
        torch.nn.functional.silu(ours.gate_proj.weight @ x.mT) * (ours.up_proj.weight @ x.mT)
    )
    assert torch.allclose(ours(x), want.mT, atol=1e-6)
    assert list(ours.state_dict()) == [f"{n}_proj.weight" for n in ("gate", "up", "down")]


@pytest.mark.parametrize("variant", ["lean", "tempo"])
def test_attention_is_multihead_attention(variant):
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    ours = nn.Attention(16, 4, variant=variant)
    ours.load_state_dict(theirs.state_dict())
    assert set(ours.state_dict()) == set(theirs.state_dict())
    x, seen = torch.randn(2, 5, 16), torch.rand(5, 5) > 0.3
    seen[:, 0] = True

    def attend(t):
        return theirs(t, t, t, attn_mask=~seen, need_weights=False)[0]

    attend.parameters = lambda: (p for _, p in sorted(theirs.named_parameters()))

    def ours_attend(t):
        return ours(t, seen)

    ours_attend.parameters = lambda: (p for _, p in sorted(ours.named_parameters()))
    _assert_close(_run(ours_attend, x), _run(attend, x), 3e-6)


def test_attention_of_fewer_key_heads():
    module = nn.Attention(16, 4, num_key_heads=2, is_causal=True, bias=False)
    assert module.in_proj_weight.shape == (32, 16) and module.in_proj_bias is None
    x = torch.randn(2, 5, 16)
    y = module(x)
    x[:, 3:] += 1
    assert torch.allclose(module(x)[:, :3], y[:, :3], atol=1e-6)
    with pytest.raises(ValueError, match="num_heads=4, num_key_heads=3"):
        nn.Attention(16, 4, num_key_heads=3)


def test_loss_module():
    loss = nn.LinearCrossEntropyLoss(reduction="sum", label_smoothing=0.1, ignore_index=2)
    x, weight, bias = torch.randn(4, 6, 16), torch.randn(9, 16), torch.randn(9)
    target = torch.randint(0, 9, (4, 6))
    logits = torch.nn.functional.linear(x, weight, bias)
    want = torch.nn.CrossEntropyLoss(reduction="sum", label_smoothing=0.1, ignore_index=2)
    assert torch.allclose(loss(x, weight, target, bias), want(logits.mT, target), rtol=1e-5)
    assert "reduction='sum'" in repr(loss)


def test_unknown_variant():
    for build in (nn.GELU, lambda **v: nn.LayerNorm(4, **v), lambda **v: nn.Attention(4, 2, **v)):
        with pytest.raises(ValueError, match="'lean' or 'tempo', got 'lossy'"):
            build(variant="lossy")


class Block(torch.nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self, variant="lean", dropout=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(32, variant=variant)
        self.attention = nn.Attention(32, 4, dropout=dropout, variant=variant)
        self.drop = nn.Dropout(dropout)
        self.norm2 = nn.LayerNorm(32, variant=variant)
        self.mlp = nn.MLP(32, 64, variant=variant)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.mlp(self.norm2(x)))


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("variant", ["lean", "tempo"])
def test_checkpoint(variant, use_reentrant):
    block, x = Block(variant, dropout=0.2), torch.randn(2, 5, 32)
    runs = []
    for wrapped in (block, lambda t: checkpoint(block, t, use_reentrant=use_reentrant)):
        torch.manual_seed(1)
        block.zero_grad()
        y = wrapped(x.clone().requires_grad_())
        y.square().sum().backward()
        runs.append([y.detach(), *(p.grad.clone() for p in block.parameters())])
    for a, b in zip(*runs):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    block, x = Block(), torch.randn(2, 5, 32)
    want = _run(block, x)
    block.zero_grad()
    with torch.autocast("cpu", dtype=dtype):
        y = block(x.clone().requires_grad_())
    y.float().backward(torch.linspace(-1, 1, y.numel()).view_as(y))
    assert float((y - want[0]).detach().norm() / want[0].detach().norm()) < 2e-2
    for parameter, gradient in zip(block.parameters(), want[2:]):
        assert parameter.grad.dtype == torch.float32
        assert float((parameter.grad - gradient).norm()) < 5e-2 * float(gradient.norm()) + 1e-4


@pytest.mark.parametrize("variant", ["lean", "tempo"])
def test_compile(variant):
    block, x = Block(variant), torch.randn(2, 5, 32)
    want = _run(block, x)
    block.zero_grad()
    got = _run(torch.compile(block, backend="aot_eager", fullgraph=True), x)
    _assert_close(got, want, 1e-4 if variant == "tempo" else 2e-6)


def test_compile_with_other_lengths():
    block = Block()
    compiled = torch.compile(block, backend="aot_eager", dynamic=True, fullgraph=True)
    for length in (5, 9, 13):
        x = torch.randn(2, length, 32)
        assert torch.allclose(compiled(x), block(x), atol=1e-5)


def test_frozen_weights():
    for name in ("Linear", "LayerNorm", "LayerNorm tempo", "RMSNorm"):
        ours, theirs, x = _pair(name)
        for module in (ours, theirs):
            module.requires_grad_(False)
        x = x.requires_grad_()
        a, b = (torch.autograd.grad(m(x).square().sum(), x)[0] for m in (ours, theirs))
        assert torch.allclose(a, b, atol=1e-5)
