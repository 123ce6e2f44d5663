#!/usr/bin/env python3
"""Checks that relative links in the checkout's Markdown files lead to a file and to a heading.

  check_links.py ROOT          check all *.md below ROOT
  check_links.py --self-test   check that a broken link and a broken anchor are found
"""

import pathlib
import re
import sys
import tempfile

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
SKIPPED = {"build", ".venv", ".git"}


def anchors(text):
    """Returns the names of a page's headings, as hosts of Git repositories make them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in HEADING.findall(text)}


def problems(root):
    """Yields one line for each relative link that leads nowhere."""
    for page in sorted(root.rglob("*.md")):
        if SKIPPED & set(page.relative_to(root).parts):
            continue
        for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            goal = page.parent / path if path else page
            if not goal.exists():
                yield f"{page.relative_to(root)}: {target} does not exist"
            elif anchor and anchor not in anchors(goal.read_text(encoding="utf-8")):
                yield f"{page.relative_to(root)}: {target} names no heading of that page"


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "good.md").write_text(
            "# A `b`, c\n[x](#a-b-c) [y](https://example.org/z) `[code](nowhere.md)`\n")
        (root / "bad.md").write_text("[x](nowhere.md) [y](good.md#d) [z](good.md#a-b-c)\n")
        found = list(problems(root))
    expected = ["bad.md: nowhere.md does not exist",
                "bad.md: good.md#d names no heading of that page"]
    if found != expected:
        sys.exit(f"self-test: expected {expected}, got {found}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        self_test()
        return
    found = list(problems(pathlib.Path(sys.argv[1])))
    if found:
        sys.exit("\n".join(found))
    print("links: all lead somewhere")


if __name__ == "__main__":
    main()
