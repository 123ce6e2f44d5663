#!/usr/bin/env python3
"""Fits presets/collectives.csv from the collective measurements published with Mist (EuroSys'25).

    make_collectives.py aceso_collectives.csv overlap_microbench_a100.csv > collectives.csv

Each (GPU, collective, group size) gets time = alpha + wire / bandwidth by least squares on the
relative error, alpha at least 0; `wire` is what each rank sends. Buffers that are not multiples of
16 bytes are left out (another, slower path of the library). The all-gathers of the A100 come from
the overlap measurements: those of the collective file include a copy of the result.
"""
import collections
import csv
import sys

DEVICES = {
    "l4": "L4",
    "a10g": "A10G",
    "a100-sxm4-40gb": "A100-SXM4-40GB A100-SXM4-80GB",
    "v100-sxm2-32gb-seq2048": "V100-SXM2-32GB",
}
WIRE = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: n - 1,  # the file counts a rank's input
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
}


def fit(points):
    """Returns alpha (s), bandwidth (bytes/s) and the mean relative error over (wire, time)."""
    uu = sum(1 / t**2 for _, t in points)
    uv = sum(w / t**2 for w, t in points)
    vv = sum((w / t) ** 2 for w, t in points)
    u = sum(1 / t for _, t in points)
    v = sum(w / t for w, t in points)
    determinant = uu * vv - uv * uv
    alpha = (u * vv - v * uv) / determinant
    slope = (uu * v - uv * u) / determinant
    if alpha < 0:
        alpha, slope = 0.0, v / vv
    error = sum(abs(alpha + w * slope - t) / t for w, t in points) / len(points)
    return alpha, 1 / slope, error


def main():
    groups = collections.defaultdict(list)
    with open(sys.argv[1], newline="") as file:
        for row in csv.DictReader(file):
            devices, kind = DEVICES.get(row["profile_set"]), row["collective"]
            if not devices or row["aligned16"] != "1" or row["session"] != "1":
                continue
            if kind == "all_gather" and devices.startswith("A100"):
                continue
            n = int(row["n_gpus"])
            groups[devices, kind, n, 1].append((WIRE[kind](n) * float(row["bytes"]), float(row["time_s"])))
    with open(sys.argv[2], newline="") as file:
        for row in csv.DictReader(file):
            if row["num_active"] != "1" or float(row["g2g_mib"]) == 0 or row["inter_group"] != "1":
                continue
            n = int(row["group_size"])
            wire = float(row["g2g_mib"]) * 2**20 * (n - 1) / n
            groups[DEVICES["a100-sxm4-40gb"], "all_gather", n, 1].append((wire, float(row["latency_s"])))
    print("devices,kind,ranks_in_node,nodes,alpha_us,bandwidth_gb_per_s,n,relative_error,source")
    for (devices, kind, ranks, nodes), points in sorted(groups.items()):
        alpha, bandwidth, error = fit(points)
        print(f"{devices},{kind},{ranks},{nodes},{alpha * 1e6:.1f},{bandwidth / 1e9:.3f},{len(points)},"
              f"{error:.3f},Dazz993/Mist@d69e530acb62")


main()
