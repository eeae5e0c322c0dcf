"""Twins of the transformers."""

import torch
from torch import nn
from torch.nn import functional

from benchmarks.models import bert, gpt2, llama, moe, vit
from benchmarks.models.twins.images import image


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
    """What prefill, decoding and training share."""

    def __init__(self, make, count=12):
        super().__init__()
        self.tokens = nn.Embedding(gpt2.VOCABULARY, gpt2.WIDTH)
        self.positions = nn.Embedding(gpt2.POSITIONS, gpt2.WIDTH)
        self.blocks = nn.ModuleList(make() for _ in range(count))
        self.norm = nn.LayerNorm(gpt2.WIDTH)

    def hidden(self, tokens, places):
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def logits(self, tokens, places):
        return functional.linear(self.hidden(tokens, places)[:, -1], self.tokens.weight)


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


class GPT2Loss(GPT2):
    """The loss of four blocks over the tokens after the first."""

    def __init__(self):
        super().__init__(lambda: Block(gpt2.WIDTH, gpt2.HEADS, "tanh", causal=True), 4)

    def forward(self, tokens):
        x = self.hidden(tokens[:, :-1], torch.arange(tokens.shape[1] - 1))
        logits = functional.linear(x, self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def _rotate(x, places):
    """Return RoPE of `[batch, heads, length, size]`."""
    half = x.shape[-1] // 2
    angles = places[:, None] * 500000.0 ** (-torch.arange(half) / half)
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    low, high = x.chunk(2, -1)
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1)


class LlamaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        width, inner, size = llama.WIDTH, llama.INNER, llama.SIZE
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.q, self.out = _linear(width, llama.HEADS * size), _linear(llama.HEADS * size, width)
        self.k, self.v = (_linear(width, llama.GROUPS * size) for _ in range(2))
        self.gate, self.up = _linear(width, inner), _linear(width, inner)
        self.down = _linear(inner, width)

    def attend(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def forward(self, x, places):
        y = self.norm1(x)
        q = _rotate(_heads(self.q(y), llama.HEADS), places)
        k = _rotate(_heads(self.k(y), llama.GROUPS), places)
        mixed = self.attend(q, k, _heads(self.v(y), llama.GROUPS))
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def _linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class CachedLlamaBlock(LlamaBlock):
    """A block that writes key and value into its caches, and attends to what is in them."""

    def __init__(self, batch):
        super().__init__()
        shape = (batch, llama.GROUPS, llama.CACHE, llama.SIZE)
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def attend(self, q, k, v):
        self.keys.index_copy_(2, self.at, k)
        self.values.index_copy_(2, self.at, v)
        mask = (torch.arange(llama.CACHE) <= self.at)[None, None, None]
        return functional.scaled_dot_product_attention(
            q, self.keys, self.values, attn_mask=mask, enable_gqa=True
        )


class Llama(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.blocks = nn.ModuleList(make() for _ in range(llama.BLOCKS))

    def forward(self, x, at=None):
        places = torch.arange(x.shape[1]) if at is None else at
        for block in self.blocks:
            block.at = at
            x = block(x, places)
        return x


class Experts(nn.Module):
    """Experts whose tokens are sent by products, as JAX has them."""

    def __init__(self):
        super().__init__()
        self.router = _linear(moe.WIDTH, moe.EXPERTS)
        self.up = nn.Parameter(torch.randn(moe.EXPERTS, moe.WIDTH, moe.INNER) * moe.WIDTH**-0.5)
        self.down = nn.Parameter(torch.randn(moe.EXPERTS, moe.INNER, moe.WIDTH) * moe.INNER**-0.5)

    def forward(self, x):
        shares, chosen = self.router(x).softmax(-1).topk(2)
        shares = shares / shares.sum(-1, keepdim=True)
        wanted = functional.one_hot(chosen, moe.EXPERTS).transpose(1, 2)
        flat = wanted.flatten(1, 2)
        place = (flat.cumsum(1) * flat - 1).reshape(wanted.shape)
        sent = (place[..., None] == torch.arange(moe.PLACES)).to(x.dtype)
        combine = torch.einsum("bstep,bts->btep", sent, shares)
        inputs = torch.einsum("btep,btd->ebpd", sent.sum(1), x).flatten(1, 2)
        hidden = functional.gelu(torch.bmm(inputs, self.up), approximate="tanh")
        outputs = torch.bmm(hidden, self.down).unflatten(1, (len(x), moe.PLACES))
        return torch.einsum("ebpd,btep->btd", outputs, combine)


TWINS = {
    "vit": image(ViT),
    "bert": lambda *inputs: (Bert(), [torch.from_numpy(i) for i in inputs]),
    "gpt2_prefill": lambda tokens: (GPT2Prefill(), [torch.from_numpy(tokens)]),
    "gpt2_decode": lambda token, at, caches: (
        GPT2Decode(len(token)),
        [torch.from_numpy(token), torch.tensor([int(at)])],
    ),
    "gpt2_4_blocks_train": lambda tokens: (GPT2Loss(), [torch.from_numpy(tokens).long()]),
    "llama_prefill": lambda x: (Llama(LlamaBlock), [torch.from_numpy(x)]),
    "llama_decode": lambda x, at, caches: (
        Llama(lambda: CachedLlamaBlock(len(x))),
        [torch.from_numpy(x), torch.tensor([int(at)])],
    ),
    "moe": lambda x: (Experts(), [torch.from_numpy(x)]),
}
