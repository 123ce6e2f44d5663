#!/usr/bin/env python3
"""Checks that every include stays within what its folder may use.

Each `#include "palmist/X/..."` in palmist/<folder> must name the folder itself or one in the DEPS
of its palmist_add_library call; files in test/ and benchmark/ may also use the DEPS of the tests,
benchmarks and fuzzers declared there. Only the folders in TORCH_FOLDERS may name libtorch.

  check_layers.py ROOT          check the checkout at ROOT
  check_layers.py --self-test   check that a bad checkout is refused
"""

import pathlib
import re
import sys
import tempfile

CALL = re.compile(r"\b(palmist_add_(?:library|test|benchmark|fuzzer))\s*\(([^)]*)\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
KEYWORDS = {
    "NAME", "LAYER", "INTERNAL", "SOURCES", "HEADERS", "DEPS", "PRIVATE_LIBS", "PUBLIC_LIBS",
    "LIBS", "LABEL", "TIMEOUT", "CORPUS",
}
TORCH_PREFIXES = ("torch/", "ATen/", "c10/")
TORCH_FOLDERS = {"ops", "comm", "nn", "exec", "profile"}
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}


def declared_deps(cmake_text):
    """Returns (DEPS of the library, DEPS of all calls) of one CMakeLists.txt."""
    text = re.sub(r"#[^\n]*", "", cmake_text)
    library, everything = set(), set()
    for call, arguments in CALL.findall(text):
        keyword = None
        for word in arguments.split():
            if word in KEYWORDS:
                keyword = word
            elif keyword == "DEPS":
                everything.add(word)
                if call == "palmist_add_library":
                    library.add(word)
    return library, everything


def check(root):
    """Returns the list of violations below root/palmist, and how many files were read."""
    violations, files = [], 0
    for folder in sorted(p for p in (root / "palmist").iterdir() if p.is_dir()):
        lists = folder / "CMakeLists.txt"
        if not lists.is_file():
            continue
        library, everything = declared_deps(lists.read_text(encoding="utf-8"))
        for path in sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES):
            files += 1
            beside = path.relative_to(folder).parts[0] in ("test", "benchmark")
            allowed = {folder.name} | (everything if beside else library)
            name = path.relative_to(root)
            for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
                parts = include.split("/")
                if parts[0] == "palmist" and len(parts) > 2 and parts[1] not in allowed:
                    violations.append(
                        f"{name}: includes {include}, but {parts[1]} is not in DEPS of"
                        f" {lists.relative_to(root)}")
                if include.startswith(TORCH_PREFIXES) and folder.name not in TORCH_FOLDERS:
                    violations.append(f"{name}: includes {include}, but {folder.name} is torch-free")
    return violations, files


def self_test():
    """Checks that each kind of violation is found and that a good tree passes."""
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)

        def write(path, text):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")

        write("palmist/low/CMakeLists.txt", "palmist_add_library(NAME low LAYER 0\n SOURCES a.cc)\n")
        write("palmist/low/a.cc", '#include "palmist/low/a.h"\n#include <vector>\n')
        write("palmist/high/CMakeLists.txt",
              "palmist_add_library(NAME high LAYER 1 SOURCES b.cc DEPS low # other\n)\n"
              "palmist_add_test(NAME b_test SOURCES test/b_test.cc DEPS high other)\n")
        write("palmist/high/b.cc", '#include "palmist/low/a.h"\n')
        write("palmist/high/test/b_test.cc", '#include "palmist/other/c.h"\n')
        assert check(root) == ([], 3), check(root)

        write("palmist/low/a.cc", '#include "palmist/high/b.h"\n')
        write("palmist/high/b.cc", '#  include <palmist/other/c.h>\n#include <torch/torch.h>\n')
        violations, _ = check(root)
        assert len(violations) == 3, violations
        assert "high/b.cc: includes palmist/other/c.h" in violations[0], violations
        assert "high is torch-free" in violations[1], violations
        assert "low/a.cc: includes palmist/high/b.h" in violations[2], violations
    print("layers: the self-test passes")
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    violations, files = check(pathlib.Path(arguments[0]).resolve())
    for violation in violations:
        print(violation, file=sys.stderr)
    if files == 0:
        print("layers: no source file found", file=sys.stderr)
        return 1
    print(f"layers: {files} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
