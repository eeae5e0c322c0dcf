"""Twins in PyTorch of the main models, as its users write them: same layers, sizes and inputs.

Weights are random too, but others: they are compared by the shape of the results. Images are in
PyTorch's order of dimensions, in memory with the features last, which is its fastest way on a CPU.
"""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.models import bert, gpt2, mobilenet, resnet, vit
from benchmarks.models.model import Model, Weights


def load(model: Model) -> Any:
    """Return the module of a model in evaluation mode, and its inputs as tensors."""
    torch.manual_seed(0)
    inputs = model.inputs(Weights(np.random.default_rng(0), "float32"), model.batch)
    module, tensors = TWINS[model.twin](*inputs)
    module = module.eval().requires_grad_(False)
    if model.dtype == "bfloat16":
        module = module.to(torch.bfloat16)
        tensors = [t.to(torch.bfloat16) if t.is_floating_point() else t for t in tensors]
    return module, tensors


def leaves(result: Any) -> Any:
    """Return the tensors of a result."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [leaf for part in result for leaf in leaves(part)]


def _image(make):
    """Return a maker of a twin whose input is an array of images."""

    def twin(images):
        tensor = torch.from_numpy(images).permute(0, 3, 1, 2)
        return make().to(memory_format=torch.channels_last), [tensor]

    return twin


# ---------------------------------------------------------------- convolutions


def _layer(inputs, outputs, window, stride=1, groups=1, activation=None):
    convolution = nn.Conv2d(inputs, outputs, window, stride, window // 2, groups=groups, bias=False)
    parts = [convolution, nn.BatchNorm2d(outputs)]
    return nn.Sequential(*parts, *([activation()] if activation else []))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            _layer(inputs, width, 1, activation=nn.ReLU),
            _layer(width, width, 3, stride, activation=nn.ReLU),
            _layer(width, 4 * width, 1),
        )
        same = inputs == 4 * width
        self.skip = nn.Identity() if same else _layer(inputs, 4 * width, 1, stride)

    def forward(self, x):
        return functional.relu(self.body(x) + self.skip(x))


def _resnet():
    parts, features = [_layer(3, 64, 7, 2, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for stage, (width, count) in enumerate(resnet.STAGES):
        for i in range(count):
            parts.append(Bottleneck(features, width, 2 if stage > 0 and i == 0 else 1))
            features = 4 * width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, 1000)]
    return nn.Sequential(*parts, *head)


class Squeeze(nn.Module):
    def __init__(self, width):
        super().__init__()
        low = (width // 4 + 4) // 8 * 8
        self.body = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(width, low, 1),
            nn.ReLU(),
            nn.Conv2d(low, width, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x):
        return x * self.body(x)


class Inverted(nn.Module):
    def __init__(self, inputs, window, inner, outputs, squeezed, swish, stride):
        super().__init__()
        activation = nn.Hardswish if swish else nn.ReLU
        self.body = nn.Sequential(
            _layer(inputs, inner, 1, activation=activation),
            _layer(inner, inner, window, stride, inner, activation),
            *([Squeeze(inner)] if squeezed else []),
            _layer(inner, outputs, 1),
        )
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def _mobilenet():
    parts, features = [_layer(3, 16, 3, 2, activation=nn.Hardswish)], 16
    for block in mobilenet.BLOCKS:
        parts.append(Inverted(features, *block))
        features = block[2]
    parts += [_layer(features, 960, 1, activation=nn.Hardswish), nn.AdaptiveAvgPool2d(1)]
    head = [nn.Flatten(), nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
    return nn.Sequential(*parts, *head)


# ---------------------------------------------------------------- transformers


def _heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


class Block(nn.Module):
    """A transformer block; `after` puts the norms after the sums."""

    def __init__(self, width, heads, gelu="none", after=False, causal=False):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.gelu, self.after, self.causal = heads, gelu, after, causal

    def attend(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)

    def mix(self, x):
        q, k, v = (_heads(part, self.heads) for part in self.qkv(x).chunk(3, -1))
        self.last = (k, v)
        return self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def feed(self, x):
        return self.down(functional.gelu(self.up(x), approximate=self.gelu))

    def forward(self, x):
        if self.after:
            x = self.norm1(x + self.mix(x))
            return self.norm2(x + self.feed(x))
        x = x + self.mix(self.norm1(x))
        return x + self.feed(self.norm2(x))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, vit.WIDTH, vit.PATCH, vit.PATCH)
        self.first = nn.Parameter(torch.zeros(1, 1, vit.WIDTH))
        self.positions = nn.Parameter(torch.randn(1, 197, vit.WIDTH))
        self.blocks = nn.Sequential(*(Block(vit.WIDTH, vit.HEADS) for _ in range(vit.LAYERS)))
        self.norm, self.head = nn.LayerNorm(vit.WIDTH), nn.Linear(vit.WIDTH, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        width = vit.WIDTH
        self.tokens = nn.Embedding(bert.VOCABULARY, width)
        self.positions, self.segments = nn.Embedding(512, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        blocks = (Block(width, vit.HEADS, after=True) for _ in range(vit.LAYERS))
        self.blocks, self.pool = nn.Sequential(*blocks), nn.Linear(width, width)

    def forward(self, tokens, segments):
        places = torch.arange(tokens.shape[1])
        x = self.tokens(tokens) + self.positions(places) + self.segments(segments)
        x = self.blocks(self.norm(x))
        return x, torch.tanh(self.pool(x[:, 0]))


class GPT2(nn.Module):
    """What prefill and decoding share."""

    def __init__(self, make):
        super().__init__()
        self.tokens = nn.Embedding(gpt2.VOCABULARY, gpt2.WIDTH)
        self.positions = nn.Embedding(gpt2.POSITIONS, gpt2.WIDTH)
        self.blocks, self.norm = nn.ModuleList(make() for _ in range(12)), nn.LayerNorm(gpt2.WIDTH)

    def logits(self, tokens, places):
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x)[:, -1], self.tokens.weight)


class GPT2Prefill(GPT2):
    """The last token's logits, and keys and values of all blocks."""

    def __init__(self):
        super().__init__(lambda: Block(gpt2.WIDTH, gpt2.HEADS, "tanh", causal=True))

    def forward(self, tokens):
        found = self.logits(tokens, torch.arange(tokens.shape[1]))
        return found, [block.last for block in self.blocks]


class CachedBlock(Block):
    """A block that writes key and value into its caches, and attends to what is in them."""

    def __init__(self, batch):
        super().__init__(gpt2.WIDTH, gpt2.HEADS, "tanh")
        shape = (batch, gpt2.HEADS, gpt2.POSITIONS, gpt2.WIDTH // gpt2.HEADS)
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def attend(self, q, k, v):
        self.keys.index_copy_(2, self.at, k)
        self.values.index_copy_(2, self.at, v)
        mask = (torch.arange(gpt2.POSITIONS) <= self.at)[None, None, None]
        return functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)


class GPT2Decode(GPT2):
    """The logits after one more token."""

    def __init__(self, batch):
        super().__init__(lambda: CachedBlock(batch))

    def forward(self, token, at):
        for block in self.blocks:
            block.at = at
        return self.logits(token, at)


TWINS = {
    "resnet50": _image(_resnet),
    "mobilenet": _image(_mobilenet),
    "vit": _image(ViT),
    "bert": lambda *inputs: (Bert(), [torch.from_numpy(i) for i in inputs]),
    "gpt2_prefill": lambda tokens: (GPT2Prefill(), [torch.from_numpy(tokens)]),
    "gpt2_decode": lambda token, at, caches: (
        GPT2Decode(len(token)),
        [torch.from_numpy(token), torch.tensor([int(at)])],
    ),
}
"""By name: functions of the inputs that return module and tensors."""
