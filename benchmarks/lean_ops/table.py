"""The rows that the benchmark prints."""

import dataclasses
from typing import Any


@dataclasses.dataclass
class Row:
    """A figure of ours, or of a peer alone, with its bar.

    `bar` is (sense, value) with the sense "<=" or ">="; a row without one is published only.
    `peer_unit` is `unit` by default: of a ratio the peer's own figure is shown. `data` has what
    else was measured, for plots and JSON.
    """

    what: str
    unit: str = ""
    ours: float | None = None
    peer: float | None = None
    peer_unit: str | None = None
    bar: tuple[str, float] | None = None
    note: str = ""
    data: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def verdict(self) -> str:
        if self.bar is None or self.ours is None:
            return ""
        sense, value = self.bar
        # Written so that a figure that is not a number misses its bar.
        met = self.ours <= value if sense == "<=" else self.ours >= value
        return "met" if met else "MISSED"

    def cells(self) -> list[str]:
        bar = f"{self.bar[0]} {quantity(self.bar[1], self.unit)}" if self.bar else ""
        ours = quantity(self.ours, self.unit)
        peer = quantity(self.peer, self.unit if self.peer_unit is None else self.peer_unit)
        return [self.what, bar, peer, ours, self.verdict, self.note]


HEAD = ["what", "bar", "peer", "ours", "verdict", "besides"]
_WIDTHS = [56, 10, 9, 9, 7]


def quantity(value: float | None, unit: str) -> str:
    """Writes a value with its unit; KB and MB are 10³ and 10⁶ bytes."""
    if value is None:
        return ""
    if unit == "":
        return f"{value:.2g}"
    if unit in ("KB", "MB"):
        return f"{value / {'KB': 1e3, 'MB': 1e6}[unit]:,.1f} {unit}"
    if unit == "×":
        return f"{value:.3f}×"
    return f"{value:.3g} {unit}"


def line(cells: list[str]) -> str:
    """Writes a line of the table in columns."""
    padded = [cell.ljust(width) for cell, width in zip(cells, _WIDTHS)]
    return "| " + " | ".join([*padded, *cells[len(_WIDTHS) :]]) + " |"


def rule() -> str:
    return "|" + "|".join("-" * (width + 2) for width in _WIDTHS) + "|---|"
