#!/usr/bin/env python3
"""Measures the memory-lean operators against their peers and prints a table with its bars.

    bench.py [--quick] [--only GROUP] [--compile] [-o PAGE.html] [--json FILE]

Every peer is measured in the same run. What each row means and how it is measured is in README.md
beside this file. Takes about ten minutes on two quiet cores; --quick takes tiny shapes, for which
the bars of memory and time do not hold, and less than a minute.
"""

import argparse
import dataclasses
import json
import os
import platform
import sys
import time
import warnings
from pathlib import Path

# Before torch is imported, here and in the processes that measure.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("PYTHONWARNINGS", "ignore")
warnings.simplefilter("ignore")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "python"), str(HERE)]

import groups  # noqa: E402
import measure  # noqa: E402
import operators  # noqa: E402
import page  # noqa: E402
import table  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402


def _operator_rows(settings: groups.Settings):
    """Gradients of the operators against fp64."""
    print("  operators against fp64 …", file=sys.stderr, flush=True)
    yield from measure.in_fresh_process(operators.measure_rows)


GROUPS = {
    "operators": _operator_rows,
    "kept-bytes": groups.kept_bytes,
    "exactness": groups.exactness,
    "step-time": groups.step_time,
    "largest-batch": groups.largest_batch,
    "whole-models": groups.whole_models,
}


def _machine() -> dict:
    names = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_at_start": os.getloadavg()[0],
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "dtype": "fp32",
        "started": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="page", type=Path, metavar="PAGE.html")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, a smoke test")
    parser.add_argument("--only", choices=GROUPS, action="append", help="may be repeated")
    parser.add_argument(
        "--compile", action="store_true", help="measure torch.compile too; adds minutes"
    )
    options = parser.parse_args()
    settings = groups.Settings(options.quick, options.compile)
    if options.quick:
        # Where others use the machine too, threads wait for each other longer than tiny sums take.
        torch.set_num_threads(1)
    machine = _machine()
    begin = time.monotonic()
    results = {}
    print(table.line(table.HEAD), table.rule(), sep="\n", flush=True)
    for name in options.only or GROUPS:
        results[name] = []
        for row in GROUPS[name](settings):
            results[name].append(row)
            print(table.line(row.cells()), flush=True)
    machine["load_at_end"] = os.getloadavg()[0]
    machine["duration_s"] = round(time.monotonic() - begin)
    rows = [row for group in results.values() for row in group]
    counts = {v: sum(row.verdict == v for row in rows) for v in ("met", "MISSED")}
    print(
        f"\n{counts['met']} bars met, {counts['MISSED']} missed; {machine['duration_s']} s on "
        f"{machine['cores']} cores ({machine['processor']}), load {machine['load_at_start']:.1f} "
        f"at the start, {machine['load_at_end']:.1f} at the end"
    )
    command = "benchmarks/lean_ops/bench.py" + (" --quick" if options.quick else "")
    if options.page:
        options.page.parent.mkdir(parents=True, exist_ok=True)
        purposes = {name: GROUPS[name].__doc__ for name in results}
        options.page.write_text(page.render(results, purposes, machine, command))
    if options.json:
        listed = {
            name: [dataclasses.asdict(row) | {"verdict": row.verdict} for row in group]
            for name, group in results.items()
        }
        options.json.write_text(json.dumps({"machine": machine, "groups": listed}, indent=1))


if __name__ == "__main__":
    main()
