"""What the benchmark measures, group by group; each yields rows as soon as it has them.

The functions with a name in `_measure_…` run in processes of their own.
"""

import copy
import statistics
import sys
from collections.abc import Iterator

import torch

import measure
import models
import palmist
from models import BERT_BASE, BERT_LARGE, GPT2_SMALL, LLAMA, Shape
from table import Row, quantity

DROPOUT = 0.1
MEASURED_FAMILIES = ((BERT_LARGE, DROPOUT), (GPT2_SMALL, DROPOUT), (LLAMA, 0.0))


class Settings:
    """What the command line asks for."""

    def __init__(self, quick: bool, compile: bool):
        self.quick = quick
        self.compile = compile
        self.rounds = 1 if quick else 5

    def shape(self, shape: Shape) -> Shape:
        return shape.tiny() if self.quick else shape

    def bar(self, sense: str, value: float) -> tuple[str, float] | None:
        """Gives a bar that is for the full shapes."""
        return None if self.quick else (sense, value)


def _say(text: str) -> None:
    print(f"  {text} …", file=sys.stderr, flush=True)


# Bytes kept for backward.


def _kept(shape: Shape, variant: str) -> float | None:
    """The bytes per token and layer that the tensors of an fp32 layer add up to.

    BERT's terms are counted in modeling_bert.py, as in Korthikanti et al., arXiv 2205.05198, with a
    float of noise an element where CPU's dropout keeps one.
    """
    hidden, wide = 4 * shape.hidden, 4 * shape.intermediate
    scores = 4 * shape.heads * shape.seq
    statistics_bytes = 4 * shape.heads + (8 if shape.family == "llama" else 16)
    if variant == "lean":
        return {"llama": 6 * hidden + 2 * wide}.get(shape.family, 6 * hidden + wide) + (
            statistics_bytes
        )
    if shape.family != "bert":
        return None
    if variant == "tempo":
        return 6 * hidden + wide + shape.intermediate / 8 + scores + 8
    # Its input, q, k, v, context, two dropouts and norms, and x and y of the activation.
    return {"eager": 10 * hidden + 2 * wide + 3 * scores, "checkpoint": hidden}.get(variant)


def _published_tempo(shape: Shape) -> float:
    """Tempo's count 46H + 5AS for fp32, Andoorveedu et al., NeurIPS 2022: masks of a byte."""
    return 46 * shape.hidden + 5 * shape.heads * shape.seq


def _measure_kept(shape: Shape, layers: int, dropout: float, variant: str) -> tuple[int, int]:
    """Returns bytes kept by a forward pass: by the allocator, by the hooks of saved tensors."""
    model = models.build_variant(shape, layers, dropout, variant)
    ids = models.tokens(shape, 1)
    if variant == "compile":
        models.hidden_states(model, ids)
        return measure.timeline_of(lambda: models.hidden_states(model, ids)).last_bytes, 0
    by_allocator = measure.timeline_of(lambda: models.hidden_states(model, ids)).last_bytes
    return by_allocator, palmist.saved_bytes(models.hidden_states, model, ids).total_bytes


def _kept_per_token(shape: Shape, dropout: float, variant: str) -> tuple[float, float]:
    _say(f"kept bytes: {shape.name}, {variant}")
    one, three = (
        measure.in_fresh_process(_measure_kept, shape, layers, dropout, variant)
        for layers in (1, 3)
    )
    return tuple((b - a) / 2 / shape.seq for a, b in zip(one, three))


_KEPT_NAMES = {
    "default": "HF default (sdpa)",
    "eager": "HF eager",
    "checkpoint": "checkpoint, whole layer",
    "compile": "torch.compile, HF default",
    "lean": "lean",
    "tempo": "tempo",
}


def kept_bytes(settings: Settings) -> Iterator[Row]:
    """Bytes kept for backward per token and layer."""
    plan = (
        (BERT_LARGE, DROPOUT, ("eager", "default", "checkpoint", "compile", "lean", "tempo")),
        (GPT2_SMALL, DROPOUT, ("default", "eager", "lean")),
        (LLAMA, 0.0, ("default", "eager", "lean")),
    )
    bars = {
        ("bert", "lean"): 41.5e3,
        ("bert", "tempo"): 74.5e3,
        ("gpt2", "lean"): 31.5e3,
        ("llama", "lean"): 48e3,
    }
    for full, dropout, variants in plan:
        shape = settings.shape(full)
        peer = None
        for variant in variants:
            what = f"kept, {shape.name}: {_KEPT_NAMES[variant]}"
            if variant == "compile" and not settings.compile:
                yield Row(what, note="compiles for minutes on two cores: measured by --compile")
                continue
            by_allocator, by_hooks = _kept_per_token(shape, dropout, variant)
            formula = _kept(shape, variant)
            notes = []
            if variant not in ("checkpoint", "compile"):
                notes.append(f"hooks {quantity(by_hooks, 'KB')}")
            if formula is not None:
                notes.append(f"formula {quantity(formula, 'KB')}")
            if variant in ("lean", "tempo"):
                notes.append(f"{peer / by_allocator:.2f}× less than the peer")
            peer = by_allocator if peer is None else peer
            is_ours = variant in ("lean", "tempo")
            yield Row(
                what,
                "KB",
                ours=by_allocator if is_ours else None,
                peer=peer if is_ours else by_allocator,
                bar=settings.bar("<=", bars[shape.family, variant]) if is_ours else None,
                note=", ".join(notes),
                data={"model": shape.name, "variant": variant, "formula": formula},
            )
        if shape.family == "bert":
            yield Row(
                f"kept, {shape.name}: Tempo as published",
                "KB",
                peer=_published_tempo(shape),
                note="its formula 46H + 5AS, not measured",
                data={"model": shape.name, "variant": "Tempo, formula"},
            )


# The largest batch.


def _measure_stack(shape: Shape, layers: int, variant: str, batch: int, repeats: int):
    """Returns the peak of a step by torch's allocator, the growth of resident memory, and times.

    Weights and gradients lie there before, so that what is counted are activations and transients.
    """
    model = models.build_variant(shape, layers, DROPOUT, variant)
    ids = models.tokens(shape, batch)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def step():
        models.hidden_states(model, ids).sum().backward()

    if repeats:
        return measure.interleaved_times(step, lambda: None, repeats)[0]
    return measure.timeline_of(step).peak_bytes, measure.resident_growth(step)


def largest_batch(settings: Settings) -> Iterator[Row]:
    """The largest batch in a fixed budget, and the speed there."""
    shape = settings.shape(BERT_LARGE)
    layers = 4
    resident = {}

    def peak(variant: str, batch: int) -> int:
        _say(f"largest batch: {variant}, batch {batch}")
        by_allocator, resident[variant, batch] = measure.in_fresh_process(
            _measure_stack, shape, layers, variant, batch, 0
        )
        return by_allocator

    eager_batch = 3
    budget = peak("eager", eager_batch)
    found = {"eager": (eager_batch, {1: peak("eager", 1), eager_batch: budget})}
    bars = {"lean": 3.4, "tempo": 1.6}
    for variant, bar in bars.items():
        found[variant] = measure.largest_fitting(lambda batch: peak(variant, batch), budget)
        batch, measured = found[variant]
        yield Row(
            f"largest batch, {layers} layers of {shape.name}: {variant}/eager",
            "×",
            ours=batch / eager_batch,
            peer=eager_batch,
            peer_unit="",
            bar=settings.bar(">=", bar),
            note=f"batch {batch} in {quantity(budget, 'MB')}, eager's peak at {eager_batch}; "
            f"resident memory grew by {quantity(resident[variant, batch], 'MB')} against "
            f"{quantity(resident['eager', eager_batch], 'MB')}",
            data={"variant": variant, "batch": batch, "budget": budget, "peaks": measured},
        )
    speed = {}
    for variant, (batch, _) in found.items():
        _say(f"samples per second: {variant}, batch {batch}")
        times = measure.in_fresh_process(
            _measure_stack, shape, layers, variant, batch, 1 if settings.quick else 3
        )
        speed[variant] = batch / min(times)
        if variant != "eager":
            yield Row(
                f"samples/s at equal memory: {variant}/eager",
                "×",
                ours=speed[variant] / speed["eager"],
                peer=speed["eager"],
                peer_unit="/s",
                note=f"{speed[variant]:.3g} /s at batch {batch} against batch {eager_batch}; no "
                "bar on a CPU",
            )
    data = {"variant": "eager", "batch": eager_batch, "budget": budget, "peaks": found["eager"][1]}
    yield Row(
        "peak of eager for one sequence more",
        "MB",
        peer=(budget - found["eager"][1][1]) / (eager_batch - 1),
        data=data,
    )


# Time at equal batch.


def _step(model, ids, has_loss: bool):
    def run():
        model.zero_grad()
        if has_loss:
            models.loss_of(model, ids).backward()
        else:
            models.hidden_states(model, ids).sum().backward()

    return run


def _measure_times(shape: Shape, layers: int, dropout: float, head: bool, rounds: int):
    """Returns the step times of HF's default and of lean, run in turn."""
    default = models.build(shape, layers, dropout, head=head)
    lean = palmist.patch(copy.deepcopy(default))
    ids = models.tokens(shape, 1)
    return measure.interleaved_times(
        _step(default, ids, head), _step(lean, ids, head), rounds
    )


def _time_row(settings, shape, layers, dropout, head, rounds, bar) -> Row:
    _say(f"step time: {shape.name}, {layers} layers")
    default, lean = measure.in_fresh_process(
        _measure_times, shape, layers, dropout, head, rounds
    )
    middle = statistics.median(b / a for a, b in zip(default, lean))
    of_what = f"{layers} layers" + (" with loss" if head else "")
    return Row(
        f"step time, {shape.name}, {of_what}: lean/HF default",
        "×",
        ours=min(lean) / min(default),
        peer=min(default),
        peer_unit="s",
        bar=settings.bar("<=", bar),
        note=f"least of {rounds} each, {min(lean):.3g} s; median of the pairs {middle:.3f}×",
        data={"model": f"{shape.name}, {of_what}", "default_s": default, "lean_s": lean},
    )


def step_time(settings: Settings) -> Iterator[Row]:
    """Time of a step at equal batch, two layers."""
    rounds = 1 if settings.quick else 7
    for full, dropout in MEASURED_FAMILIES:
        yield _time_row(settings, settings.shape(full), 2, dropout, False, rounds, 1.05)


# Exactness of models.


def _measure_difference(shape: Shape, layers: int, head: bool) -> tuple[float, float, bool]:
    """Returns relative differences forward and of the worst gradient, and whether keys agree."""
    default = models.build(shape, layers, 0.0, head=head)
    lean = palmist.patch(copy.deepcopy(default))
    ids = models.tokens(shape, 1)
    outputs = []
    for model in (default, lean):
        if head:
            output = models.loss_of(model, ids)
            output.backward()
        else:
            output = models.hidden_states(model, ids)
            generator = torch.Generator().manual_seed(2)
            (output * torch.randn(output.shape, generator=generator)).sum().backward()
        outputs.append(output.detach())
    forward = float((outputs[0] - outputs[1]).norm() / outputs[0].norm())
    expected, got = (
        {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        for model in (default, lean)
    )
    same_keys = list(default.state_dict()) == list(lean.state_dict())
    same_keys = same_keys and list(expected) == list(got)
    # A gradient that is zero in exact arithmetic, as that of the key's bias, is rounding alone.
    least = 1e-4 * max(float(g.norm()) for g in expected.values())
    worst = max(
        float((expected[n] - got[n]).norm() / expected[n].norm())
        for n in expected
        if float(expected[n].norm()) > least
    )
    return forward, worst, same_keys


def _difference_rows(shape: Shape, layers: int, head: bool) -> Iterator[Row]:
    _say(f"exactness: {shape.name}, {layers} layers")
    forward, worst, same_keys = measure.in_fresh_process(_measure_difference, shape, layers, head)
    of_what = f"{shape.name}, {layers} layers" + (" with loss" if head else "")
    yield Row(
        f"forward, {of_what}: relative difference", ours=forward, bar=("<=", 1e-5), note="dropout 0"
    )
    keys = "the same" if same_keys else "DIFFERENT"
    yield Row(
        f"gradients, {of_what}: worst relative",
        ours=worst if same_keys else float("nan"),
        bar=("<=", 1e-4),
        note=f"dropout 0; state-dict keys are {keys}",
    )


def exactness(settings: Settings) -> Iterator[Row]:
    """Values and gradients of patched models, two layers, fp32."""
    for full, _ in MEASURED_FAMILIES:
        yield from _difference_rows(settings.shape(full), 2, False)


# Whole models.


def _measure_step_memory(shape: Shape, layers: int, variant: str):
    """Returns the timeline of a training step, and of its head and loss alone.

    In the second the gradient of the head's weight, which every variant makes, is not counted.
    """
    model = models.build_variant(shape, layers, DROPOUT, variant, head=True)
    ids = models.tokens(shape, 1)

    def mark_loss(module, args, output):
        measure.mark("loss begins")
        output.last_hidden_state.register_hook(lambda _: measure.mark("loss ends"))

    model.base_model.register_forward_hook(mark_loss)
    step = _step(model, ids, True)
    whole = measure.timeline_of(step)
    model.zero_grad()
    head_gradient_bytes = 4 * shape.hidden * shape.vocabulary
    loss = measure.timeline_of(step, leave_out=(head_gradient_bytes,))
    return whole.thinned(), loss.between("loss begins", "loss ends")


def whole_models(settings: Settings) -> Iterator[Row]:
    """A training step of whole models: peak memory, time, gradients."""
    layers = 2 if settings.quick else 12
    for full in (GPT2_SMALL, BERT_BASE):
        shape = settings.shape(full)
        yield _time_row(settings, shape, layers, DROPOUT, True, settings.rounds, 1.03)
        variants = ("default", "eager", "lean")
        whole, loss = {}, {}
        for variant in variants:
            _say(f"peak of a step: {shape.name}, {layers} layers, {variant}")
            whole[variant], loss[variant] = measure.in_fresh_process(
                _measure_step_memory, shape, layers, variant
            )
        ours, peer = whole["lean"].peak_bytes, whole["default"].peak_bytes
        yield Row(
            f"peak of a step, {shape.name}, {layers} layers with loss",
            "MB",
            ours=ours,
            peer=peer,
            note=f"above the weights, with gradients; {peer / ours:.2f}× less; HF eager "
            f"{quantity(whole['eager'].peak_bytes, 'MB')}",
            data={"model": shape.name, "timelines": {v: vars(whole[v]) for v in variants}},
        )
        ours, peer = loss["lean"].peak_bytes, loss["eager"].peak_bytes
        is_judged = shape.family == "gpt2"
        yield Row(
            f"peak of logits and loss, {shape.name}: lean/eager",
            "×",
            ours=ours / peer,
            peer=peer,
            peer_unit="MB",
            bar=settings.bar("<=", 1 / 8) if is_judged else None,
            note=f"{quantity(ours, 'MB')}; without the gradient of the head's weight, which both "
            "make",
            data={
                "model": shape.name,
                "loss_timelines": {v: vars(loss[v]) for v in ("eager", "lean")},
            },
        )
        yield from _difference_rows(shape, layers, True)
