#!/usr/bin/env python3
"""Compares the runs that finetune.py logged, patched against plain.

    finetune_page.py RUN.jsonl... [-o PAGE.html] [--picture PICTURE.png]

Prints tables as Markdown, and writes a page with the loss curves, and a picture of it through
headless chromium. The distance of two runs is the mean of |difference of loss| over the steps; that
of a patched and a plain run of one seed is compared with that of two plain runs of different seeds.
The mean loss on held-out text at the end is compared in units of its σ over the seeds. Needs Plotly.
"""

import argparse
import collections
import dataclasses
import html
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

TITLES = {"minilm": "MiniLM", "smollm2": "SmolLM2-135M"}
SEED_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
PICTURE_SIZE = (1200, 520)
PICTURE_TIMEOUT_S = 120


@dataclasses.dataclass(frozen=True)
class Run:
    """A log: what ran, and its losses."""

    about: dict
    losses: list[float]
    times_s: list[float]
    held_out: list[float]


Pairs = dict[int, tuple[Run, Run]]  # plain and patched, by seed


def read_run(path: Path) -> Run:
    """Reads a log; raises ValueError where it does not hold a whole run."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    about = lines[0] if lines else {}
    steps = [line for line in lines if "loss" in line]
    held_out = [line["held_out_loss"] for line in lines if "held_out_loss" in line]
    if len(steps) != about.get("steps") or len(held_out) != 2:
        raise ValueError(
            f"{path}: expected {about.get('steps', 'some')} steps between two held-out losses, got "
            f"{len(steps)} and {len(held_out)}; run finetune.py again"
        )
    losses, times = [line["loss"] for line in steps], [line["step_time_s"] for line in steps]
    return Run(about, losses, times, held_out)


def pair_up(runs: list[Run]) -> dict[str, Pairs]:
    """Sorts runs by model and seed; raises ValueError where a plain or patched run is missing."""
    found = {(run.about["model"], run.about["seed"], run.about["patched"]): run for run in runs}
    pairs = collections.defaultdict(dict)
    for model, seed in sorted({key[:2] for key in found}):
        missing = [
            name
            for name, patched in (("plain", False), ("patched", True))
            if (model, seed, patched) not in found
        ]
        if missing:
            raise ValueError(
                f"expected a plain and a patched run of {model}, seed {seed}; the {missing[0]} one "
                f"is missing: run finetune.py --model {model} --seed {seed} --{missing[0]}"
            )
        pairs[model][seed] = (found[model, seed, False], found[model, seed, True])
    for model, of_model in pairs.items():
        if len(of_model) < 2:
            raise ValueError(f"expected at least two seeds of {model}, got {len(of_model)}")
    return pairs


def distance(one: Run, other: Run) -> float:
    """Returns the mean of |difference of loss| over the steps."""
    return statistics.mean(abs(a - b) for a, b in zip(one.losses, other.losses))


def mean_distance(pairs: Iterable[tuple[Run, Run]]) -> float:
    """Returns the mean distance of the loss curves of pairs of runs."""
    return statistics.mean(itertools.starmap(distance, pairs))


def run_rows(pairs: Pairs) -> list[list[str]]:
    """Makes the table of the runs of a model."""
    rows = [["seed", "held out before", "after, plain", "after, patched", "distance of curves"]]
    for seed, (plain, patched) in pairs.items():
        losses = (plain.held_out[0], plain.held_out[-1], patched.held_out[-1])
        cells = [f"{loss:.4f}" for loss in losses]
        rows.append([str(seed), *cells, f"{distance(plain, patched):.2g}"])
    return rows


def verdict_rows(pairs: Pairs) -> list[list[str]]:
    """Makes the table that compares what patching changes with what the seed changes."""
    plain_runs = [plain for plain, _ in pairs.values()]
    plain, patched = (
        [pair[which].held_out[-1] for pair in pairs.values()] for which in (0, 1)
    )
    rows = [["", "patched against plain", "by the seed alone", "verdict"]]
    for name, ours, theirs in (
        (
            "loss curve: distance of two runs",
            mean_distance(pairs.values()),
            mean_distance(itertools.combinations(plain_runs, 2)),
        ),
        (
            "held-out loss at the end: difference of means, σ of plain",
            abs(statistics.mean(patched) - statistics.mean(plain)),
            statistics.stdev(plain),
        ),
    ):
        verdict = "within" if ours <= theirs else "beyond"
        rows.append([name, f"{ours:.2g}", f"{theirs:.2g}", f"{verdict} eager's own seed spread"])
    return rows


def memory_rows(pairs: Pairs) -> list[list[str]]:
    """Makes the table of memory and time."""
    rows = [["", "plain", "patched", "ratio"]]
    for name, key in (("kept for backward", "kept_bytes"), ("peak of a step", "peak_bytes")):
        plain, patched = (run.about[key] / 1e6 for run in next(iter(pairs.values())))
        rows.append([f"{name}, MB", f"{plain:.1f}", f"{patched:.1f}", f"{plain / patched:.2f}"])
    plain, patched = (
        min(time for pair in pairs.values() for time in pair[which].times_s)
        for which in (0, 1)
    )
    # The fastest: other work on the machine only ever adds to a time.
    rows.append(["fastest step, s", f"{plain:.2f}", f"{patched:.2f}", f"{plain / patched:.2f}"])
    return rows


def plot(pairs: dict[str, Pairs]) -> go.Figure:
    """Draws the loss curves of each model: plain broad and pale, patched dotted on top."""
    titles = []
    for model, of_model in pairs.items():
        plain, patched = (run.about for run in next(iter(of_model.values())))
        saved = 1 - patched["kept_bytes"] / plain["kept_bytes"]
        titles.append(
            f"<b>{TITLES[model]}</b>, {plain['task']}<br>{plain['kept_bytes'] / 1e6:.0f} MB kept "
            f"for backward, patched {patched['kept_bytes'] / 1e6:.0f} MB ({saved:.0%} less)"
        )
    figure = make_subplots(cols=len(pairs), subplot_titles=titles, horizontal_spacing=0.07)
    styles = (("plain", {"width": 6}, 0.3), ("patched", {"width": 2, "dash": "dot"}, 1.0))
    for column, of_model in enumerate(pairs.values(), start=1):
        for colour, (seed, runs) in zip(itertools.cycle(SEED_COLOURS), of_model.items()):
            for run, (name, line, opacity) in zip(runs, styles):
                figure.add_scatter(
                    x=list(range(1, len(run.losses) + 1)),
                    y=run.losses,
                    name=f"{name}, seed {seed}",
                    legendgroup=f"{name}, seed {seed}",
                    showlegend=column == 1,
                    mode="lines",
                    line={"color": colour, **line},
                    opacity=opacity,
                    row=1,
                    col=column,
                )
        figure.update_xaxes(title="step", row=1, col=column)
        figure.update_yaxes(title="training loss", row=1, col=column)
    return figure.update_layout(
        template="plotly_white",
        height=PICTURE_SIZE[1] - 20,
        margin={"t": 70, "b": 90, "l": 60, "r": 20},
        legend={"orientation": "h", "y": -0.16},
    )


def markdown(rows: list[list[str]]) -> str:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def page(figure: go.Figure, tables: list[tuple[str, list[list[str]]]]) -> str:
    """Makes a page that needs no network."""
    parts = []
    for title, rows in tables:
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        parts.append(f"<h2>{html.escape(title)}</h2><table>{body}</table>")
    plot_html = figure.to_html(
        full_html=False, include_plotlyjs=True, config={"displayModeBar": False}
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Fine-tuning, patched and plain"
        "</title><style>body{font-family:sans-serif;margin:0}table{margin:0 2em}"
        "h2{font-size:1.1em;margin:1em 2em .3em}td{padding:.2em 1em}</style>"
        f"{plot_html}{''.join(parts)}</html>"
    )


def take_picture(page_path: Path, picture: Path) -> None:
    """Saves the top of a page as PNG."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("finetune_page: expected chromium, got none; run tools/setup.sh test")
    # A profile of its own: chromium waits for another process that has the same.
    with tempfile.TemporaryDirectory() as profile:
        command = [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={PICTURE_SIZE[0]},{PICTURE_SIZE[1]}",
            f"--screenshot={picture.resolve()}",
            page_path.resolve().as_uri(),
        ]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=PICTURE_TIMEOUT_S)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.jsonl")
    parser.add_argument("-o", dest="page", type=Path, metavar="PAGE.html")
    parser.add_argument("--picture", type=Path, metavar="PICTURE.png", help="needs -o")
    arguments = parser.parse_args()
    if arguments.picture and not arguments.page:
        parser.error("expected -o PAGE.html with --picture, got none")
    try:
        pairs = pair_up([read_run(path) for path in arguments.runs])
    except ValueError as error:
        sys.exit(f"finetune_page: {error}")
    tables = [
        (f"{TITLES[model]}: {what}", make(of_model))
        for model, of_model in pairs.items()
        for what, make in (
            ("losses", run_rows),
            ("distances", verdict_rows),
            ("memory and time", memory_rows),
        )
    ]
    for title, rows in tables:
        print(f"{title}\n\n{markdown(rows)}\n")
    if arguments.page:
        arguments.page.write_text(page(plot(pairs), tables))
    if arguments.picture:
        take_picture(arguments.page, arguments.picture)


if __name__ == "__main__":
    main()
