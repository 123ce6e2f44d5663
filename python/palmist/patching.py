"""Patches Hugging Face models in place, reversibly.

A patched module stays the same object with the same parameters: only its class changes, to one
that derives from its own. State dicts, tied weights, hooks, optimisers, deep copies and pickles
therefore go on as before, and `unpatch` restores the classes.
"""

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from palmist import nn

#: Model types (`config.model_type`) with tests; `strict=False` takes others too.
SUPPORTED_MODEL_TYPES = ("bert", "gpt2", "llama", "mistral", "qwen2", "qwen3", "roberta")

_ATTENTION_NAME = "palmist"
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_ops = torch.ops.palmist


class _Patched:
    """Marks a patched class; deep copies and pickles rebuild the class from the original one."""

    #: The original class and what overrides it.
    _palmist_recipe: tuple[type, tuple[type, ...]]

    def __reduce_ex__(self, protocol):
        _, _, *state = super().__reduce_ex__(protocol)
        return _restore, self._palmist_recipe, *state


class _ErfGELU:
    variant = "lean"
    approximate = "none"
    forward = nn.GELU.forward


class _TanhGELU(_ErfGELU):
    approximate = "tanh"


class _LlamaRMSNorm:
    def forward(self, hidden_states: Tensor) -> Tensor:
        # The original multiplies by the weight last, in the wider of the two types.
        dtype = torch.promote_types(hidden_states.dtype, self.weight.dtype)
        return _ops.rms_norm(
            hidden_states.to(dtype),
            self.weight.shape,
            self.weight.to(dtype),
            self.variance_epsilon,
        )


class _LlamaMLP:
    forward = nn.SwiGLU.forward


class _BertLayer:
    def feed_forward_chunk(self, attention_output: Tensor) -> Tensor:
        output = self.output
        if not _is_plain(output):
            return super().feed_forward_chunk(attention_output)
        # In one frame, so that no caller holds the activation while the rest is computed.
        hidden = output.dense(self.intermediate(attention_output))
        return output.LayerNorm(output.dropout(hidden) + attention_output)


class _LossHead:
    """Gives its input in place of logits while `_palmist_defers` is set."""

    _palmist_defers = False

    def forward(self, input: Tensor) -> "Tensor | DeferredLogits":
        if self._palmist_defers:
            return DeferredLogits(input, self.weight, self.bias)
        return super().forward(input)


def _llama_leaves(family: str) -> dict[str, tuple[str, type]]:
    modeling = f"transformers.models.{family.lower()}.modeling_{family.lower()}.{family}"
    return {
        f"{modeling}RMSNorm": ("norm", _LlamaRMSNorm),
        f"{modeling}MLP": ("activation", _LlamaMLP),
    }


# By name, so that nothing is imported for it. Values: the argument of `patch` that covers the class
# and what takes its place.
_LEAVES: dict[str, tuple[str, type]] = {
    "torch.nn.modules.linear.Linear": ("linear", nn.Linear),
    "torch.nn.modules.normalization.LayerNorm": ("norm", nn.LayerNorm),
    "torch.nn.modules.normalization.RMSNorm": ("norm", nn.RMSNorm),
    "torch.nn.modules.activation.GELU": ("activation", nn.GELU),
    "torch.nn.modules.dropout.Dropout": ("dropout", nn.Dropout),
    "transformers.pytorch_utils.Conv1D": ("linear", nn.Conv1D),
    "transformers.activations.GELUActivation": ("activation", _ErfGELU),
    "transformers.activations.GELUTanh": ("activation", _TanhGELU),
    "transformers.activations.NewGELUActivation": ("activation", _TanhGELU),
    "transformers.activations.FastGELUActivation": ("activation", _TanhGELU),
    "transformers.models.bert.modeling_bert.BertLayer": ("activation", _BertLayer),
    "transformers.models.roberta.modeling_roberta.RobertaLayer": ("activation", _BertLayer),
    **_llama_leaves("Llama"),
    **_llama_leaves("Mistral"),
    **_llama_leaves("Qwen2"),
    **_llama_leaves("Qwen3"),
}

_ATTENTION_CLASSES = {
    f"transformers.models.{family}.modeling_{family}.{name}"
    for family, names in {
        "bert": ("BertSelfAttention", "BertCrossAttention"),
        "roberta": ("RobertaSelfAttention", "RobertaCrossAttention"),
        "gpt2": ("GPT2Attention",),
        "llama": ("LlamaAttention",),
        "mistral": ("MistralAttention",),
        "qwen2": ("Qwen2Attention",),
        "qwen3": ("Qwen3Attention",),
    }.items()
    for name in names
}


def patch(
    model: torch.nn.Module,
    *,
    variant: nn.Variant = "lean",
    attention: bool = True,
    norm: bool = True,
    activation: bool = True,
    dropout: bool = True,
    linear: bool = True,
    loss: bool = True,
    layers: Iterable[int] | None = None,
    strict: bool = True,
) -> torch.nn.Module:
    """Makes `model` keep less for backward, in place, and returns it.

    Args:
        model: A Hugging Face model of one of `SUPPORTED_MODEL_TYPES`, with a head or without.
        variant: "lean" or "tempo", see `palmist.nn`. What has one variant only takes that.
        attention, norm, activation, dropout, linear: What to patch.
        loss: Compute the loss of a language-model head in chunks. When labels are given in
            training, the output's `logits` are None then; evaluation has them as before.
        layers: The transformer layers to patch, by index; what lies outside of the layers is left
            then, but for the loss. All of the model by default.
        strict: Raise on another model type. Otherwise its known leaf modules are patched alone.

    Left as they are: modules with hooks, parametrisations or a replaced `forward`; subclasses;
    quantised linears and what a LoRA layer wraps; in-place dropout. What is patched already stays
    as it is, too: `unpatch` first to change the variant.

    Raises ValueError on an unknown variant, model type or layer.
    """
    nn.check_variant(variant)
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    known = model_type in SUPPORTED_MODEL_TYPES
    if strict and not known:
        raise ValueError(
            f"expected a Hugging Face model of type {', '.join(SUPPORTED_MODEL_TYPES)}; got "
            f"{type(model).__name__} of type {model_type}; strict=False patches its known leaf "
            "modules alone"
        )
    if known:
        _register_attention()
        attention_before = _attention_before(model)
    chosen = {
        "norm": norm,
        "activation": activation,
        "dropout": dropout,
        "linear": linear,
    }
    for root in [model] if layers is None else _chosen_layers(model, layers):
        for module in _patchable_modules(root):
            _patch_leaf(module, variant, chosen)
            if attention and known and _qualified_name(type(module)) in _ATTENTION_CLASSES:
                _patch_attention(module, variant, attention_before)
    if loss and known:
        _patch_loss(model)
    return model


def unpatch(model: torch.nn.Module) -> torch.nn.Module:
    """Takes back every `patch` of `model` and its modules, in place, and returns it."""
    for module in model.modules():
        for handle in module.__dict__.pop("_palmist_loss_hooks", ()):
            handle.remove()
        if isinstance(module, _Patched):
            module.__dict__.pop("_palmist_defers", None)
            module.__dict__.pop("variant", None)
            module.__class__, _ = module._palmist_recipe
        if "_palmist_attention" in module.__dict__:
            del module._palmist_attention
            before = module.__dict__.pop("_palmist_attention_before")
            if module.config._attn_implementation == _ATTENTION_NAME:
                module.config._attn_implementation = before
    return model


def transformer_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Returns the transformer layers of a Hugging Face model, first to last."""
    layer_class = sys.modules["transformers.modeling_layers"].GradientCheckpointingLayer
    return [module for module in model.modules() if isinstance(module, layer_class)]


def _chosen_layers(model: torch.nn.Module, indices: Iterable[int]) -> list[torch.nn.Module]:
    if "transformers" not in sys.modules:
        raise ValueError(f"expected a Hugging Face model with `layers`, got {type(model).__name__}")
    every = transformer_layers(model)
    indices = list(indices)
    if wrong := [index for index in indices if not 0 <= index < len(every)]:
        raise ValueError(f"expected layers from 0 to {len(every) - 1}, got {wrong}")
    return [every[index] for index in indices]


def _patchable_modules(root: torch.nn.Module) -> Iterator[torch.nn.Module]:
    # A LoRA layer of peft holds the linear that it wraps as `base_layer`.
    if "base_layer" in root._modules:
        return
    yield root
    for child in root.children():
        yield from _patchable_modules(child)


def _qualified_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@functools.cache
def _patched_class(original: type, *implementations: type) -> type:
    bases = (_Patched, *implementations)
    if not any(issubclass(implementation, original) for implementation in implementations):
        bases += (original,)
    attributes = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "_palmist_recipe": (original, implementations),
    }
    return type(original.__name__, bases, attributes)


def _restore(original: type, implementations: tuple[type, ...]) -> torch.nn.Module:
    if "transformers" in sys.modules:
        _register_attention()
    cls = _patched_class(original, *implementations)
    return cls.__new__(cls)


def _patch_leaf(module: torch.nn.Module, variant: str, chosen: dict[str, bool]) -> None:
    group, implementation = _LEAVES.get(_qualified_name(type(module)), ("", None))
    if not chosen.get(group) or isinstance(module, _Patched) or not _is_plain(module):
        return
    module.__class__ = _patched_class(type(module), implementation)
    if hasattr(module, "variant"):
        module.variant = variant


def _is_plain(module: torch.nn.Module) -> bool:
    """Tells whether `module` does what its class says and no more."""
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    if any(hooks) or "forward" in module.__dict__ or getattr(module, "inplace", False):
        return False
    # Quantised weights come as subclasses of Parameter or in integer types.
    for parameter in module._parameters.values():
        if parameter is not None and (
            type(parameter) is not torch.nn.Parameter or parameter.dtype not in _DTYPES
        ):
            return False
    activation = getattr(module, "act_fn", None)
    if activation is not None:
        return _qualified_name(type(activation)) in (
            "torch.nn.modules.activation.SiLU",
            "transformers.activations.SiLUActivation",
        ) and _is_plain(activation)
    # The Python spelling of a GELU in transformers is a bound method.
    return not inspect.ismethod(getattr(module, "act", None))


def _patch_attention(module: torch.nn.Module, variant: str, before: str) -> None:
    if "_palmist_attention" in module.__dict__:
        return
    if getattr(module.config, "output_attentions", False):
        _warn_once("config.output_attentions is set: the attention is left as it is")
        return
    module._palmist_attention = variant
    module._palmist_attention_before = before
    module.config._attn_implementation = _ATTENTION_NAME


def _attention_before(model: torch.nn.Module) -> str:
    """Returns the attention that `model` has but for `patch`."""
    if model.config._attn_implementation != _ATTENTION_NAME:
        return model.config._attn_implementation
    for module in model.modules():
        if "_palmist_attention_before" in module.__dict__:
            return module._palmist_attention_before
    return "sdpa"


@functools.cache
def _register_attention() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(_ATTENTION_NAME, _attention_forward)
    AttentionMaskInterface.register(_ATTENTION_NAME, sdpa_mask)


def _attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs,
) -> tuple[Tensor, Tensor | None]:
    """Attends, as transformers' `sdpa_attention_forward` does.

    query [B, A, Sq, D]; key, value [B, G, Sk, D]; the result is [B, Sq, A, D], contiguous, and the
    attention weights, which are None but in the fallback to eager attention.
    """
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    is_causal = is_causal and attention_mask is None and query.shape[2] > 1
    variant = getattr(module, "_palmist_attention", None)
    lacking = _lacking_features(module, kwargs)
    if variant is None or lacking:
        if lacking:
            _warn_once(f"{', '.join(lacking)}: falls back to the attention of transformers")
        return _fallback_attention(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, kwargs
        )
    if is_causal and key.shape[2] > query.shape[2]:
        # A static cache is longer than what it holds; the causal pattern is aligned upper left.
        key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]
    operator = _ops.tempo_attention if variant == "tempo" else _ops.attention
    output = operator(query, key, value, attention_mask, dropout, is_causal, scale=scaling)
    return output.transpose(1, 2), None


def _lacking_features(module: torch.nn.Module, kwargs: dict) -> list[str]:
    lacking = [
        name
        for name in ("softcap", "s_aux", "head_mask", "position_bias")
        if kwargs.get(name) is not None
    ]
    # Only eager attention has weights to give; GPT-2 does not hand the request on.
    if getattr(module, "_palmist_attention_before", None) == "eager" and (
        kwargs.get("output_attentions") or _are_attentions_recorded()
    ):
        lacking.append("output_attentions")
    return lacking


def _are_attentions_recorded() -> bool:
    capturing = sys.modules.get("transformers.utils.output_capturing")
    collector = getattr(capturing, "_active_collector", None)
    return collector is not None and "attentions" in (collector.get() or {})


def _fallback_attention(
    module, query, key, value, mask, dropout, scaling, is_causal, kwargs
) -> tuple[Tensor, Tensor | None]:
    if getattr(module, "_palmist_attention_before", "sdpa") != "eager":
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(
            module, query, key, value, mask, dropout, scaling, is_causal, **kwargs
        )
    if is_causal:
        shape = (query.shape[2], key.shape[2])
        mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()[None, None]
    if mask is not None and mask.dtype == torch.bool:
        least = torch.finfo(query.dtype).min
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, least)
    eager: Callable = sys.modules[type(module).__module__].eager_attention_forward
    return eager(module, query, key, value, mask, scaling=scaling, dropout=dropout, **kwargs)


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(f"palmist: {message}", stacklevel=3)


class DeferredLogits:
    """Logits x Wᵀ + b that are computed only where something other than cross entropy wants them.

    Stands for the tensor [..., V] between a head and its loss. `torch.nn.functional.cross_entropy`
    becomes the chunked `linear_cross_entropy`, so the loss functions of transformers apply as they
    are; anything else sees the tensor.
    """

    def __init__(
        self,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        shape: tuple[int, ...] | None = None,
        dtype: torch.dtype | None = None,
    ):
        self._source = (input, weight, bias)
        self.shape = torch.Size(shape or (*input.shape[:-1], weight.shape[0]))
        self.dtype = dtype or input.dtype
        self.device = input.device

    def tensor(self) -> Tensor:
        """Computes the logits."""
        return _ops.linear(*self._source).view(self.shape).to(self.dtype)

    def float(self) -> "DeferredLogits":
        return DeferredLogits(*self._source, self.shape, torch.float32)

    def contiguous(self) -> "DeferredLogits":
        return self

    def size(self, dim: int | None = None):
        return self.shape if dim is None else self.shape[dim]

    def view(self, *shape) -> "Tensor | DeferredLogits":
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if tuple(wanted) == (-1, self.shape[-1]):
            flat = (self.shape[:-1].numel(), self.shape[-1])
            return DeferredLogits(*self._source, flat, self.dtype)
        return self.tensor().view(*shape)

    reshape = view

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.tensor(), name)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.nn.functional.cross_entropy:
            loss = _deferred_cross_entropy(*args, **kwargs)
            if loss is not None:
                return loss
        args, kwargs = tree_map_only(DeferredLogits, DeferredLogits.tensor, (args, kwargs))
        return function(*args, **kwargs)


def _tensor_method(name: str) -> Callable:
    return lambda self, *arguments: getattr(self.tensor(), name)(*arguments)


# Python looks operators up on the class, where __getattr__ does not reach.
for _name in (
    "getitem",
    "len",
    "iter",
    "neg",
    *"add radd sub rsub mul rmul truediv rtruediv".split(),
):
    setattr(DeferredLogits, f"__{_name}__", _tensor_method(f"__{_name}__"))


def _deferred_cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
) -> Tensor | None:
    """Gives the loss, or None where the operator lacks what is asked for."""
    if (
        not isinstance(input, DeferredLogits)
        or any(option is not None for option in (weight, size_average, reduce))
        or target.is_floating_point()
        or target.shape != input.shape[:-1]
        # Cross entropy takes the classes from dimension 1.
        or len(input.shape) > 2
    ):
        return None
    hidden, head_weight, head_bias = input._source
    loss = _ops.linear_cross_entropy(
        hidden,
        head_weight,
        target.view(hidden.shape[:-1]),
        head_bias,
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )
    return loss.view(target.shape if reduction == "none" else ()).to(input.dtype)


def _patch_loss(model: torch.nn.Module) -> None:
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if head is None or "_palmist_loss_hooks" in model.__dict__ or not _is_plain(head):
        return
    if isinstance(head, _Patched):
        original, implementations = head._palmist_recipe
    else:
        original, implementations = type(head), ()
    if original is not torch.nn.Linear:
        return
    head.__class__ = _patched_class(original, _LossHead, *implementations)
    model._palmist_loss_hooks = (
        model.register_forward_pre_hook(_defer_logits, with_kwargs=True),
        model.register_forward_hook(_drop_logits, with_kwargs=True, always_call=True),
    )


def _defer_logits(model: torch.nn.Module, args: tuple, kwargs: dict) -> None:
    given = kwargs
    if args:
        given = inspect.signature(model.forward).bind_partial(*args, **kwargs).arguments
    has_labels = given.get("labels") is not None
    model.get_output_embeddings()._palmist_defers = model.training and has_labels


def _drop_logits(model: torch.nn.Module, args: tuple, kwargs: dict, output):
    model.get_output_embeddings()._palmist_defers = False
    if isinstance(output, dict):
        return type(output)(**{name: _without_logits(value) for name, value in output.items()})
    if isinstance(output, tuple):
        return tuple(map(_without_logits, output))
    # The forward raised an error.
    return output


def _without_logits(value):
    return None if isinstance(value, DeferredLogits) else value
