#!/usr/bin/env python3
"""Compares real models with Palmist's operators and without, on real text.

    real_weights.py [--model minilm|smollm2] [--threads N]

For each model and variant prints how far apart the outputs are (evaluation; the last hidden states
and the logits) and the gradients (training, dropout off), and whether the state dict of each loads
into the other. Differences are relative in the Euclidean norm but for "max abs". "Gradients" takes
them as one vector, "worst parameter" one by one. The columns "exact" are against the model in
double, for which the loss is computed in double too: transformers computes it in float, and the
rounding of cross entropy over many classes is most of what separates the float gradients. The text
has paragraphs of different lengths, so that padding is masked.

Exits with 1 where outputs differ from the plain ones by more than 1e-5 or gradients by more than
1e-4, where the gradient of a parameter is further than 1e-4 from the exact one, or where a state
dict does not load.
"""

import argparse
import copy
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import weights  # noqa: E402  (sets the environment of transformers)

import torch  # noqa: E402
import transformers  # noqa: E402
from torch import Tensor  # noqa: E402

import palmist  # noqa: E402

OUTPUT_BAR = 1e-5
GRADIENT_BAR = 1e-4
PARAGRAPHS = 4
SHORTEST_CHARACTERS = 250
# In exact arithmetic some gradients are zero, that of the bias of keys for one; what is below this
# share of the largest is taken for rounding.
NEGLIGIBLE_GRADIENT = 1e-4

HEADINGS = (
    "model",
    "variant",
    "output",
    "max abs",
    "gradients",
    "exact: loss",
    "exact: gradients",
    "exact: worst parameter",
    "state dict",
)

Gradients = dict[str, Tensor]


def load(name: str) -> tuple[torch.nn.Module, transformers.PreTrainedTokenizerFast]:
    """Returns a model without dropout, and its tokenizer."""
    if name == "minilm":
        torch.manual_seed(0)
        model = weights.minilm(
            transformers.BertForMaskedLM, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        return model, weights.minilm_tokenizer()
    tokenizer = weights.smollm2_tokenizer()
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return weights.smollm2(), tokenizer


def real_batch(tokenizer: transformers.PreTrainedTokenizerFast) -> dict[str, Tensor]:
    """Returns paragraphs of the Jargon File, padded to the longest, with their tokens as labels."""
    paragraphs = [
        " ".join(paragraph.split()) for paragraph in weights.jargon_text().split("\n\n")
    ]
    long = [paragraph for paragraph in paragraphs if len(paragraph) >= SHORTEST_CHARACTERS]
    chosen = long[:: len(long) // PARAGRAPHS][:PARAGRAPHS]
    batch = dict(tokenizer(chosen, padding=True, return_tensors="pt"))
    batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    return batch


def emptied(model: torch.nn.Module) -> torch.nn.Module:
    """Returns a copy whose parameters are all zero."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def outputs(model: torch.nn.Module, batch: dict[str, Tensor]) -> list[Tensor]:
    """Returns the last hidden states and the logits, at what is no padding."""
    inputs = {key: value for key, value in batch.items() if key != "labels"}
    is_real = batch["attention_mask"].bool()
    with torch.no_grad():
        result = model.eval()(**inputs, output_hidden_states=True)
    return [result.hidden_states[-1][is_real], result.logits[is_real]]


def gradients(model: torch.nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Gradients]:
    """Returns the loss in training, and the gradients by parameter."""
    return _backward(model, model.train()(**batch).loss)


def exact_gradients(
    model: torch.nn.Module, batch: dict[str, Tensor]
) -> tuple[Tensor, Gradients]:
    """Returns what `gradients` approximates: the same in double."""
    model = copy.deepcopy(model).double().train()
    inputs = {key: value for key, value in batch.items() if key != "labels"}
    logits, labels = model(**inputs).logits, batch["labels"]
    if isinstance(model, transformers.LlamaForCausalLM):
        logits, labels = logits[:, :-1], labels[:, 1:]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    return _backward(model, loss)


def _backward(model: torch.nn.Module, loss: Tensor) -> tuple[Tensor, Gradients]:
    model.zero_grad()
    loss.backward()
    named = {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return loss.detach(), named


def difference(actual: Tensor, expected: Tensor) -> float:
    """Returns ‖actual - expected‖ / ‖expected‖."""
    return ((actual - expected).norm() / expected.norm()).item()


def gradient_difference(actual: Gradients, expected: Gradients) -> float:
    """Returns the difference of all gradients as one vector."""
    square = sum((actual[name] - value).norm().item() ** 2 for name, value in expected.items())
    return (square / sum(value.norm().item() ** 2 for value in expected.values())) ** 0.5


def worst_difference(actual: Gradients, expected: Gradients) -> float:
    """Returns the largest difference of the gradient of a parameter, negligible ones left out."""
    norms = {name: value.norm().item() for name, value in expected.items()}
    least = NEGLIGIBLE_GRADIENT * max(norms.values())
    return max(difference(actual[name], expected[name]) for name in norms if norms[name] > least)


def holds_same(state: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return list(state) == list(other) and all(
        torch.equal(value, other[key]) for key, value in state.items()
    )


def compare(name: str, variants: list[str]) -> tuple[list[tuple[str, ...]], bool]:
    """Returns a row of the table for each variant, and whether all keep to the bars."""
    plain, tokenizer = load(name)
    batch = real_batch(tokenizer)
    exact_loss, exact = exact_gradients(plain, batch)
    plain_outputs = outputs(plain, batch)
    plain_loss, plain_gradients = gradients(plain, batch)

    def row(variant: str, *cells: str, loss: Tensor, actual: Gradients, state: str = "") -> tuple:
        errors = (
            difference(loss, exact_loss),
            gradient_difference(actual, exact),
            worst_difference(actual, exact),
        )
        return name, variant, *cells, *(f"{error:.1e}" for error in errors), state

    rows = [row("plain", "", "", "", loss=plain_loss, actual=plain_gradients)]
    good = True
    for variant in variants:
        patched = palmist.patch(emptied(plain), variant=variant)
        patched.load_state_dict(plain.state_dict())
        back = emptied(plain)
        back.load_state_dict(patched.state_dict())
        loads = holds_same(patched.state_dict(), plain.state_dict()) and holds_same(
            back.state_dict(), plain.state_dict()
        )
        pairs = list(zip(outputs(patched, batch), plain_outputs))
        output = max(difference(*pair) for pair in pairs)
        largest = max((actual - expected).abs().max().item() for actual, expected in pairs)
        loss, actual = gradients(patched, batch)
        apart = gradient_difference(actual, plain_gradients)
        cells = (f"{number:.1e}" for number in (output, largest, apart))
        state = "both ways" if loads else "differs"
        rows.append(row(variant, *cells, loss=loss, actual=actual, state=state))
        good &= loads and actual.keys() == plain_gradients.keys() and output <= OUTPUT_BAR
        good &= max(apart, worst_difference(actual, exact)) <= GRADIENT_BAR
    return rows, good


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    models = {"minilm": ["lean", "tempo"], "smollm2": ["lean"]}
    parser.add_argument("--model", choices=models, help="both by default")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    good = True
    print(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
    try:
        for name in [arguments.model] if arguments.model else models:
            rows, keeps = compare(name, models[name])
            good &= keeps
            for row in rows:
                print(f"| {' | '.join(row)} |", flush=True)
    except weights.MissingData as error:
        sys.exit(f"real_weights: {error}")
    bars = f"outputs {OUTPUT_BAR:g}, gradients {GRADIENT_BAR:g}"
    print(f"{'within' if good else 'BEYOND'} the bars: {bars}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
