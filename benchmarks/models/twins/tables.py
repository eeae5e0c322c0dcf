"""Twins of the models that look up rows: tables of embeddings, and graphs."""

import itertools

import torch
from torch import nn
from torch.nn import functional

from benchmarks.models import dlrm, gnn
from benchmarks.models.twins.training import Loss


def _layers(widths, last):
    """Return linear layers with relu after each but the last, which is followed by `last`."""
    parts = []
    for inputs, outputs in itertools.pairwise(widths):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*parts[:-1], *last)


class DLRM(nn.Module):
    """As its authors' code has it: gradients of the tables are sparse."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(dlrm.ROWS, dlrm.WIDTH, mode="sum", sparse=True)
            for _ in range(dlrm.TABLES)
        )
        self.bottom, self.top = _layers(dlrm.BOTTOM, [nn.ReLU()]), _layers(dlrm.TOP, [])
        self.register_buffer("below", torch.tril_indices(dlrm.TABLES + 1, dlrm.TABLES + 1, -1))

    def forward(self, numbers, chosen):
        x = self.bottom(numbers)
        found = [table(chosen[:, i, None]) for i, table in enumerate(self.tables)]
        vectors = torch.stack([x, *found], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        pairs = products[:, self.below[0], self.below[1]]
        return torch.sigmoid(self.top(torch.cat([x, pairs], 1))[:, 0])


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        widths = (gnn.FEATURES, gnn.HIDDEN, gnn.HIDDEN, gnn.CLASSES)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        degree = torch.ones(gnn.NODES).index_add(0, target, torch.ones(gnn.EDGES))
        share = degree.rsqrt()[:, None]
        for i, layer in enumerate(self.layers):
            x = layer(x) * share
            x = x.index_add(0, target, x[source]) * share
            x = functional.relu(x) if i < len(self.layers) - 1 else x
        return x


TWINS = {
    "dlrm": lambda numbers, chosen: (DLRM(), [torch.from_numpy(numbers), torch.from_numpy(chosen)]),
    "dlrm_train": lambda numbers, chosen, labels: (
        Loss(DLRM(), nn.BCELoss()),
        [torch.from_numpy(numbers), torch.from_numpy(chosen), torch.from_numpy(labels).float()],
    ),
    "gcn": lambda x, edges: (GCN(), [torch.from_numpy(x), torch.from_numpy(edges).long()]),
    "gcn_train": lambda x, edges, labels: (
        Loss(GCN(), nn.CrossEntropyLoss()),
        [torch.from_numpy(x), *(torch.from_numpy(i).long() for i in (edges, labels))],
    ),
}
