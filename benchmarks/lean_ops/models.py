"""Hugging Face models with random weights, in the shapes that the benchmark measures."""

import dataclasses

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
)

import palmist


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of a model; `seq` tokens make a sequence."""

    name: str
    family: str
    hidden: int
    heads: int
    intermediate: int
    seq: int
    vocabulary: int

    def tiny(self) -> "Shape":
        """Returns the same model in sizes for a smoke test."""
        return dataclasses.replace(
            self, hidden=64, heads=4, intermediate=160, seq=64, vocabulary=1000
        )


BERT_LARGE = Shape("BERT-large", "bert", 1024, 16, 4096, 512, 500)
BERT_BASE = Shape("BERT-base", "bert", 768, 12, 3072, 512, 30522)
GPT2_SMALL = Shape("GPT-2 small", "gpt2", 768, 12, 3072, 1024, 50257)
LLAMA = Shape("LLaMA 1024/2752", "llama", 1024, 16, 2752, 1024, 500)


def build(shape: Shape, layers: int, dropout: float, attention=None, head=False):
    """Builds a model in training mode, the same weights each time.

    `attention` is transformers' `attn_implementation`, None for its default. With `head` the model
    computes a loss: masked tokens for BERT, next tokens else.
    """
    torch.manual_seed(0)
    sizes = {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": layers,
        "max_position_embeddings": shape.seq,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    options = {}
    if shape.family == "bert":
        sizes |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        config = BertConfig(intermediate_size=shape.intermediate, **sizes)
        cls = BertForMaskedLM if head else BertModel
        options = {} if head else {"add_pooling_layer": False}
    elif shape.family == "gpt2":
        sizes |= {"resid_pdrop": dropout, "attn_pdrop": dropout, "embd_pdrop": dropout}
        config = GPT2Config(n_inner=shape.intermediate, **sizes)
        cls = GPT2LMHeadModel if head else GPT2Model
    else:
        config = LlamaConfig(
            intermediate_size=shape.intermediate, attention_dropout=dropout, **sizes
        )
        cls = LlamaForCausalLM if head else LlamaModel
    if attention:
        config._attn_implementation = attention
    return cls(config, **options).train()


def build_variant(shape: Shape, layers: int, dropout: float, variant: str, head=False):
    """Builds a model as one of "default", "eager", "checkpoint", "compile", "lean", "tempo"."""
    attention = "eager" if variant in ("eager", "checkpoint") else None
    model = build(shape, layers, dropout, attention, head)
    if variant in ("lean", "tempo"):
        return palmist.patch(model, variant=variant)
    if variant == "checkpoint":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return torch.compile(model) if variant == "compile" else model


def tokens(shape: Shape, batch: int) -> torch.Tensor:
    """Draws token ids [batch, seq]."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, shape.vocabulary, (batch, shape.seq), generator=generator)


def hidden_states(model, ids: torch.Tensor) -> torch.Tensor:
    """Runs a model without a head."""
    cache = {} if model.config.model_type == "bert" else {"use_cache": False}
    return model(ids, **cache).last_hidden_state


def loss_of(model, ids: torch.Tensor) -> torch.Tensor:
    """Runs a model with a head and returns its loss."""
    return model(ids, labels=ids).loss
