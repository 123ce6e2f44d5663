#!/usr/bin/env python3
"""Compares the published fit of Tempo's output-only GELU with Palmist's.

    tempo_repaired.py [--published gelu_kernel.cu] [-o PAGE.html]

Prints a table of the errors of g' and writes a page with a plot. The published fit is in the file
src/inplace_gelu/gelu_kernel.cu of https://github.com/UofT-EcoSystem/Tempo (commit 51ce091), whose
coefficients `--published` reads. Without it polynomials of the published form are fitted here: the
same pieces, degrees and variables, and the sign of the third piece as published. All are evaluated
in float, by Horner's rule, for the erf form and y = g(x) rounded to float.

Needs NumPy and Plotly.
"""
import argparse
import math
import pathlib
import re
import sys

import numpy as np
import plotly.graph_objects as go

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "palmist" / "kernels" / "testdata"))
sys.dont_write_bytecode = True
import gelu_inverse  # noqa: E402

SOURCE = "github.com/UofT-EcoSystem/Tempo, src/inplace_gelu/gelu_kernel.cu"
# Where the published pieces meet, and the degree of each polynomial in y - begin (left: y - y*).
RIGHT_BEGINS = [-0.1699712, 0.10682432, 0.97742819]
RIGHT_END = 3.0
RIGHT_DEGREE, LEFT_DEGREE = 12, 13
# Errors of the public code measured earlier, as (largest, mean over 1.14 < x < 3, N(0,1) rms); the
# second row is that code with the sign of the third piece mended.
MEASURED = {"published": (2.69, 0.36, 0.082), "published, sign mended": (0.19, None, 0.0087)}


class Piece:
    """A polynomial in y + shift."""

    def __init__(self, shift, coefficients):
        self.shift = np.float32(shift)
        self.coefficients = np.array(coefficients, np.float32)

    def __call__(self, y):
        t = y + self.shift
        total = np.zeros_like(y)
        for c in self.coefficients[::-1]:
            total = total * t + c
        return total


def published_pieces(path):
    """The three right pieces in rising order of y, and the left one, from the public source."""
    pieces = []
    pattern = r"o_translated = o_fp ([+-]) \(\(float\) ([\d.]+)\);\s*rval =(.*?);"
    for sign, shift, body in re.findall(pattern, path.read_text(), re.S):
        numbers = [float(n) for n in re.findall(r"-?\d[\d.]*(?:e[+-]\d+)?", body)]
        # A constant term is written last, the other powers in rising order.
        constant = [0.0] if body.rstrip().endswith("))") else [numbers.pop()]
        pieces.append(Piece(float(sign + shift), constant + numbers))
    if len(pieces) != 4:
        sys.exit(f"{path}: expected four polynomials in o_translated, got {len(pieces)}; give the "
                 f"file {SOURCE}")
    third, first, second, left = pieces
    return [first, second, third], left


def fitted_pieces(inverse):
    """Polynomials of the published form, at Chebyshev nodes; the third with the wrong sign."""
    def fit(begin, end, degree, right):
        unit = np.cos(np.pi * np.arange(0.5, 400) / 400)
        nodes = 0.5 * (begin + end) - 0.5 * (end - begin) * unit
        slope = [inverse.form.slope(inverse.x_of(y, right)) for y in nodes]
        fitted = np.polynomial.Polynomial.fit(nodes - begin, slope, degree)
        return Piece(-begin, fitted.convert().coef)

    ends = RIGHT_BEGINS[1:] + [RIGHT_END]
    begins = [inverse.y_min] + RIGHT_BEGINS[1:]
    right = [fit(*ends_, RIGHT_DEGREE, True) for ends_ in zip(begins, ends)]
    right[2].shift = -right[2].shift
    return right, fit(inverse.y_min, 0.0, LEFT_DEGREE, False)


def evaluate(pieces, y, is_right):
    right, left = pieces
    result = np.where(y < np.float32(RIGHT_BEGINS[1]), right[0](y), right[1](y))
    result = np.where(y > np.float32(RIGHT_BEGINS[2]), right[2](y), result)
    result = np.where(y >= np.float32(RIGHT_END), np.float32(1), result)
    return np.where(is_right, result, left(y))


def mend(pieces):
    right, left = pieces
    third = Piece(-abs(right[2].shift), right[2].coefficients)
    return right[:2] + [third], left


def figures(x, error):
    density = np.exp(-0.5 * x * x)
    third = (x > 1.14) & (x < 3)
    return (error.max(), error[third].mean(), math.sqrt(np.sum(error**2 * density) / density.sum()))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--published", type=pathlib.Path, metavar="gelu_kernel.cu")
    parser.add_argument("-o", dest="page", type=pathlib.Path, metavar="PAGE.html")
    options = parser.parse_args()

    inverse = gelu_inverse.Inverse(gelu_inverse.Erf)
    x = np.linspace(-8, 8, 32001)
    slope = np.array([inverse.form.slope(v) for v in x])
    y = np.array([inverse.form.value(v) for v in x], np.float32)
    is_right = x >= inverse.x_min
    shipped = published_pieces(options.published) if options.published else fitted_pieces(inverse)
    with np.errstate(all="ignore"):
        results = {"published": evaluate(shipped, y, is_right),
                   "published, sign mended": evaluate(mend(shipped), y, is_right),
                   "Palmist": inverse.evaluate(y, is_right)}
    errors = {name: np.abs(result - slope) for name, result in results.items()}

    origin = str(options.published) if options.published else "polynomials of the published form"
    print(f"Error of g' in float over |x| <= 8. \"published\": {origin};\n"
          f"in brackets what was measured on {SOURCE}.\n")
    rows = []
    for name, error in errors.items():
        cells = [name]
        for ours, theirs in zip(figures(x, error), MEASURED.get(name, (None,) * 3)):
            cells.append(f"{ours:.2g}" + (f" ({theirs:g})" if theirs is not None else ""))
        rows.append(cells)
    head = ["fit", "largest", "mean, 1.14 < x < 3", "N(0,1) rms"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for cells in rows:
        print("| " + " | ".join(cells) + " |")

    if options.page:
        figure = go.Figure([go.Scatter(x=x[::8], y=np.maximum(error[::8], 1e-9), name=name)
                            for name, error in errors.items()])
        figure.update_layout(template="plotly_white", height=600, xaxis_title="x",
                             yaxis={"title": "error of g'", "type": "log"})
        plot = figure.to_html(full_html=False, include_plotlyjs=True)
        table = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
                        for row in [head] + rows)
        options.page.write_text(
            "<!doctype html><html lang=en><meta charset=utf-8><title>Output-only GELU</title>"
            "<style>body{font-family:sans-serif;margin:2em}td{padding:.2em 1em}</style>"
            "<h1>Output-only GELU: error of the derivative</h1>"
            f"<p>Published: {origin}; in brackets what was measured on {SOURCE}.</p>"
            f"<table>{table}</table>{plot}</html>")


if __name__ == "__main__":
    main()
