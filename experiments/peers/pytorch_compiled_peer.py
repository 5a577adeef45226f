"""The block in PyTorch by torch.compile: compiled once, weights and caches are arguments."""

import torch

import pytorch_peer

NAME = f"{pytorch_peer.NAME}, compiled"
# Prepacked weights would have to be constants of the graph: one compilation for each block.
WAYS = {name: way for name, way in pytorch_peer.WAYS.items() if name != "onednn_prepacked"}


class Peer(pytorch_peer.Peer):
    def __init__(self, shape, variant, way, dtype):
        super().__init__(shape, variant, way, dtype)
        self.block = torch.compile(self.block, fullgraph=True, dynamic=False)
