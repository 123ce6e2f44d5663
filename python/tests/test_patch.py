"""Patched Hugging Face models against the same models unpatched."""

import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from helpers import FAMILIES, backward_of, tiny_model, tokens, worst_difference

import palmist
from palmist import patching

# The output-only operators lose a little beside the minimum of GELU.
TOLERANCE = {"lean": (1e-5, 1e-4), "tempo": (1e-5, 5e-4)}


def _padding(ids):
    mask = torch.ones_like(ids)
    mask[1, -5:] = 0
    return mask


def _labels(ids):
    labels = ids.clone()
    labels[:, :3] = -100
    return labels


def _types(model):
    return [type(module) for module in model.modules()]


@pytest.mark.parametrize("variant", ["lean", "tempo"])
@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_gradients(family, variant):
    plain = tiny_model(family)
    patched = copy.deepcopy(plain)
    assert palmist.patch(patched, variant=variant) is patched
    assert list(patched.state_dict()) == list(plain.state_dict())
    ids = tokens()
    arguments = {"attention_mask": _padding(ids), "labels": _labels(ids)}
    want, got = plain(ids, **arguments), patched(ids, **arguments)
    forward, gradient = TOLERANCE[variant]
    assert abs(float((got.loss - want.loss).detach())) <= forward * float(want.loss.detach())
    assert got.logits is None and want.logits is not None
    assert (
        worst_difference(backward_of(plain, want.loss), backward_of(patched, got.loss)) <= gradient
    )
    # Logits come back without labels, and in evaluation.
    seen = _padding(ids).bool()
    for arguments in ({}, {"labels": _labels(ids)}):
        want, got = (
            m.eval()(ids, attention_mask=_padding(ids), **arguments).logits[seen]
            for m in (plain, patched)
        )
        assert float((got - want).detach().norm()) <= forward * float(want.detach().norm())


@pytest.mark.parametrize("family", FAMILIES)
def test_unpatch_restores(family):
    model = tiny_model(family)
    modules, types = list(model.modules()), _types(model)
    parameters = list(map(id, model.parameters()))
    before = model.config.to_dict(), model.config._attn_implementation
    palmist.patch(model)
    assert _types(model) != types
    assert list(map(id, model.modules())) == list(map(id, modules))
    assert list(map(id, model.parameters())) == parameters
    attributes = [dict(module.__dict__) for module in modules]
    palmist.patch(model)
    palmist.patch(model, variant="tempo")
    assert [dict(module.__dict__) for module in modules] == attributes
    assert palmist.unpatch(model) is model
    assert _types(model) == types and list(model.modules()) == modules
    assert (model.config.to_dict(), model.config._attn_implementation) == before
    assert not any("palmist" in name for m in modules for name in m.__dict__)
    ids = tokens()
    assert model(ids, labels=ids).logits is not None
    assert palmist.unpatch(model) is model


@pytest.mark.parametrize("family", ("bert", "gpt2", "llama"))
def test_copies_and_pickles(family):
    model, ids = palmist.patch(tiny_model(family)), tokens()
    want = model(ids, labels=ids)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(again(ids, labels=ids).loss, want.loss)
        assert not set(map(id, again.parameters())) & set(map(id, model.parameters()))
        # Tied weights stay tied.
        assert len(list(again.parameters())) == len(list(model.parameters()))
        assert palmist.unpatch(again)(ids, labels=ids).logits is not None
    assert model(ids, labels=ids).logits is None


def test_unpickles_in_a_new_process(tmp_path):
    model, ids = palmist.patch(tiny_model("llama")), tokens()
    torch.save((model, ids, model(ids, labels=ids).loss.detach()), tmp_path / "model.pt")
    script = (
        "import sys, torch; sys.path.insert(0, sys.argv[2])\n"
        "model, ids, loss = torch.load(sys.argv[1], weights_only=False)\n"
        "assert torch.allclose(model(ids, labels=ids).loss, loss)"
    )
    python = str(Path(palmist.__file__).parent.parent)
    subprocess.run([sys.executable, "-c", script, tmp_path / "model.pt", python], check=True)


@pytest.mark.parametrize("family", ("bert", "roberta"))
def test_a_hook_on_the_feed_forward_still_sees_it(family):
    model, ids, seen = palmist.patch(tiny_model(family)), tokens(), []
    want = model(ids).logits
    output = getattr(model, family).encoder.layer[0].output
    output.register_forward_hook(lambda module, arguments, result: seen.append(arguments[0].shape))
    assert torch.equal(model(ids).logits, want)
    assert seen == [(*ids.shape, 96)]


@pytest.mark.parametrize("family", ("bert", "gpt2", "qwen3"))
def test_saves_and_loads_both_ways(family, tmp_path):
    plain = tiny_model(family)
    patched = palmist.patch(copy.deepcopy(plain))
    patched.save_pretrained(tmp_path / "patched")
    plain.save_pretrained(tmp_path / "plain")
    assert "palmist" not in (tmp_path / "patched/config.json").read_text()
    ids = tokens()
    want = plain.eval()(ids).logits
    loaded = type(plain).from_pretrained(tmp_path / "patched")
    assert torch.equal(loaded(ids).logits, want)
    loaded = palmist.patch(type(plain).from_pretrained(tmp_path / "plain"))
    assert torch.allclose(loaded(ids).logits, want, atol=1e-5)
    patched.load_state_dict(plain.state_dict())
    plain.load_state_dict(patched.state_dict())


@pytest.mark.parametrize("family", ("gpt2", "llama"))
def test_causal_loss_is_that_of_transformers(family):
    model, ids = tiny_model(family), tokens()
    labels = _labels(ids)
    for options in (
        {},
        {"num_items_in_batch": torch.tensor(7)},
        {"num_items_in_batch": 7},
        {"ignore_index": int(ids[0, 5]), "labels": ids},
        {"shift_labels": labels.roll(-1, 1)},
    ):
        options = {"labels": labels, **options}
        plain = model(ids, **options).loss
        lean = palmist.patch(model)(ids, **options)
        palmist.unpatch(model)
        assert lean.logits is None
        assert torch.allclose(lean.loss, plain, rtol=1e-6), options


def test_loss_in_half_precision_is_float():
    model, ids = tiny_model("llama").bfloat16(), tokens()
    want = model(ids, labels=ids).loss
    got = palmist.patch(model)(ids, labels=ids).loss
    assert got.dtype == want.dtype == torch.float32
    assert abs(float((got - want).detach())) < 2e-2


def test_other_losses_see_logits():
    model, ids = tiny_model("gpt2"), tokens()

    def loss_function(logits, labels, vocab_size, **_):
        return (logits / 2)[..., :-1, :].softmax(-1).square().mean() + logits.float().mean()

    model.loss_function = loss_function
    want = model(ids, labels=ids).loss
    got = palmist.patch(model)(ids, labels=ids)
    assert torch.allclose(got.loss, want, atol=1e-6) and got.logits is None


def test_tuples_and_positions():
    model, ids = palmist.patch(tiny_model("gpt2")), tokens()
    loss, logits, *_ = model(ids, labels=ids, return_dict=False)
    assert logits is None and loss.shape == ()
    model, ids = palmist.patch(tiny_model("bert")), tokens()
    assert model(ids, None, None, None, None, None, None, ids).logits is None


def test_an_error_leaves_the_head_alone():
    model, ids = palmist.patch(tiny_model("gpt2")), tokens()
    with pytest.raises(ValueError, match="batch_size"):
        model(ids, labels=ids[:, :3])
    assert model.eval()(ids).logits.shape == (2, 16, 97)
    assert isinstance(model.train()(ids).logits, torch.Tensor)


def test_loss_false_keeps_logits():
    model, ids = palmist.patch(tiny_model("llama"), loss=False), tokens()
    assert model(ids, labels=ids).logits is not None


@pytest.mark.parametrize("family", ("bert", "gpt2", "llama"))
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradient_checkpointing(family, use_reentrant):
    model, ids = palmist.patch(tiny_model(family, dropout=0.1)), tokens()
    gradients = []
    for checkpointing in (False, True):
        if checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": use_reentrant})
        torch.manual_seed(4)
        gradients.append(backward_of(model, model(ids, labels=ids).loss))
    assert worst_difference(*gradients) < 1e-6


@pytest.mark.parametrize("family", ("bert", "gpt2", "llama"))
def test_autocast(family):
    plain, ids = tiny_model(family), tokens()
    patched = palmist.patch(copy.deepcopy(plain))
    runs = []
    for model in (plain, patched):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(ids, labels=ids).loss
        runs.append((float(loss.detach()), backward_of(model, loss)))
    assert abs(runs[0][0] - runs[1][0]) < 2e-2
    a, b = (torch.cat([g.flatten() for g in run[1].values()]) for run in runs)
    assert float((a - b).norm() / a.norm()) < 5e-2


def test_compile():
    model, ids = palmist.patch(tiny_model("llama", layers=1)), tokens()
    want = backward_of(model, model(ids, labels=ids).loss)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    output = compiled(ids, labels=ids)
    assert output.logits is None
    assert worst_difference(want, backward_of(model, output.loss)) < 1e-5


def test_generates():
    model, ids = tiny_model("llama").eval(), tokens(1, 5)
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    want = model.generate(ids, **options)
    assert torch.equal(palmist.patch(model).generate(ids, **options), want)


def test_sliding_window_is_kept():
    model, ids = tiny_model("mistral").eval(), tokens(1, 32)
    want = model(ids).logits
    assert torch.allclose(palmist.patch(model)(ids).logits, want, atol=1e-5)
    ids[0, 0] = ids[0, 0] % 90 + 6
    # Two layers of a window of eight reach fourteen tokens back, not thirty-one.
    assert torch.equal(model(ids).logits[0, -1], model(ids.clone()).logits[0, -1])
    assert torch.allclose(model(ids).logits[0, -1], want[0, -1], atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_attentions_come_from_transformers(family):
    model, ids = tiny_model(family).eval(), tokens()
    model.set_attn_implementation("eager")
    want = model(ids, output_attentions=True)
    palmist.patch(model)
    patching._warn_once.cache_clear()
    with pytest.warns(UserWarning, match="output_attentions"):
        got = model(ids, output_attentions=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model(ids, output_attentions=True)
    assert len(got.attentions) == len(want.attentions) == 2
    for a, b in zip(got.attentions, want.attentions):
        assert torch.allclose(a, b, atol=1e-6)
    assert torch.allclose(got.logits, want.logits, atol=1e-5)
    assert palmist.unpatch(model).config._attn_implementation == "eager"


def test_lacking_features_fall_back():
    model = palmist.patch(tiny_model("llama"))
    attention = model.model.layers[0].self_attn
    heads = [torch.randn(1, n, 5, 16) for n in (4, 2, 2)]
    patching._warn_once.cache_clear()
    with pytest.warns(UserWarning, match="position_bias"):
        got, _ = patching._attention_forward(
            attention, *heads, None, position_bias=torch.zeros(1, 4, 5, 5)
        )
    want, _ = patching._attention_forward(attention, *heads, None)
    assert torch.allclose(got, want, atol=1e-6)
    with pytest.raises(ValueError, match="softcap"):
        patching._attention_forward(attention, *heads, None, softcap=30.0)


def test_config_with_output_attentions():
    model = tiny_model("bert", attn_implementation="eager", output_attentions=True)
    patching._warn_once.cache_clear()
    with pytest.warns(UserWarning, match="output_attentions"):
        palmist.patch(model)
    assert len(model(tokens()).attentions) == 2


@pytest.mark.parametrize(
    "left_out", ["attention", "norm", "activation", "dropout", "linear", "loss"]
)
def test_each_technique_can_be_left_out(left_out):
    model, ids = tiny_model("gpt2"), tokens()
    want = model(ids, labels=ids).loss
    palmist.patch(model, **{left_out: False})
    block = model.transformer.h[0]
    is_patched = {
        "attention": model.config._attn_implementation == "palmist",
        "norm": isinstance(block.ln_1, palmist.nn.LayerNorm),
        "activation": isinstance(block.mlp.act, patching._Patched),
        "dropout": isinstance(block.mlp.dropout, palmist.nn.Dropout),
        "linear": isinstance(block.mlp.c_fc, palmist.nn.Conv1D),
        "loss": model(ids, labels=ids).logits is None,
    }
    assert [name for name, patched in is_patched.items() if not patched] == [left_out]
    assert torch.allclose(model(ids, labels=ids).loss, want, rtol=1e-6)


def test_layers():
    model, ids = tiny_model("gpt2", layers=3), tokens()
    want = model(ids, labels=ids).loss
    palmist.patch(model, layers=[1], loss=False)
    palmist.patch(model, layers=[2], variant="tempo", loss=False)
    first, second, third = model.transformer.h
    assert type(first.ln_1) is torch.nn.LayerNorm
    assert type(model.transformer.ln_f) is torch.nn.LayerNorm
    assert (second.ln_1.variant, third.ln_1.variant) == ("lean", "tempo")
    variants = [getattr(b.attn, "_palmist_attention", None) for b in (first, second, third)]
    assert variants == [None, "lean", "tempo"]
    assert torch.allclose(model(ids, labels=ids).loss, want, rtol=1e-6)
    with pytest.raises(ValueError, match=r"layers from 0 to 2, got \[3, -1\]"):
        palmist.patch(model, layers=[0, 3, -1])


def test_unknown_models():
    class Net(torch.nn.Sequential):
        pass

    model = Net(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    with pytest.raises(ValueError, match="bert, gpt2, llama, mistral, qwen2, qwen3, roberta"):
        palmist.patch(model)
    with pytest.raises(ValueError, match="variant"):
        palmist.patch(model, variant="lossy", strict=False)
    x = torch.randn(2, 4)
    want = model(x)
    palmist.patch(model, strict=False)
    assert isinstance(model[0], palmist.nn.Linear)
    assert torch.allclose(model(x), want, atol=1e-6)


def test_what_stays_as_it_is():
    class OwnLinear(torch.nn.Linear):
        pass

    class LoraLayer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base_layer = torch.nn.Linear(4, 4)

    hooked, parametrised, replaced, integer = (torch.nn.Linear(4, 4) for _ in range(4))
    hooked.register_forward_hook(lambda *_: None)
    torch.nn.utils.parametrizations.weight_norm(parametrised)
    replaced.forward = lambda x: x
    integer.weight = torch.nn.Parameter(torch.ones(4, 4, dtype=torch.int8), requires_grad=False)
    kept = [
        OwnLinear(4, 4),
        LoraLayer(),
        hooked,
        parametrised,
        replaced,
        integer,
        torch.nn.Dropout(0.5, inplace=True),
        torch.nn.ReLU(),
        torch.nn.BatchNorm1d(4),
    ]
    model = torch.nn.Sequential(*kept)
    types = _types(model)
    palmist.patch(model, strict=False)
    assert _types(model) == types


def test_a_gelu_in_python_stays(family="bert"):
    model = tiny_model(family, hidden_act="gelu_python")
    palmist.patch(model)
    assert not isinstance(
        model.bert.encoder.layer[0].intermediate.intermediate_act_fn, patching._Patched
    )


@pytest.mark.parametrize(
    "name", ["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu"]
)
def test_activations(name):
    model, ids = tiny_model("gpt2", activation_function=name).eval(), tokens()
    want = model(ids).logits
    assert torch.allclose(palmist.patch(model)(ids).logits, want, atol=1e-5)


def test_a_gated_gelu_keeps_its_product():
    model, ids = tiny_model("llama", hidden_act="gelu").eval(), tokens()
    want = model(ids).logits
    assert torch.allclose(palmist.patch(model)(ids).logits, want, atol=1e-5)


def test_submodels_and_heads():
    import transformers

    model = tiny_model("bert")
    palmist.patch(model.bert)
    assert type(model.cls.predictions.decoder) is torch.nn.Linear
    palmist.unpatch(model)
    config = model.config
    for build in (
        transformers.BertForSequenceClassification,
        transformers.BertForTokenClassification,
        transformers.BertForPreTraining,
        transformers.BertModel,
    ):
        model, ids = build(config).eval(), tokens()
        want = model(ids)[0]
        assert torch.allclose(palmist.patch(model)(ids)[0], want, atol=1e-5)
        palmist.unpatch(model)


def test_models_that_share_a_configuration():
    import transformers

    first = tiny_model("gpt2")
    second, ids = transformers.GPT2LMHeadModel(first.config).eval(), tokens()
    want = second(ids).logits
    palmist.patch(first)
    assert torch.allclose(second(ids).logits, want, atol=1e-6)
    palmist.unpatch(first)
    assert second.config._attn_implementation == "sdpa"


def test_trains_as_before():
    """Same data, same steps: the losses are those of the model as it was."""
    losses = []
    for lean in (False, True):
        torch.manual_seed(0)
        model = tiny_model("llama")
        if lean:
            palmist.patch(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        ids = tokens(4, 16)
        run = []
        for _ in range(8):
            loss = model(ids, labels=ids).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.append(float(loss.detach()))
        losses.append(run)
    assert losses[0][-1] < 0.6 * losses[0][0]
    for a, b in zip(*losses):
        assert abs(a - b) < 1e-3
