"""Measures memory and time; `in_fresh_process` keeps the measurements apart."""

import concurrent.futures
import ctypes
import dataclasses
import gc
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

_KEPT_POINTS = 600


@dataclasses.dataclass(frozen=True)
class Timeline:
    """Bytes in use above those at the start, after each allocation and release of torch's.

    Marks are the times at which `mark` was called, by name.
    """

    times_s: list[float]
    bytes_in_use: list[int]
    marks: dict[str, float]

    @property
    def peak_bytes(self) -> int:
        return max(self.bytes_in_use, default=0)

    @property
    def last_bytes(self) -> int:
        return self.bytes_in_use[-1] if self.bytes_in_use else 0

    def between(self, first: str, last: str) -> "Timeline":
        """Cuts out what lies between two marks; bytes count from the first one on."""
        begin, end = self.marks[first], self.marks[last]
        start = 0
        times, counts = [], []
        for at, count in zip(self.times_s, self.bytes_in_use):
            if at < begin:
                start = count
            elif at <= end:
                times.append(at - begin)
                counts.append(count - start)
        return Timeline(times, counts, {})

    def thinned(self) -> "Timeline":
        """Keeps enough points for a plot, the highest of each stretch."""
        stretch = max(1, len(self.times_s) // _KEPT_POINTS)
        chosen = [
            max(range(i, min(i + stretch, len(self.times_s))), key=self.bytes_in_use.__getitem__)
            for i in range(0, len(self.times_s), stretch)
        ]
        return Timeline(
            [self.times_s[i] for i in chosen], [self.bytes_in_use[i] for i in chosen], self.marks
        )


def mark(name: str) -> None:
    """Leaves a mark in the timeline that is being recorded."""
    with record_function(f"mark:{name}"):
        pass


def timeline_of(fn: Callable, leave_out: tuple[int, ...] = ()) -> Timeline:
    """Runs `fn` under torch's profiler and returns what its CPU allocator reports.

    Blocks of the sizes in `leave_out` are not counted. What `fn` returns lives up to the end.
    """
    gc.collect()
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profiler:
        result = fn()
    del result
    events = sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    start = events[0].start_ns() if events else 0
    times, counts, marks, in_use = [], [], {}, 0
    for event in events:
        at = (event.start_ns() - start) * 1e-9
        if event.name() == "[memory]" and abs(event.nbytes()) not in leave_out:
            in_use += event.nbytes()
            times.append(at)
            counts.append(in_use)
        elif event.name().startswith("mark:"):
            marks[event.name().removeprefix("mark:")] = at
    return Timeline(times, counts, marks)


def resident_growth(fn: Callable) -> int:
    """Runs `fn` and returns by how many bytes the process's resident memory rose at most.

    It has what torch's allocator does not see: the scratch of kernels and of matrix products.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark to the present
    before = _resident_peak()
    fn()
    return _resident_peak() - before


def _resident_peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("expected VmHWM in /proc/self/status, got none; this needs Linux")


def interleaved_times(first: Callable, second: Callable, rounds: int) -> tuple[list, list]:
    """Times two functions in turn, after one run of each; seconds."""
    times = ([], [])
    for i in range(rounds + 1):
        for fn, column in zip((first, second), times):
            begin = time.perf_counter()
            fn()
            if i:
                column.append(time.perf_counter() - begin)
    return times


def in_fresh_process(function: Callable, *arguments):
    """Calls a function of a module in a process that has imported this program and nothing more."""
    # A server process has done the imports; each call gets a fork of it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__"])
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_call, torch.get_num_threads(), function, arguments).result()


def _call(threads: int, function: Callable, arguments: tuple):
    torch.set_num_threads(threads)
    return function(*arguments)


def largest_fitting(measure: Callable[[int], int], budget: int) -> tuple[int, dict[int, int]]:
    """Returns the largest batch whose measured bytes fit the budget, and all that was measured.

    Each try is where a line through the last two falls on the budget, within the bracket. Needs a
    budget that batch 1 fits.
    """
    measured = {batch: measure(batch) for batch in (1, 2)}
    while True:
        fits = max(batch for batch, count in measured.items() if count <= budget)
        too_large = min((b for b, count in measured.items() if count > budget), default=None)
        if too_large == fits + 1:
            return fits, measured
        (b0, m0), (b1, m1) = list(measured.items())[-2:]
        guess = b1 + (budget - m1) * (b1 - b0) // (m1 - m0) if m1 != m0 else fits + 1
        guess = max(guess, fits + 1)
        batch = guess if too_large is None else min(guess, too_large - 1)
        measured[batch] = measure(batch)
