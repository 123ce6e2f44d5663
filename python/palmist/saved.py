"""Lists what a forward pass keeps for backward."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

Kind = Literal["activation", "parameter", "input"]


@dataclasses.dataclass(frozen=True)
class SavedTensor:
    """One storage that is kept for backward.

    `shape` and `dtype` are those of the first tensor that was saved of it; `nbytes` is the whole
    storage; `operator` and `module` saved it first, `count` is how often it was saved.
    """

    operator: str
    module: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    nbytes: int
    kind: Kind
    count: int


@dataclasses.dataclass(frozen=True)
class SavedBytes:
    """What a forward pass keeps for backward, storage by storage.

    `allocator_bytes` is by how much the memory in use grew while the pass ran; it includes what the
    pass returns and what it keeps elsewhere.
    """

    tensors: list[SavedTensor]
    allocator_bytes: int

    def total(self, *, parameters: bool = False, inputs: bool = False) -> int:
        """Adds up bytes: the activations, and with them parameters and buffers, and inputs."""
        kinds = {"activation": True, "parameter": parameters, "input": inputs}
        return sum(tensor.nbytes for tensor in self.tensors if kinds[tensor.kind])

    @property
    def total_bytes(self) -> int:
        """The bytes of the activations."""
        return self.total()

    def __str__(self) -> str:
        rows = [("bytes", "dtype", "shape", "times", "operator", "module")]
        shown = [tensor for tensor in self.tensors if tensor.kind == "activation"]
        for tensor in sorted(shown, key=lambda tensor: -tensor.nbytes):
            rows.append(
                (
                    f"{tensor.nbytes:,}",
                    str(tensor.dtype).removeprefix("torch."),
                    "×".join(map(str, tensor.shape)) or "scalar",
                    str(tensor.count),
                    tensor.operator,
                    tensor.module,
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [
            "  ".join(
                cell.rjust(width) if column == 0 else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths))
            ).rstrip()
            for row in rows
        ]
        others = self.total(parameters=True, inputs=True) - self.total_bytes
        lines.append(f"activations kept for backward: {self.total_bytes:,} bytes")
        lines.append(f"parameters, buffers and inputs besides: {others:,} bytes")
        lines.append(f"growth of the memory in use: {self.allocator_bytes:,} bytes")
        return "\n".join(lines)


def saved_bytes(fn: Callable, *args, **kwargs) -> SavedBytes:
    """Runs `fn(*args, **kwargs)` with gradients on and lists what it keeps for backward.

    Two ways, each checks the other: the tensors that autograd saves, one entry a storage, and the
    growth of the memory in use, by the profiler on CPU and by the allocator's count on CUDA.
    Inputs are the tensors in the arguments; parameters are other leaves that require gradients, and
    what the modules that run have as parameters and buffers.
    """
    recorder = _Recorder(fn, (args, kwargs))
    with torch.enable_grad(), _allocator_growth(recorder.device) as growth, recorder.recording():
        result = fn(*args, **kwargs)
    # The result keeps the graph alive up to here, so that the growth has all that it holds.
    del result
    return SavedBytes(recorder.tensors(), growth[0])


class _OperatorNames(TorchFunctionMode):
    """Keeps the name of the function of torch that runs."""

    def __init__(self):
        super().__init__()
        self.current = ""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        outer = self.current
        # Operators print as "palmist.linear.default", functions and methods have names.
        name = getattr(function, "__name__", str(function))
        self.current = outer or name.removesuffix(".default")
        try:
            return function(*args, **(kwargs or {}))
        finally:
            self.current = outer


class _Recorder:
    def __init__(self, fn: Callable, inputs):
        root = fn if isinstance(fn, torch.nn.Module) else getattr(fn, "__self__", None)
        is_module = isinstance(root, torch.nn.Module)
        self._module_names = {}
        self._kinds: dict[int, Kind] = {}
        for tensor in tree_leaves(inputs):
            if isinstance(tensor, Tensor):
                self._kinds[_storage_key(tensor)] = "input"
        if is_module:
            self._module_names = {id(module): name for name, module in root.named_modules()}
            self._see_module(root)
        self._names = _OperatorNames()
        self._path: list[torch.nn.Module] = []
        # By storage; the tensor keeps its storage alive, so that no other takes its address.
        self._saved: dict[int, dict] = {}
        tensors = [*tree_leaves(inputs), *(root.parameters() if is_module else ())]
        self.device = next(
            (tensor.device for tensor in tensors if isinstance(tensor, Tensor)),
            torch.device("cpu"),
        )

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        handles = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda packed: packed):
                with self._names:
                    yield
        finally:
            for handle in handles:
                handle.remove()

    def tensors(self) -> list[SavedTensor]:
        return [
            SavedTensor(
                operator=entry["operator"],
                module=entry["module"],
                shape=tuple(entry["tensor"].shape),
                dtype=entry["tensor"].dtype,
                nbytes=entry["tensor"].untyped_storage().nbytes(),
                kind=self._kinds.get(key, "activation"),
                count=entry["count"],
            )
            for key, entry in self._saved.items()
        ]

    def _see_module(self, root: torch.nn.Module) -> None:
        for tensor in (*root.parameters(), *root.buffers()):
            self._kinds.setdefault(_storage_key(tensor), "parameter")

    def _enter(self, module: torch.nn.Module, args) -> None:
        if not self._path:
            self._see_module(module)
        self._path.append(module)

    def _leave(self, module: torch.nn.Module, args, output) -> None:
        self._path.pop()

    def _pack(self, tensor: Tensor) -> Tensor:
        key = _storage_key(tensor)
        if tensor.is_leaf and tensor.requires_grad:
            self._kinds.setdefault(key, "parameter")
        # Detached, because an output that is saved by its own node would keep that node alive.
        tensor = tensor.detach()
        if key in self._saved:
            self._saved[key]["count"] += 1
        else:
            module = self._path[-1] if self._path else None
            self._saved[key] = {
                "tensor": tensor,
                "operator": self._names.current,
                "module": self._module_names.get(id(module), type(module).__name__)
                if module is not None
                else "",
                "count": 1,
            }
        return tensor


def _storage_key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


@contextlib.contextmanager
def _allocator_growth(device: torch.device) -> Iterator[list[int]]:
    growth = [0]
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        yield growth
        growth[0] = torch.cuda.memory_allocated(device) - before
        return
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(
        activities=activities, profile_memory=True, acc_events=True
    ) as profiler:
        yield growth
    growth[0] = sum(event.self_cpu_memory_usage for event in profiler.events())
