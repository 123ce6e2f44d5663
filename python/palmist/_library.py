"""Finds and loads the compiled libraries."""

import mmap
import os
import re
from pathlib import Path

import torch
from torch._library.effects import EffectType
from torch.library import _register_effectful_op


def find_library(stem: str) -> Path:
    """Returns the path of `lib<stem>.so`.

    Looks in the folder `PALMIST_LIBRARY_DIR`, beside the package in `lib/`, then in the development
    builds of the checkout that the package lies in. Raises ImportError where none has it.
    """
    package = Path(__file__).resolve().parent
    checkout = package.parent.parent
    folders = [package / "lib", checkout / "build/release/lib", checkout / "build/ci/lib"]
    if chosen := os.environ.get("PALMIST_LIBRARY_DIR"):
        folders.insert(0, Path(chosen))
    for folder in folders:
        if (path := folder / f"lib{stem}.so").is_file():
            return path
    raise ImportError(
        f"expected lib{stem}.so in one of {', '.join(map(str, folders))}; got none. Install the "
        "package with `pip install --no-build-isolation .`, or build it with `cmake --preset "
        "release && cmake --build --preset release`, or set PALMIST_LIBRARY_DIR"
    )


def built_for(path: Path) -> str | None:
    """Returns the `major.minor` of the torch that the library at `path` was built for.

    Reads it from the file, because a library of another torch may not even load. None where the
    file does not tell.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        mark = re.search(rb"palmist-torch-version:(\d+\.\d+)", data)
        return mark.group(1).decode() if mark else None


def load_operators() -> None:
    """Loads the operators into `torch.ops.palmist`, once; raises ImportError where it cannot."""
    if not hasattr(torch.ops.palmist, "linear_cross_entropy"):
        path = find_library("palmist_ops")
        load(path)
        # Whoever draws again in backward gets another mask. The tag nondeterministic_seeded keeps
        # the partitioners of torch.compile from it, but not where activation_memory_budget is below
        # 1; an effect does (torch 2.11, https://github.com/pytorch/pytorch/issues/190758).
        _register_effectful_op("palmist::dropout_seed", EffectType.ORDERED)
        cuda = path.with_name("libpalmist_ops_cuda.so")
        if cuda.is_file() and torch.cuda.is_available():
            load(cuda)


def load(path: Path) -> None:
    """Loads the library at `path`.

    Raises ImportError where it was built for another minor version of torch, whose binary interface
    differs.
    """
    running = ".".join(torch.__version__.split(".")[:2])
    expected = f"expected {path} to be built for torch {running}"
    advice = "build it again with this Python: `pip install --no-build-isolation .`"
    built = built_for(path)
    if built != running:
        raise ImportError(f"{expected}; got one built for torch {built}; {advice}")
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise ImportError(f"{expected}; got one that does not load: {error}; {advice}") from None
