#!/usr/bin/env python3
"""Runs the public package graspnetAPI on a dataset of layout.py, and prints its AP and its time.

    peer.py ROOT FRAMES SCENE...      (with the Python of its own environment, see README.md)
"""

import builtins
import contextlib
import io
import json
import sys
import time

import graspnetAPI.graspnet_eval as package
import numpy as np


def main() -> None:
    root, frames, *scenes = sys.argv[1], *map(int, sys.argv[2:])
    spent = []
    evaluate = package.eval_grasp

    def timed(*arguments, **options):
        begin = time.perf_counter()
        result = evaluate(*arguments, **options)
        spent.append(time.perf_counter() - begin)
        return result

    package.eval_grasp = timed
    # The package has 256 frames a scene written into it.
    package.range = lambda *a: builtins.range(frames) if a == (256,) else builtins.range(*a)
    np.random.seed(0)
    begin = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        evaluation = package.GraspNetEval(root, "realsense", "custom")
        accuracy = np.array([evaluation.eval_scene(scene, root + "/dump") for scene in scenes])
    whole_s = time.perf_counter() - begin
    json.dump(
        {
            "AP": float(accuracy.mean()),
            "AP0.8": float(accuracy[..., 3].mean()),
            "AP0.4": float(accuracy[..., 1].mean()),
            "ms_a_frame": 1e3 * sum(spent) / len(spent),
            "whole_s": whole_s,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
