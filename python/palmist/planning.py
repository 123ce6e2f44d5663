"""Chooses the operators of each layer by the planner's model, without trial runs."""

import ctypes
import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from palmist._library import find_library
from palmist.patching import patch, transformer_layers

_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
_GROUPS = ("attention", "norm", "activation", "dropout")
_VARIANTS = ("lean", "tempo")


@dataclasses.dataclass(frozen=True)
class AutoChoice:
    """What `auto` chose, and what the planner predicts for it.

    `layers` tells for each layer the variants of its "attention", "norm", "activation" and
    "dropout", and whether "recompute" makes it again in backward; `loss` is the variant of the
    loss. Bytes are those allocated at the peak of a training step. `prediction` is the planner's
    whole answer.
    """

    layers: list[dict[str, Any]]
    loss: str
    peak_bytes: int
    step_time_s: float
    baseline_peak_bytes: int
    largest_batch: int
    prediction: dict[str, Any]

    def __str__(self) -> str:
        kinds = [
            ", ".join(f"{name} {value}" for name, value in layer.items() if name != "layer")
            for layer in self.layers
        ]
        lines = [f"{kinds.count(kind)} layers: {kind}" for kind in dict.fromkeys(kinds)]
        lines.append(f"loss: {self.loss}")
        lines.append(
            f"predicted peak {self.peak_bytes:,} bytes, unpatched {self.baseline_peak_bytes:,}; "
            f"largest batch {self.largest_batch}"
        )
        return "\n".join(lines)


class DoesNotFit(MemoryError):
    """Says that no choice fits the budget; `prediction` has the closest miss."""

    def __init__(self, message: str, prediction: dict[str, Any]):
        super().__init__(message)
        self.prediction = prediction


def auto(
    model: torch.nn.Module,
    batch: int | torch.Tensor | Mapping[str, torch.Tensor],
    budget_bytes: float,
    *,
    seq: int | None = None,
    dtype: torch.dtype | None = None,
    device: str | None = None,
    allow_tempo: bool = False,
    optimizer_bytes_per_param: float = 8,
) -> AutoChoice:
    """Patches `model` with the fastest choice whose predicted peak fits, and returns the choice.

    Args:
        model: A Hugging Face model that `patch` takes, not patched yet.
        batch: Sequences that run forward and backward at once: their number, or token ids [B, S],
            alone or as `input_ids` beside other arguments of the model, which give `seq` too.
        budget_bytes: Memory for weights, gradients, optimiser and activations.
        seq: Tokens of a sequence; those of `batch`, or the longest that the model takes, by
            default.
        dtype: Of weights and activations; that of the model by default.
        device: A device that the planner knows, by name; its default by default.
        allow_tempo: Allow the "tempo" variants too, see `palmist.nn`.
        optimizer_bytes_per_param: Adam keeps 8 in fp32.

    `unpatch` takes back the operators, the model's `activation_checkpointing_disable()` the
    recomputation. Raises `DoesNotFit`, which leaves the model as it was, and
    ValueError where the planner refuses the request.
    """
    batch, seq_of_batch = _batch_shape(batch)
    if seq is None:
        seq = seq_of_batch or _longest_sequence(model.config)
    dtype = model.dtype if dtype is None else dtype
    if dtype not in _DTYPES:
        raise ValueError(f"expected dtype to be one of {list(_DTYPES)}, got {dtype}")
    is_eager = model.config._attn_implementation == "eager"
    answer = call_planner(
        {
            "call": "choose_operators",
            "config": model.config.to_dict(),
            "seq": seq,
            "batch": batch,
            "dtype": _DTYPES[dtype],
            "device": device,
            "budget_bytes": budget_bytes,
            "optimizer_bytes_per_param": optimizer_bytes_per_param,
            "allow_tempo": allow_tempo,
            "baseline_attention": "eager" if is_eager else "sdpa",
        }
    )
    if not answer["fits"]:
        raise DoesNotFit(
            f"expected batch {batch} to fit {budget_bytes:,.0f} bytes; the leanest choice takes "
            f"{answer['min_peak_bytes']:,}, {answer['missing_bytes']:,} more; the largest batch "
            f"that fits is {answer['largest_batch']}",
            answer,
        )
    _apply(model, answer)
    return AutoChoice(
        layers=answer["layers"],
        loss=answer["loss"],
        peak_bytes=answer["peak_bytes"],
        step_time_s=answer["step_time_s"],
        baseline_peak_bytes=answer["baseline"]["peak_bytes"],
        largest_batch=answer["largest_batch"],
        prediction=answer,
    )


def call_planner(request: dict[str, Any]) -> dict[str, Any]:
    """Calls the planner's library with a request as JSON, and returns its answer.

    Raises ValueError with the planner's message where it refuses.
    """
    library = _planner()
    text = library.palmist_call(json.dumps(request).encode())
    try:
        answer = json.loads(ctypes.string_at(text))
    finally:
        library.palmist_free(text)
    if "error" in answer:
        raise ValueError(f"{answer['error']['kind']}: {answer['error']['message']}")
    return answer


@functools.cache
def _planner() -> ctypes.CDLL:
    library = ctypes.CDLL(str(find_library("palmist_bindings")))
    # void*, not char*: ctypes would copy the text and lose the address to free.
    library.palmist_call.argtypes = [ctypes.c_char_p]
    library.palmist_call.restype = ctypes.c_void_p
    library.palmist_free.argtypes = [ctypes.c_void_p]
    library.palmist_free.restype = None
    return library


def _batch_shape(batch) -> tuple[int, int | None]:
    """Returns the sequences of a batch, and their tokens where it tells them."""
    ids = batch.get("input_ids") if isinstance(batch, Mapping) else batch
    if isinstance(ids, torch.Tensor) and ids.dim() == 2:
        return tuple(ids.shape)
    if isinstance(ids, int):
        return ids, None
    got = f"a tensor of shape {list(ids.shape)}" if hasattr(ids, "shape") else repr(batch)[:100]
    raise ValueError(f"expected batch to be a number, or token ids of shape [B, S]; got {got}")


def _longest_sequence(config) -> int:
    # RoBERTa numbers positions from behind its padding index.
    skipped = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    return config.max_position_embeddings - skipped


def _apply(model: torch.nn.Module, answer: dict[str, Any]) -> None:
    layers = transformer_layers(model)
    for index, choice in enumerate(answer["layers"]):
        for variant in _VARIANTS:
            groups = {group: choice[group] == variant for group in _GROUPS}
            if any(groups.values()):
                patch(model, variant=variant, layers=[index], linear=True, loss=False, **groups)
        layers[index].gradient_checkpointing = bool(choice["recompute"])
        layers[index]._gradient_checkpointing_func = functools.partial(
            checkpoint, use_reentrant=False
        )
    if answer["loss"] in _VARIANTS:
        patch(model, layers=[], loss=True)
