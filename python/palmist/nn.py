"""Drop-in modules that keep less for backward.

Each takes the arguments of its `torch.nn` namesake, has its state-dict keys, and gives its values
and gradients. Two variants:

* `"lean"` keeps one tensor between two matrix products and makes the rest again, bit by bit, in
  backward; the gradients are exact.
* `"tempo"` keeps outputs instead of inputs, after Andoorveedu et al., "Tempo: Accelerating
  Transformer-Based Model Training through Memory Footprint Reduction", NeurIPS 2022. The gradients
  are exact to the rounding of those outputs.

`Linear` keeps no input that comes straight from `LayerNorm`, `RMSNorm`, `GELU` or `SiLUMul`: it
asks for it again. A view or a copy in between ends that.
"""

from typing import Literal

import torch
from torch import Tensor

from palmist._library import load_operators

load_operators()

Variant = Literal["lean", "tempo"]
_ops = torch.ops.palmist


def check_variant(variant: str) -> str:
    """Returns `variant`; raises ValueError unless it is one of the two."""
    if variant not in ("lean", "tempo"):
        raise ValueError(f"expected variant 'lean' or 'tempo', got {variant!r}")
    return variant


class Linear(torch.nn.Linear):
    """Computes x Wᵀ + b: [..., in_features] -> [..., out_features]."""

    def forward(self, input: Tensor) -> Tensor:
        return _ops.linear(input, self.weight, self.bias)


class Conv1D(torch.nn.Module):
    """Computes x W + b with W of shape [nx, nf]: [..., nx] -> [..., nf]; the layer of GPT-2.

    Constructor and state dict are those of `transformers.pytorch_utils.Conv1D`.
    """

    def __init__(self, nf: int, nx: int):
        super().__init__()
        self.nf = nf
        self.nx = nx
        self.weight = torch.nn.Parameter(torch.empty(nx, nf).normal_(std=0.02))
        self.bias = torch.nn.Parameter(torch.zeros(nf))

    def forward(self, x: Tensor) -> Tensor:
        return _ops.linear(x, self.weight.t(), self.bias)

    def extra_repr(self) -> str:
        return f"nf={self.nf}, nx={self.nx}"


class GELU(torch.nn.GELU):
    """Computes x Φ(x), or its tanh approximation; Hendrycks and Gimpel, arXiv 1606.08415.

    "lean" keeps x; "tempo" keeps the output and one bit an element.
    """

    variant = "lean"

    def __init__(self, approximate: str = "none", *, variant: Variant = "lean"):
        super().__init__(approximate)
        self.variant = check_variant(variant)

    def forward(self, input: Tensor) -> Tensor:
        operator = _ops.tempo_gelu if self.variant == "tempo" else _ops.gelu
        return operator(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, variant={self.variant!r}"


class LayerNorm(torch.nn.LayerNorm):
    """Normalises the last dimensions; Ba et al., arXiv 1607.06450.

    "lean" keeps the input and two numbers a row; "tempo" keeps the output and one number a row, and
    does as "lean" where a weight is too small to divide by.
    """

    variant = "lean"

    def __init__(
        self,
        normalized_shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device=None,
        dtype=None,
        *,
        variant: Variant = "lean",
    ):
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)
        self.variant = check_variant(variant)

    def forward(self, input: Tensor) -> Tensor:
        operator = _ops.tempo_layer_norm if self.variant == "tempo" else _ops.layer_norm
        return operator(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, variant={self.variant!r}"


class RMSNorm(torch.nn.RMSNorm):
    """Divides by the root mean square of the last dimensions; Zhang and Sennrich, arXiv 1910.07467.

    Keeps the input and one number a row.
    """

    def forward(self, input: Tensor) -> Tensor:
        return _ops.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class Dropout(torch.nn.Dropout):
    """Zeroes elements with probability p and scales the others by 1 / (1 - p).

    Keeps a seed, no mask. The numbers differ from torch's at the same seed. `inplace=True` is left
    to torch.
    """

    def forward(self, input: Tensor) -> Tensor:
        if self.inplace:
            return super().forward(input)
        return _ops.dropout(input, self.p, self.training)


class SiLUMul(torch.nn.Module):
    """Computes SiLU(gate) · up, two tensors of one shape; Shazeer, arXiv 2002.05202.

    Keeps the two inputs.
    """

    def forward(self, gate: Tensor, up: Tensor) -> Tensor:
        return _ops.silu_mul(gate, up)


class MLP(torch.nn.Module):
    """Computes fc2(GELU(fc1(x))): [..., in_features] -> [..., in_features].

    "lean" keeps x, if nothing else does, and one tensor [..., hidden_features].
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        bias: bool = True,
        approximate: str = "none",
        device=None,
        dtype=None,
        *,
        variant: Variant = "lean",
    ):
        super().__init__()
        self.fc1 = Linear(in_features, hidden_features, bias, device, dtype)
        self.act = GELU(approximate, variant=variant)
        self.fc2 = Linear(hidden_features, in_features, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(input)))


class SwiGLU(torch.nn.Module):
    """Computes down(SiLU(gate(x)) · up(x)): [..., in_features] -> [..., in_features].

    The state-dict keys are those of the LLaMA family. Keeps x, if nothing else does, and two
    tensors [..., hidden_features].
    """

    def __init__(
        self, in_features: int, hidden_features: int, bias: bool = False, device=None, dtype=None
    ):
        super().__init__()
        self.gate_proj = Linear(in_features, hidden_features, bias, device, dtype)
        self.up_proj = Linear(in_features, hidden_features, bias, device, dtype)
        self.down_proj = Linear(hidden_features, in_features, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return self.down_proj(_ops.silu_mul(self.gate_proj(input), self.up_proj(input)))


class Attention(torch.nn.Module):
    """Computes multi-head self-attention; Vaswani et al., arXiv 1706.03762.

    [B, S, embed_dim] -> [B, S, embed_dim]. With as many key heads as query heads the state dict is
    that of `torch.nn.MultiheadAttention`. "lean" keeps queries, keys, values, output and one number
    a row (Dao et al., arXiv 2205.14135); "tempo" keeps the softmax, no dropped copy and no mask.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        device=None,
        dtype=None,
        *,
        num_key_heads: int | None = None,
        is_causal: bool = False,
        variant: Variant = "lean",
    ):
        super().__init__()
        num_key_heads = num_heads if num_key_heads is None else num_key_heads
        if embed_dim % num_heads or num_heads % num_key_heads:
            raise ValueError(
                "expected embed_dim to be a multiple of num_heads, and that of num_key_heads; got "
                f"embed_dim={embed_dim}, num_heads={num_heads}, num_key_heads={num_key_heads}"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.num_key_heads = num_key_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.is_causal = is_causal
        self.variant = check_variant(variant)
        rows = (num_heads + 2 * num_key_heads) * self.head_dim
        empty = torch.empty(rows, embed_dim, device=device, dtype=dtype)
        self.in_proj_weight = torch.nn.Parameter(torch.nn.init.xavier_uniform_(empty))
        if bias:
            self.in_proj_bias = torch.nn.Parameter(torch.zeros(rows, device=device, dtype=dtype))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attends; `mask` is bool (True = seen) or additive, and spreads to [B, heads, S, S]."""
        heads = (self.num_heads, self.num_key_heads, self.num_key_heads)
        projected = _ops.linear(input, self.in_proj_weight, self.in_proj_bias)
        query, key, value = (
            part.unflatten(-1, (count, self.head_dim)).transpose(1, 2)
            for part, count in zip(
                projected.split([self.head_dim * count for count in heads], dim=-1), heads
            )
        )
        operator = _ops.tempo_attention if self.variant == "tempo" else _ops.attention
        dropout = self.dropout if self.training else 0.0
        attended = operator(query, key, value, mask, dropout, self.is_causal)
        return self.out_proj(attended.transpose(1, 2).flatten(-2))

    def extra_repr(self) -> str:
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, "
            f"num_key_heads={self.num_key_heads}, dropout={self.dropout}, "
            f"is_causal={self.is_causal}, variant={self.variant!r}"
        )


class LinearCrossEntropyLoss(torch.nn.Module):
    """Computes the cross entropy of softmax(x Wᵀ + b) in chunks, never all logits at once.

    x [..., H], W [V, H], target [...] of class indices, b [V]. The reductions are those of
    `torch.nn.CrossEntropyLoss`; `z_loss` adds z_loss · (log Σ exp logits)², Chowdhery et al.,
    arXiv 2204.02311. `chunk_tokens=0` chooses the chunk.
    """

    def __init__(
        self,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        z_loss: float = 0.0,
        chunk_tokens: int = 0,
    ):
        super().__init__()
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing
        self.z_loss = z_loss
        self.chunk_tokens = chunk_tokens

    def forward(
        self, input: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        return _ops.linear_cross_entropy(
            input,
            weight,
            target,
            bias,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
            chunk_tokens=self.chunk_tokens,
        )

    def extra_repr(self) -> str:
        return (
            f"ignore_index={self.ignore_index}, reduction={self.reduction!r}, "
            f"label_smoothing={self.label_smoothing}, z_loss={self.z_loss}"
        )
