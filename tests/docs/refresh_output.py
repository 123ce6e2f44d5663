#!/usr/bin/env python3
"""Runs the commands that the documentation shows and writes their output where it stands.

A command is a line `$ ...` of a ```console block; all that follows it up to the next command is
replaced. The commands of a page run one after another in an empty folder where `palmist` is on the
path. A page that names runs.csv is left alone unless one is given. Look at the difference before
you commit it: times of searches vary from run to run.

  refresh_output.py PALMIST [--runs RUNS.csv] PAGE.md...
"""

import argparse
import os
import pathlib
import re
import subprocess
import tempfile

BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def refreshed(block, folder, environment):
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    text = ""
    for command in commands:
        run = subprocess.run(["bash", "-c", command[2:]], cwd=folder, env=environment, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        output = "\n".join(line.rstrip() for line in run.stdout.splitlines()).strip("\n")
        text += command + "\n" + (output + "\n" if output else "")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("palmist", type=pathlib.Path)
    parser.add_argument("--runs", type=pathlib.Path)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    environment = dict(os.environ)
    environment["PATH"] = f"{arguments.palmist.resolve().parent}:{environment['PATH']}"
    for page in arguments.pages:
        text = page.read_text(encoding="utf-8")
        if "runs.csv" in "".join(BLOCK.findall(text)) and not arguments.runs:
            print(f"{page}: left alone, it needs --runs")
            continue
        with tempfile.TemporaryDirectory() as folder:
            if arguments.runs:
                (pathlib.Path(folder) / "runs.csv").symlink_to(arguments.runs.resolve())
            page.write_text(
                BLOCK.sub(lambda block: refreshed(block.group(), folder, environment), text),
                encoding="utf-8")
        print(f"{page}: refreshed")


if __name__ == "__main__":
    main()
