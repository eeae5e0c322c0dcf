"""Twins of the models of images."""

import math

import torch
from torch import nn
from torch.nn import functional

from benchmarks.models import mobilenet, resnet, unet
from benchmarks.models.twins.training import Loss


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


def _resnet(stages):
    parts, features = [_layer(3, 64, 7, 2, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for stage, (width, count) in enumerate(stages):
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


# ---------------------------------------------------------------- U-Net


class TimedBlock(nn.Module):
    """Two convolutions; the time of the diffusion is added between them."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1 = nn.GroupNorm(unet.GROUPS, inputs, 1e-6)
        self.norm2 = nn.GroupNorm(unet.GROUPS, outputs, 1e-6)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(4 * unet.BASE, outputs)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        h = self.conv1(functional.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.conv2(functional.silu(self.norm2(h))) + self.skip(x)


class Mix(nn.Module):
    """Attention of one head over the places of an image."""

    def __init__(self, features):
        super().__init__()
        self.norm = nn.GroupNorm(unet.GROUPS, features, 1e-6)
        self.qkv, self.out = nn.Conv2d(features, 3 * features, 1), nn.Conv2d(features, features, 1)

    def forward(self, x):
        flat = self.qkv(self.norm(x)).flatten(2).transpose(1, 2)[:, None]
        mixed = functional.scaled_dot_product_attention(*flat.chunk(3, -1))
        return x + self.out(mixed[:, 0].transpose(1, 2).reshape(x.shape))


class TimedLevel(nn.Module):
    """The blocks of one size of image; `inputs` has the features that enter each."""

    def __init__(self, size, inputs, outputs):
        super().__init__()
        mixes = size == unet.ATTENTION_SIZE
        self.blocks = nn.ModuleList(TimedBlock(i, outputs) for i in inputs)
        self.mixes = nn.ModuleList(Mix(outputs) if mixes else nn.Identity() for _ in inputs)

    def forward(self, x, time, kept):
        """Return the image; a list `kept` of `down` grows, one of `up` is used up."""
        for block, mix in zip(self.blocks, self.mixes, strict=True):
            x = mix(block(x, time))
            kept.append(x)
        return x


class UpLevel(TimedLevel):
    def forward(self, x, time, kept):
        for block, mix in zip(self.blocks, self.mixes, strict=True):
            x = mix(block(torch.cat([x, kept.pop()], 1), time))
        return x


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        base, levels = unet.BASE, unet.LEVELS
        self.time = nn.Sequential(
            nn.Linear(base, 4 * base), nn.SiLU(), nn.Linear(4 * base, 4 * base)
        )
        self.stem = nn.Conv2d(3, base, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        self.smaller, self.larger = nn.ModuleList(), nn.ModuleList()
        kept, features, size = [base], base, unet.SIZE
        for i, width in enumerate(levels):
            inputs = [features] + [width] * (unet.BLOCKS - 1)
            self.down.append(TimedLevel(size, inputs, width))
            kept += [width] * unet.BLOCKS
            features = width
            if i < len(levels) - 1:
                self.smaller.append(nn.Conv2d(width, width, 3, 2, 1))
                kept.append(width)
                size //= 2
        self.middle = nn.ModuleList([TimedBlock(features, features) for _ in range(2)])
        self.mix = Mix(features)
        for i, width in reversed(list(enumerate(levels))):
            inputs = []
            for _ in range(unet.BLOCKS + 1):
                inputs.append(features + kept.pop())
                features = width
            self.up.append(UpLevel(size, inputs, width))
            if i:
                self.larger.append(nn.Conv2d(width, width, 3, padding=1))
            size *= 2
        self.norm = nn.GroupNorm(unet.GROUPS, features, 1e-6)
        self.head = nn.Conv2d(features, 3, 3, padding=1)

    def forward(self, x, steps):
        half = unet.BASE // 2
        angles = steps[:, None] * torch.exp(-math.log(10000.0) / (half - 1) * torch.arange(half))
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        x = self.stem(x)
        kept = [x]
        for i, level in enumerate(self.down):
            x = level(x, time, kept)
            if i < len(self.smaller):
                x = self.smaller[i](x)
                kept.append(x)
        first, last = self.middle
        x = last(self.mix(first(x, time)), time)
        for i, level in enumerate(self.up):
            x = level(x, time, kept)
            if i < len(self.larger):
                x = self.larger[i](functional.interpolate(x, scale_factor=2))
        return self.head(functional.silu(self.norm(x))).permute(0, 2, 3, 1)


def image(make):
    """Return a maker of a twin whose first input is an array of images."""

    def twin(images, *others):
        tensor = torch.from_numpy(images).permute(0, 3, 1, 2)
        return make().to(memory_format=torch.channels_last), [
            tensor,
            *(torch.from_numpy(other).long() for other in others),
        ]

    return twin


TWINS = {
    "resnet50": image(lambda: _resnet(resnet.STAGES)),
    "resnet50_4_blocks_train": image(lambda: Loss(_resnet(resnet.ONE_EACH), nn.CrossEntropyLoss())),
    "mobilenet": image(_mobilenet),
    "unet": image(UNet),
}
