"""The package: imports, names, and how it finds its libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

import palmist
from palmist import _library


def test_imports_no_transformers():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import palmist\n"
        "assert not [name for name in sys.modules if 'transformers' in name]"
    )
    python = str(Path(palmist.__file__).parent.parent)
    subprocess.run([sys.executable, "-c", code, python], check=True)


def test_names():
    for name in palmist.__all__:
        assert getattr(palmist, name).__doc__
    assert palmist.__version__.count(".") == 2


def test_finds_the_library_named(tmp_path, monkeypatch):
    (tmp_path / "libpalmist_ops.so").touch()
    monkeypatch.setenv("PALMIST_LIBRARY_DIR", str(tmp_path))
    assert _library.find_library("palmist_ops") == tmp_path / "libpalmist_ops.so"
    with pytest.raises(ImportError, match="expected libpalmist_none.so in one of .*got none"):
        _library.find_library("palmist_none")


def test_refuses_a_library_of_another_torch(tmp_path):
    library = _library.find_library("palmist_ops")
    running = _library.built_for(library)
    other = tmp_path / "libpalmist_ops.so"
    other.write_bytes(
        library.read_bytes().replace(
            f"palmist-torch-version:{running}".encode(), b"palmist-torch-version:1.99"
        )
    )
    with pytest.raises(
        ImportError, match=f"built for torch {running}; got one built for torch 1.99"
    ):
        _library.load(other)
    # What only looks like a library.
    other.write_text(f"palmist-torch-version:{running}")
    with pytest.raises(ImportError, match="got one that does not load: .*build it again"):
        _library.load(other)
    other.write_text("nothing")
    with pytest.raises(ImportError, match="got one built for torch None"):
        _library.load(other)
