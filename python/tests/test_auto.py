"""The choice of operators by the planner."""

import copy
import re

import pytest
import torch
from helpers import backward_of, tiny_model, tokens, worst_difference

import palmist
from palmist import planning

SEQ, BATCH = 32, 4


def _peaks(model):
    """Gives what the planner says the model takes as it is, and at least."""
    with pytest.raises(palmist.DoesNotFit) as caught:
        palmist.auto(model, BATCH, 1, seq=SEQ)
    prediction = caught.value.prediction
    return prediction["baseline"]["peak_bytes"], prediction["min_peak_bytes"]


@pytest.mark.parametrize("family", ("bert", "gpt2", "qwen3"))
def test_applies_what_it_chose(family):
    plain, ids = tiny_model(family, layers=3), tokens(BATCH, SEQ)
    most, least = _peaks(plain)
    assert least < most
    for budget in (most, (most + least) / 2, least):
        model = copy.deepcopy(plain)
        choice = palmist.auto(model, BATCH, budget, seq=SEQ)
        assert choice.peak_bytes <= budget and len(choice.layers) == 3
        layers = planning.transformer_layers(model)
        for layer, chosen in zip(layers, choice.layers):
            assert layer.gradient_checkpointing == chosen["recompute"]
            attentions = {
                module._palmist_attention
                for module in layer.modules()
                if hasattr(module, "_palmist_attention")
            }
            assert attentions == ({chosen["attention"]} & {"lean", "tempo"})
        output = model(ids, labels=ids)
        assert (output.logits is None) == (choice.loss == "lean")
        want = backward_of(plain, plain(ids, labels=ids).loss)
        assert worst_difference(want, backward_of(model, output.loss)) <= 1e-4
        palmist.unpatch(model)
        assert list(map(type, model.modules())) == list(map(type, plain.modules()))


@pytest.mark.parametrize("wrap", (lambda ids: ids, lambda ids: {"input_ids": ids, "labels": ids}))
def test_takes_the_batch_itself(wrap):
    model, ids = tiny_model("gpt2"), tokens(BATCH, SEQ)
    want = palmist.auto(copy.deepcopy(model), BATCH, 1 << 30, seq=SEQ)
    assert palmist.auto(model, wrap(ids), 1 << 30).peak_bytes == want.peak_bytes


@pytest.mark.parametrize("batch", (torch.zeros(3), {"pixels": torch.zeros(2, 3)}, "four"))
def test_another_batch_is_refused(batch):
    with pytest.raises(ValueError, match=r"expected batch .* \[B, S\]; got"):
        palmist.auto(tiny_model("gpt2"), batch, 1 << 30)


def test_a_smaller_budget_keeps_less():
    plain, ids = tiny_model("gpt2", layers=3), tokens(BATCH, SEQ)
    most, least = _peaks(plain)
    kept = []
    for budget in (most, least):
        model = copy.deepcopy(plain)
        palmist.auto(model, BATCH, budget, seq=SEQ)
        kept.append(palmist.saved_bytes(lambda ids: model(ids, labels=ids).loss, ids).total_bytes)
    plain_kept = palmist.saved_bytes(lambda ids: plain(ids, labels=ids).loss, ids).total_bytes
    assert kept[1] < kept[0] <= plain_kept


def test_tempo_only_where_allowed():
    model = tiny_model("bert", layers=2)
    most, least = _peaks(model)
    for allow in (False, True):
        answer = planning.call_planner(
            {
                "call": "choose_operators",
                "config": model.config.to_dict(),
                "seq": SEQ,
                "batch": BATCH,
                "budget_bytes": (most + least) / 2,
                "allow_tempo": allow,
            }
        )
        assert allow or "tempo" not in str(answer["layers"])
    answer["layers"][0] |= {"norm": "tempo", "activation": "tempo", "attention": "lean"}
    planning._apply(model, answer)
    layer = model.bert.encoder.layer[0]
    assert layer.output.LayerNorm.variant == "tempo"
    assert layer.intermediate.intermediate_act_fn.variant == "tempo"
    assert layer.attention.self._palmist_attention == "lean"


def test_what_does_not_fit_leaves_the_model_alone():
    model = tiny_model("llama")
    types = list(map(type, model.modules()))
    with pytest.raises(
        palmist.DoesNotFit, match="batch 4 to fit 1,000 bytes; the leanest .* takes"
    ):
        palmist.auto(model, BATCH, 1000, seq=SEQ)
    assert list(map(type, model.modules())) == types
    assert issubclass(palmist.DoesNotFit, MemoryError)


def test_says_what_it_chose():
    model = tiny_model("gpt2", layers=2)
    choice = palmist.auto(model, BATCH, 1 << 30, seq=SEQ)
    text = str(choice)
    assert f"{choice.peak_bytes:,} bytes" in text and f"loss: {choice.loss}" in text
    counts = [int(n) for n in re.findall(r"^(\d+) layers: attention ", text, re.M)]
    assert sum(counts) == 2


def test_refusals():
    model = tiny_model("bert")
    with pytest.raises(ValueError, match="seq"):
        palmist.auto(model, BATCH, 1 << 30, seq=4096)
    with pytest.raises(ValueError, match="batch"):
        palmist.auto(model, 0, 1 << 30, seq=SEQ)
    with pytest.raises(ValueError, match="float64"):
        palmist.auto(model, BATCH, 1 << 30, dtype=torch.float64)
    with pytest.raises(ValueError, match="device|abacus"):
        palmist.auto(model, BATCH, 1 << 30, seq=SEQ, device="abacus")
    with pytest.raises(ValueError, match="unknown|nothing"):
        planning.call_planner({"call": "nothing"})


@pytest.mark.parametrize("family", ["roberta", "llama"])
def test_longest_sequence_by_default(family):
    model = tiny_model(family)
    choice = palmist.auto(model, 1, 1 << 30)
    length = 128 if family == "roberta" else 130
    assert planning._longest_sequence(model.config) == length
    assert model(tokens(1, length)).logits.shape[1] == length
    assert choice.largest_batch > 1


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "qwen3"])
def test_predicts_what_is_kept(family):
    """What a layer keeps, by the planner's model and as autograd counts it."""
    predicted, measured = [], []
    for layers in (1, 3):
        model, ids = tiny_model(family, layers=layers, dropout=0.1), tokens(BATCH, SEQ)
        answer = planning.call_planner(
            {
                "call": "choose_operators",
                "config": model.config.to_dict(),
                "seq": SEQ,
                "batch": BATCH,
                "budget_bytes": 1,
                "techniques": ["attention", "norm", "activation", "dropout"],
            }
        )
        predicted.append(answer["breakdown"]["activations"])
        run = palmist.patch(model).base_model
        arguments = {} if family == "bert" else {"use_cache": False}
        saved = palmist.saved_bytes(run, ids, **arguments)
        measured.append(saved.total_bytes)
    assert measured[1] - measured[0] == pytest.approx(predicted[1] - predicted[0], rel=0.01)
