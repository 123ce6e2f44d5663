#!/usr/bin/env python3
"""Evaluates the same grasps by `palmist grasp eval` and by the public package, in one run.

    compare.py --peer PYTHON [--palmist PROGRAM] [--golden DIR] [--json FILE]

PYTHON is that of an environment with graspnetAPI 1.2.11 (README.md beside this file says how to
make one). Both evaluate 12 frames of 200 grasps on one core. "A frame" is the evaluation alone, with
everything loaded; "whole" is the process from start to end, with its reading of models.
Exits with 1 where an AP differs by more than 1e-12.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import layout  # noqa: E402

ONE_CORE = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def run(command: list[str]) -> tuple[dict, float]:
    """Returns the JSON that a command prints, and its seconds."""
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | ONE_CORE)
    took_s = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout), took_s


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", required=True, help="the Python with graspnetAPI")
    parser.add_argument("--palmist", default=str(ROOT / "build/release/bin/palmist"))
    golden = ROOT / "palmist/grasp/eval/testdata/golden"
    parser.add_argument("--golden", type=Path, default=golden)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        scenes, frames = layout.write_dataset(options.golden, Path(root))
        ours, ours_s = run(
            [options.palmist, "grasp", "eval", "--data", root, "--dump", f"{root}/dump"]
            + ["--mode", "compat", "--jobs", "1", "--json"]
        )
        bench, _ = run([options.palmist, "grasp", "bench", "--golden", str(options.golden), "--json"])
        peer, peer_s = run(
            [options.peer, str(HERE / "peer.py"), root, str(frames), *map(str, scenes)]
        )
    frame_ms = bench["eval"]["one_core_ms_a_frame"]
    rows = [(key, f"{peer[key]:.15f}", f"{ours['compat'][key]:.15f}") for key in ("AP", "AP0.8", "AP0.4")]
    rows += [
        ("a frame, ms", f"{peer['ms_a_frame']:.1f}", f"{frame_ms:.2f}"),
        ("whole, s", f"{peer_s:.2f}", f"{ours_s:.2f}"),
    ]
    print("| | graspnetAPI 1.2.11 | palmist |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(
        f"\n{len(scenes) * frames} frames of 200 grasps, one core: {peer['ms_a_frame'] / frame_ms:.0f}"
        f" times faster a frame, {peer_s / ours_s:.0f} times as a whole"
    )
    if options.json:
        options.json.write_text(json.dumps({"peer": peer, "ours": ours, "bench": bench}, indent=1))
    different = [key for key in ("AP", "AP0.8", "AP0.4") if abs(peer[key] - ours["compat"][key]) > 1e-12]
    if different:
        sys.exit(f"expected equal {', '.join(different)}")


if __name__ == "__main__":
    main()
