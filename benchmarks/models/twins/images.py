"""Twins of the models of images."""

import torch
from torch import nn
from torch.nn import functional

from benchmarks.models import mobilenet, resnet


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


def image(make):
    """Return a maker of a twin whose input is an array of images."""

    def twin(images):
        tensor = torch.from_numpy(images).permute(0, 3, 1, 2)
        return make().to(memory_format=torch.channels_last), [tensor]

    return twin


TWINS = {"resnet50": image(_resnet), "mobilenet": image(_mobilenet)}
