"""What users of such operators reported elsewhere, one test a report.

Each test names the report in its first line; what it checks is that the same does not happen here.
"""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from helpers import CASES, Case, backward_of, kept_bytes, ops, tiny_model, tokens, worst_difference
from torch.utils.checkpoint import checkpoint

import palmist
from palmist import nn

FLOAT = 4


def test_01_in_place_gelu_and_layer_norm_are_wanted():
    """https://github.com/pytorch/pytorch/issues/92884: GELU, LayerNorm that keep their output."""
    x = torch.randn(64, 128, requires_grad=True)
    weight = torch.randn(128, 128, requires_grad=True)
    for ours, torchs, keeps in (
        (lambda t: ops.tempo_gelu(t), F.gelu, x.numel() * FLOAT + x.numel() // 8),
        (
            lambda t: ops.tempo_layer_norm(t, [128]),
            lambda t: F.layer_norm(t, [128]),
            (x.numel() + 64) * FLOAT,
        ),
    ):
        kept = kept_bytes(lambda x: ops.linear(ours(x * 1), weight), x)
        assert kept == keeps
        assert kept_bytes(lambda x: F.linear(torchs(x * 1), weight), x) >= 2 * x.numel() * FLOAT


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_02_memory_efficient_norm_is_imprecise(dtype):
    """https://github.com/NVIDIA/apex/pull/1715: dividing by a small weight loses the input.

    Its sequel, a new required argument that broke callers
    (https://github.com/NVIDIA/Megatron-LM/issues/593), cannot occur: the modules take torch's
    arguments, and what is new has a default.
    """
    x = torch.randn(16, 256).to(dtype)
    weight = torch.full((256,), 1e-3).to(dtype)
    bias = torch.full((256,), 0.1).to(dtype)
    scale = torch.randn(16, 256).to(dtype)

    def gradients(operator, convert=lambda t: t):
        leaves = [convert(t).clone().requires_grad_() for t in (x, weight, bias)]
        y = operator(leaves[0], [256], leaves[1], leaves[2])
        return torch.autograd.grad(y, leaves, convert(scale))

    exact = gradients(F.layer_norm, lambda t: t.double())
    for got, want in zip(gradients(ops.tempo_layer_norm), exact):
        assert float((got - want).norm() / want.norm()) < (1e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_03_backward_overwrote_the_incoming_gradient(case: Case):
    """https://github.com/linkedin/Liger-Kernel/pull/376: RMSNorm wrote into dY, others read it."""
    arguments = case.arguments()
    result = case.op(*arguments)
    gradient = torch.randn_like(result)
    before = gradient.clone()
    torch.autograd.grad(result, arguments, gradient)
    assert torch.equal(gradient, before)


def test_04_fused_loss_changed_a_view_in_place():
    """https://github.com/linkedin/Liger-Kernel/issues/48: frozen head, gradients that are views."""
    flat = torch.randn(9 * 16 + 5)
    weight = flat[5:].view(9, 16)
    x = torch.randn(2, 3, 16, requires_grad=True)
    target = torch.randint(0, 9, (2, 3))
    loss = ops.linear_cross_entropy((x * 1)[:, :2], weight, target[:, :2])
    (loss * 2 + 1).backward()
    want = torch.autograd.grad(
        2 * F.cross_entropy((x[:, :2] @ weight.t()).flatten(0, 1), target[:, :2].flatten()), x
    )
    assert torch.allclose(x.grad, want[0], atol=1e-6)
    model, ids = tiny_model("llama"), tokens()
    palmist.patch(model)
    model.lm_head.requires_grad_(False)
    loss = model(ids, labels=ids).loss
    loss.backward(retain_graph=True)
    once = model.model.norm.weight.grad.clone()
    loss.backward()
    assert torch.allclose(model.model.norm.weight.grad, 2 * once)


@pytest.mark.parametrize("budget", [0.2, 0.5, 1.0])
def test_05_memory_budget_drew_dropout_again(budget):
    """https://github.com/pytorch/pytorch/issues/190758: recomputation with another mask."""

    @torch.compile(backend="aot_eager_decomp_partition")
    def run(x):
        return ops.dropout(x.sin().cos(), 0.5, True).exp().sin()

    x = torch.rand(512, requires_grad=True)
    with torch._functorch.config.patch(activation_memory_budget=budget):
        y = run(x)
        y.sum().backward()
    # Where it was dropped, exp(0) came out, and no gradient comes in.
    dropped = y == torch.zeros(()).exp().sin()
    assert 100 < int(dropped.sum()) < 400
    assert torch.equal(x.grad == 0, dropped)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_06_checkpointing_lost_the_random_state(use_reentrant):
    """https://github.com/allenai/OLMo-core/pull/828: another mask in the recomputation."""
    model, ids = palmist.patch(tiny_model("gpt2", dropout=0.3)), tokens()
    gradients = []
    for checkpointing in (False, True):
        if checkpointing:
            model.activation_checkpointing_enable({"use_reentrant": use_reentrant})
        torch.manual_seed(2)
        gradients.append(backward_of(model, model(ids, labels=ids).loss))
    assert worst_difference(*gradients) < 1e-6


def test_07_no_double_backward_of_attention():
    """https://github.com/pytorch/pytorch/issues/116350: gradients of gradients, on CPU too."""
    heads = [torch.randn(1, 2, 4, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    torch.autograd.gradgradcheck(ops.attention, heads, fast_mode=True)
    # The output-only operator says so in place of a wrong result.
    with pytest.raises(RuntimeError, match="second; use palmist::attention"):
        torch.autograd.grad(ops.tempo_attention(*heads).sin().sum(), heads, create_graph=True)


def test_08_autocast_kept_a_second_copy():
    """https://github.com/openvpi/DiffSinger/pull/328: the norm in fp32, its cast in half, both."""
    norm, linear = nn.LayerNorm(64), nn.Linear(64, 64)
    x = torch.randn(32, 64, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        kept = kept_bytes(lambda x: linear(norm(x * 1)), x)
    # The input of the norm and its statistics; the copy of the weight is 64 · 64 halves.
    assert kept <= x.numel() * FLOAT + 32 * 2 * FLOAT + 64 * 64 * 2
    rms = nn.RMSNorm(64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert kept_bytes(lambda x: linear(rms(x * 1)), x) < kept


def test_09_compiled_norm_was_wrong():
    """https://github.com/linkedin/Liger-Kernel/issues/871: other values under torch.compile."""
    module = torch.nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 32), nn.RMSNorm(32))
    x = torch.randn(3, 64)
    runs = []
    for run in (module, torch.compile(module, backend="aot_eager_decomp_partition")):
        module.zero_grad()
        leaf = x.clone().requires_grad_()
        y = run(leaf)
        y.square().sum().backward()
        runs.append([y.detach(), leaf.grad, *(p.grad.clone() for p in module.parameters())])
    for a, b in zip(*runs):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-5)


def test_10_sizes_beyond_an_int():
    """https://github.com/deepspeedai/DeepSpeed/issues/8590: 2³¹ elements; apex#411: 2¹⁶ rows.

    The sizes are of 64 bits throughout; here the shapes on the meta device, and values of one
    tensor of more than 2¹⁶ rows. `test_bad_input` has every operator.
    """
    x = torch.empty((1 << 16) + 1, 1 << 15, device="meta", requires_grad=True)
    y = ops.linear(ops.layer_norm(x, [1 << 15]), torch.empty(8, 1 << 15, device="meta"))
    y.sum().backward()
    assert x.grad.numel() > 1 << 31
    x = torch.randn((1 << 16) + 1, 2)
    assert torch.allclose(ops.layer_norm(x, [2])[-1], F.layer_norm(x[-1], [2]), atol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_11_strided_gradients(case: Case):
    """https://github.com/unslothai/unsloth/pull/10617: 254 of 472 layouts failed."""
    arguments = case.arguments(torch.float64)
    result = case.op(*arguments)
    scale = torch.randn_like(result)
    want = torch.autograd.grad(result, arguments, scale, retain_graph=True)
    padded = torch.zeros([2 * n + 1 for n in scale.shape], dtype=scale.dtype)
    strided = padded[tuple(slice(1, None, 2) for _ in scale.shape)]
    strided.copy_(scale)
    for gradient in (strided, scale.mT.contiguous().mT if scale.dim() > 1 else scale):
        for a, b in zip(torch.autograd.grad(result, arguments, gradient, retain_graph=True), want):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-12)


def test_12_empty_batch():
    """https://github.com/Dao-AILab/flash-attention/issues/1620: an error that shows up later."""
    modules = [nn.LayerNorm(64), nn.Attention(64, 4, dropout=0.1), nn.Dropout(0.1), nn.MLP(64, 96)]
    model = torch.nn.Sequential(*modules, nn.RMSNorm(64), nn.SwiGLU(64, 96))
    for shape in ((0, 8, 64), (2, 0, 64)):
        y = model(torch.randn(shape))
        y.sum().backward()
        assert y.shape == shape and not any(p.grad.any() for p in model.parameters())


@pytest.mark.parametrize("operator", [ops.layer_norm, ops.tempo_layer_norm])
def test_13_constant_rows_in_half(operator):
    """https://github.com/pytorch/pytorch/issues/41527: eps 1e-12, which is zero in fp16."""
    x = torch.full((2, 128), 3.0, dtype=torch.float16, requires_grad=True)
    weight = torch.ones(128, dtype=torch.float16, requires_grad=True)
    bias = torch.zeros(128, dtype=torch.float16, requires_grad=True)
    y = operator(x, [128], weight, bias, 1e-12)
    y.sum().backward()
    for tensor in (y, x.grad, weight.grad, bias.grad):
        assert tensor.isfinite().all()


def test_14_the_mask_was_used_again():
    """https://github.com/Dao-AILab/flash-attention/issues/314: every layer dropped the same."""
    x = torch.ones(4096)
    masks = [ops.dropout(x, 0.5, True) != 0 for _ in range(4)]
    for i, a in enumerate(masks):
        for b in masks[:i]:
            assert abs(int((a == b).sum()) - 2048) < 5 * 32
    # Its own numbers in every head, sequence and layer; the seed is a value, not an address.
    heads = [torch.randn(1, 1, 16, 8).expand(2, 4, 16, 8) for _ in range(3)]
    for operator in (ops.attention, ops.tempo_attention):
        y = operator(*heads, None, 0.5).flatten(0, 1)
        assert len({tuple(h.flatten().tolist()) for h in y}) == 8
        assert not torch.equal(y, operator(*heads, None, 0.5).flatten(0, 1))
        torch.manual_seed(1)
        y = operator(*heads, None, 0.5)
        torch.manual_seed(1)
        assert torch.equal(y, operator(*[h.clone() for h in heads], None, 0.5))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_15_results_leaked(case: Case):
    """https://github.com/pytorch/pytorch/issues/25340: a node that holds its own output."""
    gc.disable()
    try:
        arguments = case.arguments()
        result = case.op(*arguments)
        node = result.grad_fn
        alive = weakref.ref(result), weakref.ref(arguments[0])
        if case.name != "dropout_eval":
            assert node is not None
        del result, node, arguments
        assert alive[0]() is None and alive[1]() is None
        y = ops.linear(ops.gelu(torch.randn(3, 4, requires_grad=True)), torch.randn(4, 4))
        alive = weakref.ref(y)
        y.sum().backward()
        del y
        assert alive() is None
    finally:
        gc.enable()


def test_16_another_device():
    """https://github.com/NVIDIA/apex/issues/1022: the current device in place of the tensor's.

    The kernels of this library run on the CPU and take no stream; elsewhere torch's operators do
    the work, which follow the tensors. What remains is to refuse a mixture.
    """
    x, meta = torch.randn(3, 16), torch.randn(16, 16, device="meta")
    for call in (
        lambda: ops.layer_norm(x, [16], meta[0], meta[0]),
        lambda: ops.silu_mul(x, torch.empty(3, 16, device="meta")),
    ):
        with pytest.raises(RuntimeError, match="expected .* on cpu .*, got meta"):
            call()
    if torch.cuda.is_available():
        for device in range(torch.cuda.device_count()):
            tensor = torch.randn(3, 16, device=f"cuda:{device}", requires_grad=True)
            y = ops.gelu(ops.layer_norm(tensor, [16]))
            y.sum().backward()
            assert tensor.grad.device == y.device == tensor.device


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_17_requires_grad_read_in_forward(use_reentrant):
    """https://github.com/verl-project/verl/pull/6913: a reentrant checkpoint froze the backbone."""
    block = torch.nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16))
    x = torch.randn(3, 16, requires_grad=True)
    checkpoint(block, x, use_reentrant=use_reentrant).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in block.parameters())
    want = [p.grad.clone() for p in block.parameters()]
    for frozen in range(len(want)):
        for i, p in enumerate(block.parameters()):
            p.grad = None
            p.requires_grad_(i != frozen)
        checkpoint(block, x, use_reentrant=use_reentrant).sum().backward()
        for i, p in enumerate(block.parameters()):
            assert (p.grad is None) if i == frozen else torch.allclose(p.grad, want[i], atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_18_the_input_was_overwritten(case: Case):
    """https://github.com/huggingface/pytorch-image-models/pull/156: it did not converge."""
    arguments = case.arguments()
    before = [a.detach().clone() for a in arguments]
    result = case.op(*arguments)
    kept = result.detach().clone()
    result.sum().backward()
    assert torch.equal(result, kept)
    for argument, value in zip(arguments, before):
        assert torch.equal(argument, value)


def test_19_views_of_one_storage_were_confused():
    """https://github.com/modelscope/ms-swift/pull/10157: offloading took a view for its storage."""
    model, ids = palmist.patch(tiny_model("gpt2")), tokens()
    want = backward_of(model, model(ids, labels=ids).loss)
    with torch.autograd.graph.save_on_cpu():
        loss = model(ids, labels=ids).loss
    assert worst_difference(want, backward_of(model, loss)) < 1e-6
    # Queries, keys and values are views of one product, which is counted once.
    attention = model.transformer.h[0].attn.c_attn
    saved = palmist.saved_bytes(
        lambda x: ops.gelu(attention(x)).split(64, -1)[1] * 1, torch.randn(2, 64)
    )
    assert saved.total_bytes == 2 * 192 * FLOAT
