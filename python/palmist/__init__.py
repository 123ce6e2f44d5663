"""Memory-lean operators for PyTorch, and a patcher for Hugging Face models.

    import palmist

    palmist.patch(model)                          # exact gradients, less kept for backward
    print(palmist.saved_bytes(model, input_ids))  # what the forward keeps
    palmist.auto(model, batch=32, budget_bytes=8 << 30, seq=512)

`palmist.nn` has the modules one by one.
"""

from palmist import nn
from palmist.patching import patch, unpatch
from palmist.planning import AutoChoice, DoesNotFit, auto
from palmist.saved import SavedBytes, saved_bytes

__version__ = "0.1.0"
__all__ = [
    "AutoChoice",
    "DoesNotFit",
    "SavedBytes",
    "auto",
    "nn",
    "patch",
    "saved_bytes",
    "unpatch",
]
