"""Exports a small model for hello.c: any number of rows of four numbers -> as many rows of four."""

import torch


class Hello(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))


torch.manual_seed(0)
rows = torch.export.Dim("rows", min=1, max=1024)
program = torch.export.export(Hello().eval(), (torch.ones(2, 4),), dynamic_shapes=({0: rows},))
torch.export.save(program, "hello.pt2")
