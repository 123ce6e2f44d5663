"""Writes the results as one HTML page that needs nothing from elsewhere."""

import html

import plotly.graph_objects as go

import table
from table import Row

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em }
table { border-collapse: collapse; width: 100% } caption { text-align: left; padding: .5em 0 }
th, td { text-align: left; vertical-align: top; padding: .25em .8em .25em 0;
  border-bottom: 1px solid #ddd }
.figure { white-space: nowrap } .met { color: #1a7f37 } .MISSED { color: #b42318; font-weight: 600 }
code { background: #f3f3f3; padding: .1em .3em } h2 { margin-top: 2em }
"""
_COLOURS = {"lean": "#1b6ca8", "tempo": "#7a5195", "eager": "#c8553d", "default": "#e09f3e"}


def render(
    results: dict[str, list[Row]], purposes: dict[str, str], machine: dict, command: str
) -> str:
    """Returns the page; `purposes` names the groups, `command` measures all of them."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>Memory-lean operators</title><style>{_STYLE}</style>",
        "<h1>Memory-lean operators against their peers</h1>",
        f"<p>{html.escape(_setting(machine))}</p>",
        f"<p>All of it: <code>.venv/bin/python {command} -o PAGE.html</code>. KB and MB are 10³ "
        "and 10⁶ bytes.</p>",
    ]
    carries_plotly = False
    for name, rows in results.items():
        parts.append(f"<h2 id={name}>{html.escape(purposes[name].rstrip('.'))}</h2>")
        parts.append(_table(rows, f"{command} --only {name}"))
        for figure in _FIGURES[name](rows):
            figure.update_layout(template="plotly_white", height=440, margin={"t": 50})
            parts.append(figure.to_html(full_html=False, include_plotlyjs=not carries_plotly))
            carries_plotly = True
    return "".join(parts) + "</html>"


def _setting(machine: dict) -> str:
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads; "
        f"{machine['dtype']}; torch {machine['torch']}, transformers {machine['transformers']}, "
        f"Python {machine['python']}. Started {machine['started']}, took {machine['duration_s']} s."
        f" Load {machine['load_at_start']:.1f} at the start, {machine['load_at_end']:.1f} at the "
        "end: where it is above the number of cores, others used the machine too."
    )


def _table(rows: list[Row], command: str) -> str:
    lines = [
        f"<table><caption>Measured by <code>.venv/bin/python {command}</code></caption><tr>",
        *(f"<th>{cell}</th>" for cell in table.HEAD),
        "</tr>",
    ]
    for row in rows:
        what, *figures, besides = map(html.escape, row.cells())
        cells = "".join(f'<td class="figure {cell}">{cell}</td>' for cell in figures)
        lines.append(f"<tr><td>{what}</td>{cells}<td>{besides}</td></tr>")
    return "".join(lines) + "</table>"


def _kept_figures(rows: list[Row]) -> list[go.Figure]:
    figure = go.Figure()
    models = list(dict.fromkeys(row.data["model"] for row in rows if row.data))
    for variant in dict.fromkeys(row.data["variant"] for row in rows if row.data):
        chosen = [row for row in rows if row.data.get("variant") == variant]
        figure.add_bar(
            name=variant,
            x=[row.data["model"] for row in chosen],
            y=[(row.ours or row.peer) / 1e3 for row in chosen],
            marker_color=_COLOURS.get(variant),
        )
    figure.update_layout(
        title="Kept for backward, per token and layer",
        yaxis_title="KB",
        xaxis={"categoryorder": "array", "categoryarray": models},
    )
    return [figure]


def _batch_figures(rows: list[Row]) -> list[go.Figure]:
    figure = go.Figure()
    rows = [row for row in rows if "peaks" in row.data]
    for row in rows:
        points = sorted(row.data["peaks"].items())
        figure.add_scatter(
            name=row.data["variant"],
            x=[batch for batch, _ in points],
            y=[count / 1e6 for _, count in points],
            mode="lines+markers",
            line_color=_COLOURS[row.data["variant"]],
        )
    figure.add_hline(y=rows[0].data["budget"] / 1e6, line_dash="dash", annotation_text="budget")
    figure.update_layout(
        title="Peak of a step above weights and gradients",
        xaxis_title="batch",
        yaxis_title="MB",
    )
    return [figure]


def _time_figures(rows: list[Row]) -> list[go.Figure]:
    rows = [row for row in rows if "lean_s" in row.data]
    figure = go.Figure()
    for variant in ("default", "lean"):
        figure.add_box(
            name=variant,
            x=[row.data["model"] for row in rows for _ in row.data[f"{variant}_s"]],
            y=[
                100 * time / min(row.data["default_s"])
                for row in rows
                for time in row.data[f"{variant}_s"]
            ],
            boxpoints="all",
            marker_color=_COLOURS[variant],
        )
    figure.update_layout(
        title="Time of a step", yaxis_title="% of the fastest of HF's default", boxmode="group"
    )
    return [figure]


def _timeline_figure(timelines: dict[str, dict], title: str) -> go.Figure:
    figure = go.Figure()
    for variant, timeline in timelines.items():
        # Profiling stretches time unevenly, so it is shown as a fraction.
        end = timeline["times_s"][-1] or 1.0
        figure.add_scatter(
            name=variant,
            x=[100 * at / end for at in timeline["times_s"]],
            y=[count / 1e6 for count in timeline["bytes_in_use"]],
            line={"shape": "hv", "color": _COLOURS[variant]},
        )
    figure.update_layout(title=title, xaxis_title="% of the time", yaxis_title="MB")
    return figure


def _whole_figures(rows: list[Row]) -> list[go.Figure]:
    figures = _time_figures(rows)
    for row in rows:
        model = row.data.get("model")
        if "timelines" in row.data:
            title = f"{model}: in use above the weights, over a training step"
            figures.append(_timeline_figure(row.data["timelines"], title))
        if "loss_timelines" in row.data:
            title = f"{model}: in use by logits and loss"
            figures.append(_timeline_figure(row.data["loss_timelines"], title))
    return figures


def _operator_figures(rows: list[Row]) -> list[go.Figure]:
    figure = go.Figure()
    rows = [row for row in rows if row.data.get("dtype") == "fp32"]
    for name, column in (("ours", "lean"), ("peer", "eager")):
        figure.add_scatter(
            name={"ours": "Palmist", "peer": "torch"}[name],
            x=[row.data["operator"] for row in rows],
            y=[getattr(row, name) for row in rows],
            mode="markers",
            marker={"size": 11, "color": _COLOURS[column]},
        )
    figure.add_scatter(
        name="bar",
        x=[row.data["operator"] for row in rows],
        y=[row.bar[1] for row in rows],
        mode="markers",
        marker={"symbol": "line-ew-open", "size": 18, "color": "#444"},
    )
    figure.update_layout(
        title="Error of gradients against fp64, fp32", yaxis={"type": "log", "exponentformat": "e"}
    )
    return [figure]


_FIGURES = {
    "operators": _operator_figures,
    "kept-bytes": _kept_figures,
    "exactness": lambda rows: [],
    "step-time": _time_figures,
    "largest-batch": _batch_figures,
    "whole-models": _whole_figures,
}
