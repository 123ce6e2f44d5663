"""What is kept for backward, against the formulas, by autograd's count and the allocator's."""

import pytest
import torch
from helpers import kept_bytes, ops, tiny_model, tokens

import palmist
from palmist import nn

H, FF, A, D, BATCH, SEQ = 64, 96, 4, 16, 2, 128
E = 4  # bytes of a float


def _per_token_and_layer(family, variant, *, dropout, count):
    """Compares models of one and three layers: what is outside of the layers cancels."""
    ids = tokens(BATCH, SEQ)
    sizes = []
    for layers in (1, 3):
        model = tiny_model(family, layers=layers, dropout=dropout, head=False)
        if variant:
            palmist.patch(model, variant=variant)
        saved = palmist.saved_bytes(lambda ids: model(ids, use_cache=False).last_hidden_state, ids)
        sizes.append(count(saved))
    return (sizes[1] - sizes[0]) / 2 / ids.numel()


# Per token and layer. Two norms keep two statistics each, 16 bytes; the output-only one keeps one;
# RMS norms, too. GELU and its neighbours are FF wide here, 4 H in the papers.
GPT_LIKE = E * (6 * H + FF) + 4 * A + 16
FORMULAS = {
    ("bert", "lean"): GPT_LIKE,
    ("roberta", "lean"): GPT_LIKE,
    ("gpt2", "lean"): GPT_LIKE,
    # Residuals 2 H, queries and output 2 H, half as many keys and values 2 (H / 2), gate and up.
    ("llama", "lean"): E * (5 * H + 2 * FF) + 4 * A + 8,
    ("qwen2", "lean"): E * (5 * H + 2 * FF) + 4 * A + 8,
    # Outputs in place of inputs, a bit for the branch of GELU, the probabilities.
    ("bert", "tempo"): E * (6 * H + FF) + FF / 8 + E * A * SEQ + 8,
}


@pytest.mark.parametrize("count", ["total_bytes", "allocator_bytes"])
@pytest.mark.parametrize("family, variant", FORMULAS)
def test_formulas(family, variant, count):
    measured = _per_token_and_layer(
        family, variant, dropout=0.1, count=lambda saved: getattr(saved, count)
    )
    # Seeds: eight bytes an operator and pass.
    assert FORMULAS[family, variant] <= measured <= FORMULAS[family, variant] + 1


def test_lean_keeps_far_less_than_transformers():
    plain, lean = (
        _per_token_and_layer("bert", v, dropout=0.1, count=lambda s: s.allocator_bytes)
        for v in (None, "lean")
    )
    assert lean < 0.4 * plain


def test_between_two_products_is_one_tensor():
    x = torch.randn(8, 64, requires_grad=True)
    size = x.numel() * E
    weight = torch.randn(64, 64, requires_grad=True)

    def kept(activation):
        return kept_bytes(lambda x: ops.linear(activation(ops.linear(x, weight)), weight), x)

    # Of the first product the input is an argument, and does not count.
    assert kept(lambda t: ops.gelu(t)) == size
    assert kept(lambda t: ops.silu_mul(t, t)) == size
    assert kept(lambda t: ops.layer_norm(t, [64])) == size + 8 * 2 * E
    assert kept(lambda t: ops.rms_norm(t, [64])) == size + 8 * E
    assert kept(torch.nn.functional.gelu) == 2 * size
    assert kept(lambda t: ops.tempo_gelu(t)) == size + x.numel() // 8
    # A copy in between is another tensor.
    assert kept(lambda t: ops.gelu(t).clone()) == 2 * size


def test_two_consumers_share_one_recomputation():
    x = torch.randn(8, 64, requires_grad=True)
    weights = [torch.randn(64, 64, requires_grad=True) for _ in range(3)]

    def project(x):
        y = ops.layer_norm(x.sin(), [64])
        return sum(ops.linear(y, w) for w in weights)

    # The sine keeps the argument; the norm its own input.
    assert kept_bytes(project, x) == x.numel() * E + 8 * 2 * E


def test_a_frozen_weight_keeps_no_input():
    linear = nn.Linear(64, 64).requires_grad_(False)
    x = torch.randn(8, 64, requires_grad=True)
    assert kept_bytes(lambda x: linear(x.sin() * 1), x) == 0


def test_loss_never_holds_logits():
    tokens_, hidden, classes = 512, 16, 4096
    x = torch.randn(tokens_, hidden, requires_grad=True)
    weight = torch.randn(classes, hidden, requires_grad=True)
    target = torch.randint(0, classes, (tokens_,))
    saved = palmist.saved_bytes(ops.linear_cross_entropy, x, weight, target)
    logits = tokens_ * classes * E
    # The gradients of both, which the forward makes.
    assert saved.total_bytes <= (x.numel() + weight.numel()) * E + 64
    assert saved.allocator_bytes < logits / 8


def test_listing():
    model = torch.nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 32), torch.nn.Tanh())
    x = torch.randn(4, 64, requires_grad=True)
    saved = palmist.saved_bytes(model, x)
    (tanh,) = (t for t in saved.tensors if t.operator == "tanh")
    assert (tanh.shape, tanh.dtype, tanh.nbytes) == ((4, 32), torch.float32, 4 * 32 * E)
    assert (tanh.module, tanh.kind, tanh.count) == ("2", "activation", 1)
    assert saved.total_bytes == 4 * 32 * E + 4 * 2 * E
    assert saved.total(inputs=True) - saved.total_bytes == 4 * 64 * E
    # The norm keeps its weights to make its output again, the product has no use for its bias.
    parameters = saved.total(parameters=True) - saved.total_bytes
    assert parameters == (2 * 64 + 64 * 32) * E
    text = str(saved)
    assert "tanh" in text and "4×32" in text and f"{saved.total_bytes:,} bytes" in text
    assert "float32" in text and "LayerNorm" not in text


def test_counts_torch_as_it_is():
    x = torch.randn(8, 16, requires_grad=True)
    saved = palmist.saved_bytes(lambda x: (x.sin().exp() * 2).square(), x)
    # exp keeps its result, square its input; the sine its argument, which does not count.
    assert saved.total_bytes == 2 * x.numel() * E
    # With the result; and a few bytes of a scalar.
    assert 0 <= saved.allocator_bytes - 3 * x.numel() * E < 64
    assert palmist.saved_bytes(lambda x: x + 1, x).tensors == []


def test_views_of_one_storage_count_once():
    x = torch.randn(8, 48, requires_grad=True)

    def three(x):
        a, b, c = (x * 2).chunk(3, dim=-1)
        return a * b * c

    # The product of a and b, and the three views' storage.
    assert kept_bytes(three, x) == (8 * 48 + 8 * 16) * E


def test_restores_what_it_found():
    from torch.nn.modules import module

    model = nn.Linear(4, 4)
    with pytest.raises(RuntimeError):
        palmist.saved_bytes(model, torch.randn(2, 5))
    assert not module._global_forward_hooks and not module._global_forward_pre_hooks
    assert model(torch.randn(2, 4)).grad_fn is not None
    with torch.no_grad():
        assert kept_bytes(model, torch.randn(2, 4).sin()) == 0
