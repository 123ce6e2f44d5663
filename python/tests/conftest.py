import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch  # noqa: E402


@pytest.fixture(autouse=True)
def _reproducible():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    yield
    torch._dynamo.reset()
