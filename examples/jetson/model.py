"""Exports torchvision's mobilenet_v3_large for camera.cpp: one image f32[1, 3, 224, 224] -> 1000 scores.

Without a network the weights are drawn at random: as fast, but the class says nothing.
"""
import torch
import torchvision

try:
    model = torchvision.models.mobilenet_v3_large(weights="DEFAULT")
except OSError as error:
    print(f"no trained weights ({error}): random ones")
    torch.manual_seed(0)
    model = torchvision.models.mobilenet_v3_large()
image = torch.zeros(1, 3, 224, 224)
torch.export.save(torch.export.export(model.eval(), (image,)), "camera.pt2")
