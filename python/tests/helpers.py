"""What several test files share: the operators with small arguments, and tiny models."""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F

import palmist

ops = torch.ops.palmist


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator, its meaning in torch, and the shapes of its differentiable arguments."""

    name: str
    op: Callable
    reference: Callable
    shapes: tuple[tuple[int, ...], ...]

    def arguments(self, dtype=torch.float32, requires_grad=True) -> list[torch.Tensor]:
        return [
            torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_(requires_grad)
            for shape in self.shapes
        ]

    def __str__(self) -> str:
        return self.name


def _attention(operator, **options):
    return lambda query, key, value: operator(query, key, value, None, **options)


def _repeated_attention(**options):
    return lambda query, key, value: F.scaled_dot_product_attention(
        query, key, value, enable_gqa=True, **options
    )


def _target(rows: int, classes: int) -> torch.Tensor:
    target = torch.arange(rows) % classes
    target[1] = -100
    return target


NORM = ((2, 3, 16), (16,), (16,))
HEADS = ((2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8))
CASES = [
    Case("linear", ops.linear, F.linear, ((2, 3, 16), (8, 16), (8,))),
    Case(
        "layer_norm",
        lambda x, w, b: ops.layer_norm(x, [16], w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, [16], w, b, 1e-5),
        NORM,
    ),
    Case(
        "tempo_layer_norm",
        lambda x, w, b: ops.tempo_layer_norm(x, [16], w + 3, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, [16], w + 3, b, 1e-5),
        NORM,
    ),
    Case(
        "rms_norm",
        lambda x, w: ops.rms_norm(x, [16], w, 1e-6),
        lambda x, w: F.rms_norm(x, [16], w, 1e-6),
        NORM[:2],
    ),
    Case("gelu", ops.gelu, F.gelu, ((3, 16),)),
    Case(
        "gelu_tanh",
        lambda x: ops.gelu(x, approximate="tanh"),
        lambda x: F.gelu(x, approximate="tanh"),
        ((3, 16),),
    ),
    Case("tempo_gelu", ops.tempo_gelu, F.gelu, ((3, 16),)),
    Case(
        "tempo_gelu_tanh",
        lambda x: ops.tempo_gelu(x, approximate="tanh"),
        lambda x: F.gelu(x, approximate="tanh"),
        ((3, 16),),
    ),
    Case("silu_mul", ops.silu_mul, lambda g, u: F.silu(g) * u, ((3, 16), (3, 16))),
    Case("dropout_eval", lambda x: ops.dropout(x, 0.5, False), lambda x: x.clone(), ((3, 16),)),
    Case("attention", _attention(ops.attention), _repeated_attention(), HEADS),
    Case(
        "attention_causal",
        _attention(ops.attention, is_causal=True),
        _repeated_attention(is_causal=True),
        HEADS,
    ),
    Case(
        "tempo_attention_causal",
        _attention(ops.tempo_attention, is_causal=True),
        _repeated_attention(is_causal=True),
        HEADS,
    ),
    Case(
        "linear_cross_entropy",
        lambda x, w, b: ops.linear_cross_entropy(x, w, _target(6, 9), b, label_smoothing=0.1),
        lambda x, w, b: F.cross_entropy(F.linear(x, w, b), _target(6, 9), label_smoothing=0.1),
        ((6, 16), (9, 16), (9,)),
    ),
]
#: Those that know only their output in backward.
TEMPO = ("tempo_layer_norm", "tempo_gelu", "tempo_gelu_tanh")

FAMILIES = ("bert", "roberta", "gpt2", "llama", "mistral", "qwen2", "qwen3")
VOCABULARY = 97


def tiny_model(family: str, *, layers: int = 2, dropout: float = 0.0, head: bool = True, **options):
    """Builds a small model with random weights; hidden 64, intermediate 96, 4 heads."""
    import transformers

    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": 130,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if family in ("bert", "roberta"):
        sizes |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        name, model = family.capitalize(), "ForMaskedLM" if head else "Model"
        if not head:
            options["add_pooling_layer"] = False
    elif family == "gpt2":
        sizes |= {"n_inner": 96, "resid_pdrop": dropout, "embd_pdrop": dropout}
        sizes |= {"attn_pdrop": dropout}
        name, model = "GPT2", "LMHeadModel" if head else "Model"
    else:
        sizes |= {"num_key_value_heads": 2, "attention_dropout": dropout, "head_dim": 16}
        if family == "mistral":
            sizes["sliding_window"] = 8
        name, model = family.capitalize(), "ForCausalLM" if head else "Model"
    model_options = {key: options.pop(key) for key in ("add_pooling_layer",) if key in options}
    config = getattr(transformers, f"{name}Config")(**sizes, **options)
    return getattr(transformers, f"{name}{model}")(config, **model_options).train()


def tokens(batch: int = 2, length: int = 16) -> torch.Tensor:
    return torch.randint(5, VOCABULARY, (batch, length))


def backward_of(model, loss) -> dict[str, torch.Tensor]:
    """Runs backward and returns the gradients by name."""
    model.zero_grad()
    loss.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def worst_difference(expected: dict[str, torch.Tensor], got: dict[str, torch.Tensor]) -> float:
    """Gives the largest relative difference, but for gradients that are zero but for rounding."""
    assert expected.keys() == got.keys()
    least = 1e-4 * max(float(g.norm()) for g in expected.values())
    return max(
        float((expected[n] - got[n]).norm() / expected[n].norm())
        for n in expected
        if float(expected[n].norm()) > least
    )


def kept_bytes(fn, *arguments, **options) -> int:
    return palmist.saved_bytes(fn, *arguments, **options).total_bytes
