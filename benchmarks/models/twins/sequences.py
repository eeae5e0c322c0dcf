"""Twins of the models of sequences that are not transformers."""

import torch
from torch import nn
from torch.nn import functional

from benchmarks.models import lstm, wavenet


class Words(nn.Module):
    """The LSTM for words, in the order `[length, batch]`."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(lstm.VOCABULARY, lstm.WIDTH)
        self.layers = nn.LSTM(lstm.WIDTH, lstm.WIDTH, lstm.LAYERS)
        self.head = nn.Linear(lstm.WIDTH, lstm.VOCABULARY)

    def forward(self, words):
        return self.head(self.layers(self.words(words.T))[0])


class WordsLoss(Words):
    def forward(self, words):
        logits = super().forward(words)[:-1]
        return functional.cross_entropy(logits.flatten(0, 1), words.T[1:].flatten())


class WaveNetLayer(nn.Module):
    """Returns the residual sum and what the output gets, of `[batch, features, length]`."""

    def __init__(self, dilation):
        super().__init__()
        width = wavenet.WIDTH
        self.window = nn.Conv1d(width, 2 * width, 2, dilation=dilation)
        self.out, self.skip = nn.Conv1d(width, width, 1), nn.Conv1d(width, wavenet.SKIP, 1)
        self.dilation = dilation

    def forward(self, x):
        left, right = self.window(functional.pad(x, (self.dilation, 0))).chunk(2, 1)
        y = torch.tanh(left) * torch.sigmoid(right)
        return x + self.out(y), self.skip(y)


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.classes = nn.Embedding(wavenet.CLASSES, wavenet.WIDTH)
        self.layers = nn.ModuleList(WaveNetLayer(d) for d in wavenet.DILATIONS)
        self.hidden = nn.Conv1d(wavenet.SKIP, wavenet.SKIP, 1)
        self.head = nn.Conv1d(wavenet.SKIP, wavenet.CLASSES, 1)

    def forward(self, samples):
        x, total = self.classes(samples).transpose(1, 2), 0.0
        for layer in self.layers:
            x, skipped = layer(x)
            total = total + skipped
        hidden = functional.relu(self.hidden(functional.relu(total)))
        return self.head(hidden).transpose(1, 2)


TWINS = {
    "lstm_words": lambda words: (Words(), [torch.from_numpy(words)]),
    "lstm_words_train": lambda words: (WordsLoss(), [torch.from_numpy(words).long()]),
    "wavenet": lambda samples: (WaveNet(), [torch.from_numpy(samples)]),
}
