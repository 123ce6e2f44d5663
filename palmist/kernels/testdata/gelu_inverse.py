#!/usr/bin/env python3
"""Fits the polynomials of GELU and of its inverse, and writes cpu/gelu_inverse_coefficients.h.

    gelu_inverse.py [--check] [--compare COEFFICIENTS.txt] [HEADER.h]

`--check` writes nothing and fails where the committed header differs. `--compare` reads other
Chebyshev coefficients of the erf form's pieces, lines such as `R1(s) interval [0,1.05] Chebyshev
c0..: 0.59 0.57`, and fails where a piece differs by more than single precision and the end of its
series leave. Needs NumPy. Both functions are known in closed form in terms of x to about 1e-15, so
double precision is enough to fit to single precision.

g has one minimum, (x*, y*). Around it y - y* is quadratic in x, so the derivative D is smooth in
sqrt(y - y*), not in y. As x falls y goes to 0 like exp(-x^2/2) x, so left of the minimum D / y is
smooth in sqrt(ln(y*/y)), which is like |x| at both ends. The pieces:

    left    D = y Q(w), w = sqrt(ln(y*/y)) in [0, 4.4]; 0 beyond
    right   D = R1(s), s = sqrt(y - y*) in [0, 1.05] (used to y = .93)
            D = R2(y), y in [.9, 2.4];  D = R3(y), y in [2.4, 5.2];  1 beyond

Each is the Chebyshev interpolant, written in powers of the variable mapped to [-1, 1].
"""
import argparse
import math
import pathlib
import re
import sys

import numpy as np
from numpy.polynomial import chebyshev

HEADER = pathlib.Path(__file__).parent.parent / "cpu" / "gelu_inverse_coefficients.h"
ROOT_2_PI = math.sqrt(2 / math.pi)
W_END = 4.4
R2_BEGIN, R3_BEGIN, Y_END = 0.93, 2.4, 5.2
ERF_END = 14.5  # beyond it exp(-a^2/2), and so the output, is 0 in float
MILLS_SHIFT = 4.0
MILLS_DEGREE = 9
# Name, interval, degree; the variable follows from the name.
PIECES = [("L", 0.0, W_END, 13), ("R1", 0.0, 1.05, 10), ("R2", 0.9, R3_BEGIN, 10),
          ("R3", R3_BEGIN, Y_END, 10)]


class Erf:
    """x Phi(x)."""

    name = "Erf"

    @staticmethod
    def value(x):
        return 0.5 * x * math.erfc(-x / math.sqrt(2))

    @staticmethod
    def slope(x):
        density = math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return 0.5 * math.erfc(-x / math.sqrt(2)) + x * density


class Tanh:
    """x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3); 1 + tanh u = 2 / (1 + exp(-2u))."""

    name = "Tanh"

    @staticmethod
    def sigmoid(x):
        return 1 / (1 + math.exp(-2 * ROOT_2_PI * (x + 0.044715 * x**3)))

    @staticmethod
    def value(x):
        return x * Tanh.sigmoid(x)

    @staticmethod
    def slope(x):
        steep = 2 * ROOT_2_PI * (1 + 3 * 0.044715 * x * x)
        left = Tanh.sigmoid(x)
        return left + x * left * Tanh.sigmoid(-x) * steep


def root(f, low, high):
    """The x in [low, high] where the rising or falling f passes 0, to the last bit."""
    rising = f(high) > 0
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return middle
        if (f(middle) > 0) == rising:
            high = middle
        else:
            low = middle


def interpolate(f, low, high, degree):
    """Chebyshev coefficients over [low, high]."""
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    return chebyshev.chebinterpolate(lambda t: np.array([f(middle + half * v) for v in t]), degree)


def fit(f, low, high, degree):
    """Powers of the variable itself, ascending."""
    series = chebyshev.Chebyshev(interpolate(f, low, high, degree), domain=[low, high])
    return series.convert(kind=np.polynomial.Polynomial).coef


def powers(coefficients):
    return chebyshev.cheb2poly(coefficients).astype(np.float32)


class Inverse:
    """The pieces of one form."""

    def __init__(self, form):
        self.form = form
        self.x_min = root(form.slope, -1.0, -0.5)
        self.y_min = form.value(self.x_min)
        self.left_end = self.y_min * math.exp(-W_END**2)
        self.series = {piece[0]: interpolate(lambda v, n=piece[0]: self.exact(n, v), *piece[1:])
                       for piece in PIECES}

    def x_of(self, y, right):
        if right:
            return root(lambda x: self.form.value(x) - y, self.x_min, max(y, 0.0) + 0.2)
        return root(lambda x: self.form.value(x) - y, -13.0, self.x_min)

    def exact(self, name, v):
        if name == "L":
            y = self.y_min * math.exp(-v * v)
            return self.form.slope(self.x_of(y, False)) / y
        y = self.y_min + v * v if name == "R1" else v
        return self.form.slope(self.x_of(y, True))

    def table(self):
        """Powers of the four pieces beside each other, in float, and what maps their variables."""
        columns = np.zeros((14, 4), np.float32)
        scale, offset = np.zeros(4, np.float32), np.zeros(4, np.float32)
        for i, (name, low, high, degree) in enumerate(PIECES):
            columns[: degree + 1, i] = powers(self.series[name])
            scale[i], offset[i] = 2 / (high - low), -(high + low) / (high - low)
        return columns, scale, offset

    def evaluate(self, y, right):
        """D from y in float arithmetic, the way the kernels do it."""
        f = np.float32
        columns, scale, offset = self.table()
        high = f(self.y_min)
        rise = np.maximum(y - high - f(self.y_min - float(high)), f(0))
        with np.errstate(all="ignore"):
            inner = np.where(right, rise, np.log1p(rise / np.abs(y)).astype(f))
            variable = np.where(right & (y > f(R2_BEGIN)), y, np.sqrt(inner))
            piece = np.where(right, 1 + (y > f(R2_BEGIN)) + (y > f(R3_BEGIN)), 0)
            t = variable * scale[piece] + offset[piece]
            sum_ = columns[13][piece]
            for k in range(12, -1, -1):
                sum_ = sum_ * t + columns[k][piece]
            sum_ = np.where(right, sum_, sum_ * y)
        return np.where(y > np.where(right, f(Y_END), f(self.left_end)), right.astype(f), sum_)


def round_to(y, kind):
    if kind == "bfloat16":
        bits = y.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return y.astype(np.float16).astype(np.float32) if kind == "float16" else y


def report_errors(inverse):
    x = np.linspace(-8, 8, 64001)
    slope = np.array([inverse.form.slope(v) for v in x])
    value = np.array([inverse.form.value(v) for v in x], np.float32)
    near = np.abs(x - inverse.x_min) <= 0.25
    density = np.exp(-0.5 * x * x)
    minimum = f"x* = {inverse.x_min:.15f}, y* = {inverse.y_min:.15f}"
    print(f"{inverse.form.name}: {minimum}; errors of D:")
    for kind in ("float", "float16", "bfloat16"):
        error = np.abs(inverse.evaluate(round_to(value, kind), x >= inverse.x_min) - slope)
        rms = math.sqrt(np.sum(error**2 * density) / np.sum(density))
        print(f"  y in {kind:8}: {error[near].max():.2e} near x*, "
              f"{error[~near].max():.2e} elsewhere, N(0,1) rms {rms:.2e}")


def compare(inverse, path):
    """Compares with series made elsewhere; returns whether all pieces agree.

    Two good fits of one degree differ by about the first coefficient that both leave out, less than
    their last ones; to that comes what single precision leaves of the largest.
    """
    agree = True
    for line in path.read_text().splitlines():
        match = re.match(r"(\w+)\(\w\) interval \[(\S+),(\S+)\] Chebyshev c0..: (.*)", line)
        if not match:
            continue
        name, low, high = match[1], float(match[2]), float(match[3])
        theirs = np.array([float(c) for c in match[4].split()])
        ours = inverse.series[name]
        v = np.linspace(low, high, 2001)
        piece = next(p for p in PIECES if p[0] == name)
        mapped = (2 * v - piece[1] - piece[2]) / (piece[2] - piece[1])
        own = chebyshev.chebval(mapped, ours)
        other = chebyshev.chebval((2 * v - low - high) / (high - low), theirs)
        # The left piece is multiplied by y.
        weight = np.abs(inverse.y_min) * np.exp(-v * v) if name == "L" else np.ones_like(v)
        difference = np.max(np.abs(own - other) * weight)
        allowed = max(abs(ours[-1]), abs(theirs[-1])) + 2.0**-23
        print(f"  {name}: D differs by at most {difference:.1e}, coefficients by "
              f"{np.max(np.abs(ours - theirs)):.1e}; allowed {allowed:.1e}")
        agree = agree and difference <= allowed
    return agree


def mills(a):
    """Phi(-a) / exp(-a^2/2)."""
    return 0.5 * math.erfc(a / math.sqrt(2)) * math.exp(0.5 * a * a)


def number(x):
    text = f"{float(np.float32(x)):.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")


def array(name, values, comment):
    body = ",\n    ".join(number(v) for v in values)
    return f"/// {comment}\ninline constexpr float {name}[] = {{\n    {body}}};\n"


def inverse_text(inverse):
    columns, scale, offset = inverse.table()

    def row(values):
        return "{" + ", ".join(number(v) for v in values) + "}"

    high = np.float32(inverse.y_min)
    lines = ",\n     ".join(row(r) for r in columns)
    return (f"inline constexpr GeluInverse k{inverse.form.name}Inverse = {{\n"
            f"    {number(inverse.x_min)},\n    {number(high)},\n"
            f"    {number(inverse.y_min - float(high))},\n    {number(inverse.left_end)},\n"
            f"    {row(scale)},\n    {row(offset)},\n    {{{lines}}}}};\n")


STRUCT = """\
/// The derivative of GELU as a function of its output y, in four pieces: left of the minimum,
/// and R1, R2, R3 right of it. A piece is a polynomial in t = scale v + offset, where v is
/// sqrt(ln(min_y / y)), sqrt(y - min_y), y and y; on the left it is the derivative over y.
struct GeluInverse {
  float min_x;                ///< where the output is least
  float min_y;                ///< the least output
  float min_y_low;            ///< what its rounding to float leaves
  float left_end;             ///< left of the minimum, outputs above this have derivative 0
  float scale[4];             ///< of the pieces
  float offset[4];            ///< of the pieces
  float coefficients[14][4];  ///< a row for each power, ascending; a column for each piece
};
"""


def header(inverses):
    log = fit(lambda f: (math.log1p(f) - f) / (f * f), math.sqrt(0.5) - 1, math.sqrt(2) - 1, 8)
    t_end = (ERF_END - MILLS_SHIFT) / (ERF_END + MILLS_SHIFT)

    def of_t(t):
        a = MILLS_SHIFT * (1 + t) / (1 - t)
        return mills(a) * (a + MILLS_SHIFT)

    ratio = fit(of_t, -1, t_end, MILLS_DEGREE)
    t = np.linspace(-1, t_end, 2001)
    exact = np.array([of_t(v) for v in t])
    error = np.max(np.abs(np.polyval(ratio[::-1], t) / exact - 1))
    print(f"Mills ratio: relative error {error:.1e}")
    return "\n".join([
        "// Made by palmist/kernels/testdata/gelu_inverse.py; run it (with NumPy) to make it anew.",
        "// clang-format off",
        "#pragma once\n",
        "namespace palmist::kernels {\n",
        array("kLog1pCoefficients", log,
              "ln(1 + f) = f + f^2 p(f), powers of p ascending, for f from sqrt(1/2) - 1 to "
              "sqrt(2) - 1."),
        "/// Beyond it exp(-a^2/2), and so the output of the erf form, is 0 in float.",
        f"inline constexpr float kErfEnd = {number(ERF_END)};",
        f"inline constexpr float kMillsShift = {number(MILLS_SHIFT)};",
        array("kMillsCoefficients", ratio,
              "Phi(-a) exp(a^2/2) (a + shift) = p(t), t = (a - shift) / (a + shift), for a from 0 "
              "to kErfEnd."),
        "/// Where pieces of the inverse begin to be used, and where the last ends.",
        f"inline constexpr float kInverseR2Begin = {number(R2_BEGIN)};",
        f"inline constexpr float kInverseR3Begin = {number(R3_BEGIN)};",
        f"inline constexpr float kInverseR3End = {number(Y_END)};\n",
        STRUCT,
        *[inverse_text(i) for i in inverses],
        "}  // namespace palmist::kernels",
        "// clang-format on\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("header", nargs="?", type=pathlib.Path, default=HEADER)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compare", type=pathlib.Path)
    options = parser.parse_args()
    inverses = [Inverse(Erf), Inverse(Tanh)]
    for inverse in inverses:
        report_errors(inverse)
    if options.compare and not compare(inverses[0], options.compare):
        sys.exit(f"{options.compare}: expected the coefficients of this fit, got others")
    text = header(inverses)
    if not options.check:
        options.header.write_text(text)
    elif options.header.read_text() != text:
        sys.exit(f"{options.header}: differs from what this script makes; run it without --check")


if __name__ == "__main__":
    main()
