"""PyTorch modules on hloc beside PyTorch: results, gradients, training steps, refusals."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

import hloc.torch
from hloc.errors import UnsupportedError
from tests.tolerance import bounds

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # PyTorch warns of its own modules
]


class Attention(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.table, self.normal = nn.Embedding(10, 16), nn.LayerNorm(16)
        self.inputs, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        parts = self.inputs(self.normal(x)).chunk(3, -1)
        q, k, v = (part.reshape(2, 5, 2, 8).transpose(1, 2) for part in parts)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(found.transpose(1, 2).reshape(2, 5, 16))


class Convolutions(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.normal = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8)
        self.grouped = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4)
        self.last = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.normal(self.first(x))), 2)
        x = F.adaptive_avg_pool2d(F.silu(self.grouped(x)), 1).flatten(1)
        return F.log_softmax(self.last(x), -1)


class Decoder(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.up, self.groups = nn.ConvTranspose2d(8, 8, 3, 2, 1, 1, groups=2), nn.GroupNorm(2, 8)

    def forward(self, x: Any) -> Any:
        x = F.interpolate(F.avg_pool2d(F.gelu(self.up(x)), 3, 2, 1), scale_factor=2)
        return self.groups(x)


class Indices(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any, i: Any) -> Any:
        y = x.clone()
        y[i] = 0.5
        y[:, 1:3] += 1
        return (
            x[i], x.gather(1, i[None] % 3), x[:, i], y, x.scatter_add(1, i[None] % 3, x),
            torch.cumsum(x, 1), x.sort(1)[0], x.topk(2)[1], x.argmax(1), x.amin(0),
            x.masked_fill(x < 0, -1), torch.where(x > 0, x, -(x**2)), torch.tril(x @ x.T),
        )  # fmt: skip


class Numbers(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any, n: Any) -> Any:
        return (
            (x * 3).remainder(2.0), x.floor(), torch.atan(x), x.std(0), torch.logsumexp(x, 1),
            n // 3, n % 3, -n // 2, n << 2, n & 5, (x > 0).any(1), x.long(), x.bool(), 2 - x,
            torch.erfinv(x / 9), torch.lgamma(x.abs() + 1), x.to(torch.bfloat16) * 2, x.half() + n,
            torch.einsum("ij,kj->ik", x, x), F.pad(x, (1, 2)), x.repeat(2, 1), x.flip(0),
            torch.stack([x, x]).unbind(1)[0], F.softmax(x, 0), x.trunc(), torch.fmod(x, 2),
        )  # fmt: skip


def inputs(name: str) -> tuple[Any, ...]:
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    return {
        "Attention": (torch.randint(0, 10, (2, 5)),),
        "Convolutions": (torch.randn(2, 3, 16, 16),),
        "Decoder": (torch.randn(2, 8, 5, 5),),
        "Indices": (x, torch.tensor([0, 2, 1])),
        "Numbers": (x, torch.tensor([[-4], [5], [7], [-9]])),
        "LSTM": (torch.randn(5, 2, 4),),
        "TransformerEncoderLayer": (torch.randn(2, 5, 16),),
    }[name]


MODULES: dict[str, Callable[[], Any]] = {
    "Attention": Attention,
    "Convolutions": Convolutions,
    "Decoder": Decoder,
    "Indices": Indices,
    "Numbers": Numbers,
    "LSTM": lambda: nn.LSTM(4, 8),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
}


def leaves(value: Any) -> list[Any]:
    found: list[Any] = torch.utils._pytree.tree_leaves(value)
    return found


def check_close(ours: Any, theirs: Any, row: str = "PyTorch") -> None:
    for x, y in zip(leaves(ours), leaves(theirs), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        torch.testing.assert_close(x.float(), y.float(), **bounds(row))


@pytest.mark.parametrize("name", MODULES)
def test_a_compiled_module_gives_the_results_of_pytorch(name: str) -> None:
    arguments = inputs(name)
    module = MODULES[name]().eval()
    compiled = hloc.torch.compile(module, arguments)
    with torch.no_grad():
        check_close(compiled(*arguments), module(*arguments))


@pytest.mark.parametrize("name", MODULES)
def test_constant_weights_give_the_results_of_pytorch(name: str) -> None:
    arguments = inputs(name)
    module = MODULES[name]().eval()
    compiled = hloc.torch.compile(module, arguments, constant_weights=True)
    assert len(compiled.module.entry.parameters) == len(arguments)
    with torch.no_grad():
        check_close(compiled(*arguments), module(*arguments))


def test_buffers_that_a_call_changes_are_no_constants() -> None:
    x = torch.randn(4, 3)
    normal, other = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    compiled = hloc.torch.compile(normal, (x,), constant_weights=True)
    with torch.no_grad():
        for _ in range(2):
            check_close(compiled(x), other(x))
    assert len(compiled.module.entry.parameters) == 4  # mean, variance, count, x


def test_later_changes_of_weights_count() -> None:
    module = nn.Linear(3, 2)
    x = torch.ones(1, 3)
    compiled = hloc.torch.compile(module, (x,))
    with torch.no_grad():
        module.weight.zero_()
        check_close(compiled(x), module.bias[None])


@pytest.mark.parametrize("name", ["Attention", "Convolutions", "LSTM"])
def test_three_training_steps_give_the_weights_of_pytorch(name: str) -> None:
    (x,) = inputs(name)
    module = MODULES[name]()
    twin = copy.deepcopy(module)
    compiled = torch.compile(module, backend=hloc.torch.backend)
    for function, parameters in ((compiled, module.parameters()), (twin, twin.parameters())):
        optimizer = torch.optim.SGD(parameters, 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            result = leaves(function(x))[0]
            weights = torch.arange(result.numel()).reshape(result.shape) / result.numel()
            (result * weights).sum().backward()
            optimizer.step()
    check_close(module.state_dict(), twin.state_dict(), "PyTorch training")


def test_other_shapes_are_compiled_when_they_come() -> None:
    function = torch.compile(lambda x: F.softmax(x @ x.T, -1), backend=hloc.torch.backend)
    for rows in (3, 5, 4):
        x = torch.randn(rows, 6)
        check_close(function(x), F.softmax(x @ x.T, -1))


def test_an_operator_that_is_missing_is_named() -> None:
    class Inverse(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return torch.linalg.eigvals(x)

    with pytest.raises(UnsupportedError, match=r"no lowering for aten\.linalg_eig\."):
        hloc.torch.compile(Inverse(), (torch.eye(3),))


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(Exception, match="hloc has no option speed"):
        torch.compile(lambda x: x + 1, backend=hloc.torch.backend, options={"speed": 9})(
            torch.ones(2)
        )


def test_the_backend_is_found_by_its_name() -> None:
    if "hloc" not in torch._dynamo.list_backends():
        pytest.skip("hloc is not installed as a package here")
    check_close(torch.compile(torch.sin, backend="hloc")(torch.ones(2)), torch.sin(torch.ones(2)))
