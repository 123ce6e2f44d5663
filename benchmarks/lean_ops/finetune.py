#!/usr/bin/env python3
"""Fine-tunes a real model on real text, with Palmist's operators or without, and logs the run.

    finetune.py --model minilm|smollm2 --seed S --patched|--plain --log RUN.jsonl [--steps N]

MiniLM learns masked language modelling, with a new head tied to its embeddings and its dropout of
0.1 on: 8 sequences of 128 tokens a step. SmolLM2 goes on as a causal language model: one sequence
of 512 tokens a step. The text is the Jargon File, of which every 20th sequence is held out.

The seed sets the order of the data, the masks, the new head and dropout; a patched and a plain run
of one seed see the same data. The log has a line on the run with the bytes that its forward pass
keeps and the peak of a step, a line a step, and the loss on the held-out text before and after.
"""

import argparse
import dataclasses
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import weights  # noqa: E402  (sets the environment of transformers)

import torch  # noqa: E402
import transformers  # noqa: E402
from torch import Tensor  # noqa: E402

import palmist  # noqa: E402

HELD_OUT_EVERY = 20
HELD_OUT_BATCHES = 4
WARM_UP_SHARE = 0.1

Batch = dict[str, Tensor]


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained, on sequences of `seq` tokens, `batch` at once."""

    name: str
    batch: int
    seq: int
    steps: int
    learning_rate: float


TASKS = {
    "minilm": Task("masked language modelling", 8, 128, 60, 5e-4),
    "smollm2": Task("causal language modelling", 1, 512, 30, 5e-5),
}


class MaskedBatches:
    """Makes batches for masked language modelling; Devlin et al., arXiv 1810.04805, section 3.1."""

    def __init__(self, tokenizer: transformers.PreTrainedTokenizerFast):
        self._tokenizer = tokenizer

    def sequences(self, tokens: Tensor, seq: int) -> Tensor:
        """Cuts [N] tokens into [n, seq] between [CLS] and [SEP]."""
        rows = cut(tokens, seq - 2)
        edge = torch.ones(len(rows), 1, dtype=torch.long)
        ids = self._tokenizer.cls_token_id, self._tokenizer.sep_token_id
        return torch.cat([edge * ids[0], rows, edge * ids[1]], dim=1)

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        """Hides 15 % of the tokens: 8 of 10 behind [MASK], one by another token, one not at all."""
        draw = torch.rand(rows.shape, generator=generator)
        draw[:, [0, -1]] = 1.0
        other = torch.randint(self._tokenizer.vocab_size, rows.shape, generator=generator)
        inputs = torch.where(draw < 0.15 * 0.9, other, rows)
        inputs = inputs.masked_fill(draw < 0.15 * 0.8, self._tokenizer.mask_token_id)
        return {"input_ids": inputs, "labels": rows.masked_fill(draw >= 0.15, -100)}


class CausalBatches:
    """Makes batches for causal language modelling."""

    def sequences(self, tokens: Tensor, seq: int) -> Tensor:
        """Cuts [N] tokens into [n, seq]."""
        return cut(tokens, seq)

    def batch(self, rows: Tensor, generator: torch.Generator) -> Batch:
        """Gives the rows as they are; the model shifts the labels."""
        return {"input_ids": rows, "labels": rows}


def cut(tokens: Tensor, length: int) -> Tensor:
    """Cuts [N] into [N // length, length]."""
    return tokens[: len(tokens) // length * length].view(-1, length)


def load(name: str) -> tuple[torch.nn.Module, MaskedBatches | CausalBatches, Tensor]:
    """Returns a model, what makes its batches, and the tokens [N] of the text."""
    if name == "minilm":
        tokenizer = weights.minilm_tokenizer()
        model = weights.minilm(transformers.BertForMaskedLM)
        batches = MaskedBatches(tokenizer)
    else:
        tokenizer = weights.smollm2_tokenizer()
        model = weights.smollm2()
        batches = CausalBatches()
    # The tokenizer would warn that the whole text is longer than what the model takes.
    tokenizer.model_max_length = sys.maxsize
    tokens = tokenizer(weights.jargon_text(), add_special_tokens=False).input_ids
    return model, batches, torch.tensor(tokens)


def training_batches(
    rows: Tensor, batches: MaskedBatches | CausalBatches, size: int, seed: int
) -> Iterator[Batch]:
    """Gives batches of all rows in a random order, again and again."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for chosen in torch.randperm(len(rows), generator=generator).split(size):
            if len(chosen) == size:
                yield batches.batch(rows[chosen], generator)


def held_out_loss(model: torch.nn.Module, held_out: list[Batch]) -> float:
    """Returns the mean loss without dropout."""
    model.eval()
    with torch.no_grad():
        losses = [model(**batch).loss.item() for batch in held_out]
    model.train()
    return sum(losses) / len(losses)


def peak_bytes(model: torch.nn.Module, batch: Batch) -> int:
    """Returns by how much the memory in use grows at most in a forward and backward pass.

    Counts what torch allocates, the gradients among it; they are dropped again.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(
        activities=activities, profile_memory=True, acc_events=True
    ) as profiler:
        model(**batch).loss.backward()
    model.zero_grad(set_to_none=True)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text())["traceEvents"]
    changes = sorted(
        (event["ts"], event["args"]["Bytes"]) for event in events if event["name"] == "[memory]"
    )
    return max(itertools.accumulate(change for _, change in changes))


def train(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    task = TASKS[arguments.model]
    steps = arguments.steps or task.steps
    model, batches, tokens = load(arguments.model)
    model.train()
    if arguments.patched:
        palmist.patch(model)
    rows = batches.sequences(tokens, task.seq)
    is_held_out = torch.arange(len(rows)) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
    fixed = torch.Generator().manual_seed(0)
    held_out = [
        batches.batch(part, fixed)
        for part in rows[is_held_out].split(task.batch)[:HELD_OUT_BATCHES]
    ]
    training = training_batches(rows[~is_held_out], batches, task.batch, arguments.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.learning_rate, weight_decay=0.01)
    warm_up = max(1, round(WARM_UP_SHARE * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / warm_up)
    )
    arguments.log.parent.mkdir(parents=True, exist_ok=True)
    with open(arguments.log, "w", buffering=1) as log:

        def write(**values) -> None:
            log.write(json.dumps(values) + "\n")

        write(
            model=arguments.model,
            task=task.name,
            patched=arguments.patched,
            seed=arguments.seed,
            steps=steps,
            batch=task.batch,
            seq=task.seq,
            learning_rate=task.learning_rate,
            threads=arguments.threads,
            torch=torch.__version__,
            transformers=transformers.__version__,
            kept_bytes=palmist.saved_bytes(model, **held_out[0]).total_bytes,
            peak_bytes=peak_bytes(model, held_out[0]),
        )
        write(step=0, held_out_loss=held_out_loss(model, held_out))
        # What was measured has drawn from the generator, once a dropout.
        torch.manual_seed(arguments.seed)
        for step, batch in enumerate(itertools.islice(training, steps), start=1):
            begin = time.perf_counter()
            loss = model(**batch).loss
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            write(
                step=step,
                loss=loss.item(),
                grad_norm=norm.item(),
                step_time_s=round(time.perf_counter() - begin, 3),
            )
        write(step=steps, held_out_loss=held_out_loss(model, held_out))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=TASKS, required=True)
    parser.add_argument("--seed", type=int, required=True)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--patched", action="store_true", help="with palmist.patch")
    which.add_argument("--plain", action="store_true", help="as transformers has it")
    parser.add_argument("--steps", type=int, help="60 for MiniLM, 30 for SmolLM2 by default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--log", type=Path, required=True, help="JSON lines")
    arguments = parser.parse_args()
    try:
        train(arguments)
    except weights.MissingData as error:
        sys.exit(f"finetune: {error}")


if __name__ == "__main__":
    main()
