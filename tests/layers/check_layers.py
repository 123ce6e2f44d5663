#!/usr/bin/env python3
"""Checks that every include stays within what its folder may use.

Each `#include "palmist/X/..."` in palmist/<folder> must name the folder itself or one in the DEPS
of its palmist_add_library call, where palmist/grasp/core is the library grasp_core; files in test/ and benchmark/ may also use the DEPS of the tests,
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


def library_of(include, libraries):
    """Returns the library that a path below palmist/ belongs to, or its first folder."""
    folders = include.split("/")[1:-1]
    names = ["_".join(folders[:n]) for n in range(len(folders), 0, -1)]
    return next((name for name in names if name in libraries), names[-1])


def check(root):
    """Returns the list of violations below root/palmist, and how many files were read."""
    violations, files = [], 0
    base = root / "palmist"
    folders = {
        "_".join(lists.parent.relative_to(base).parts): lists.parent
        for lists in sorted(base.glob("*/CMakeLists.txt")) + sorted(base.glob("*/*/CMakeLists.txt"))
        if "palmist_add_library" in lists.read_text(encoding="utf-8")
    }
    for library_name, folder in folders.items():
        lists = folder / "CMakeLists.txt"
        library, everything = declared_deps(lists.read_text(encoding="utf-8"))
        for path in sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES):
            files += 1
            beside = path.relative_to(folder).parts[0] in ("test", "benchmark")
            allowed = {library_name} | (everything if beside else library)
            name = path.relative_to(root)
            for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
                if include.startswith("palmist/") and include.count("/") > 1:
                    used = library_of(include, folders)
                    if used not in allowed:
                        violations.append(
                            f"{name}: includes {include}, but {used} is not in DEPS of"
                            f" {lists.relative_to(root)}")
                if include.startswith(TORCH_PREFIXES) and library_name not in TORCH_FOLDERS:
                    violations.append(f"{name}: includes {include}, but {library_name} is torch-free")
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

        write("palmist/deep/core/CMakeLists.txt", "palmist_add_library(NAME deep_core LAYER 1 SOURCES c.cc)\n")
        write("palmist/deep/core/c.cc", '#include "palmist/deep/core/c.h"\n')
        write("palmist/deep/use/CMakeLists.txt",
              "palmist_add_library(NAME deep_use LAYER 2 SOURCES d.cc DEPS deep_core)\n")
        write("palmist/deep/use/d.cc", '#include "palmist/deep/core/c.h"\n')
        assert check(root) == ([], 5), check(root)
        write("palmist/deep/core/c.cc", '#include "palmist/deep/use/d.h"\n')
        violations, _ = check(root)
        assert len(violations) == 1 and "deep_use is not in DEPS" in violations[0], violations
        write("palmist/deep/core/c.cc", "")

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
