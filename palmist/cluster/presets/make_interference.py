#!/usr/bin/env python3
"""Fits presets/interference.csv from the overlap measurements published with Mist (EuroSys'25).

    make_interference.py overlap_microbench_a100.csv overlap_microbench_l4.csv > interference.csv

The model is Mist's: while a set of resources is active, each works 1/factor as fast; when the first
is done the set shrinks. Factors are fitted set by set, the smaller sets first, each on the rows in
which exactly that set starts together; a factor is at least 1 (coordinate search on the mean
relative error). The L4 rows are those of the host on which streams run beside each other; on the
artifact's other L4 host every mix takes the sum of its parts.
"""
import csv
import random
import sys

NAMES = ["C", "G2G", "C2G", "G2C"]
ISOLATED = ["iso_compute_s", "iso_g2g_s", "iso_c2g_s", "iso_g2c_s"]
ASKED = ["compute_n", "g2g_mib", "c2g_mib", "g2c_mib"]


def members(active):
    return [i for i in range(4) if active >> i & 1]


def predict(alone, factor):
    left = list(alone)
    time = 0.0
    active = [i for i in range(4) if left[i] > 0]
    while active:
        now = factor[sum(1 << i for i in active)]
        step = min(left[i] * now[i] for i in active)
        time += step
        for i in active:
            left[i] -= step / now[i]
        active = [i for i in active if left[i] > 1e-12]
    return time


def error(rows, factor):
    return sum(abs(predict(alone, factor) - t) / t for alone, t in rows) / len(rows)


def fit(rows):
    """Returns factor[set][resource] and the rows of each set."""
    chosen = random.Random(1)
    factor = [[1.0] * 4 for _ in range(16)]
    by_set = {}
    for active in sorted((m for m in range(16) if len(members(m)) > 1), key=lambda m: len(members(m))):
        own = [r for r in rows if sum((r[0][i] > 0) << i for i in range(4)) == active]
        by_set[active] = own
        sample = own if len(own) <= 200 else chosen.sample(own, 200)
        now = factor[active]
        for i in members(active):
            now[i] = max(factor[s][i] for s in range(16) if s & active == s and s != active)
        best, step = error(sample, factor), 0.4
        while step > 0.004:
            improved = False
            for i in members(active):
                for change in (step, -step):
                    before = now[i]
                    now[i] = max(1.0, before + change)
                    value = error(sample, factor)
                    if value < best - 1e-9:
                        best, improved = value, True
                    else:
                        now[i] = before
            if not improved:
                step /= 2
    return factor, by_set


def read(path, bench_set, wanted):
    rows = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["bench_set"] != bench_set or row["noisy"] == "1" or int(row["num_active"]) < 2:
                continue
            if not wanted(row):
                continue
            alone = [float(row[c] or 0) for c in ISOLATED]
            if any(float(row[a] or 0) > 0 and t <= 0 for a, t in zip(ASKED, alone)):
                continue
            rows.append((alone, float(row["latency_s"])))
    return rows


def main():
    print("class,set,C,G2G,C2G,G2C,n,relative_error,source")
    for name, path, bench_set, wanted in (
        ("nvlink", sys.argv[1], "a100-final", lambda row: row["world_size"] == "8"),
        ("network", sys.argv[1], "a100-final", lambda row: row["world_size"] != "8"),
        ("pcie", sys.argv[2], "l4-april", lambda row: True),
    ):
        rows = read(path, bench_set, wanted)
        factor, by_set = fit(rows)
        for active, own in by_set.items():
            cells = ",".join(f"{factor[active][i]:.2f}" if i in members(active) else "" for i in range(4))
            label = "+".join(NAMES[i] for i in members(active))
            print(f"{name},{label},{cells},{len(own)},{error(own, factor):.3f},Dazz993/Mist@d69e530acb62 {bench_set}")


main()
