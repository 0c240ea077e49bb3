"""What tests beside PyTorch and Hugging Face share: how near is near, models of which every weight matters, theirs."""

import pytest
import torch
from torch import nn

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
exact_or_not = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def shaken(model: nn.Module) -> nn.Module:
    """The model with every weight drawn, and what batch norms counted: a gain of 1, a bias or a table of 0 would not
    show where they are left out."""
    for weight in model.parameters():
        nn.init.normal_(weight, std=weight[0].numel() ** -0.5 if weight.ndim > 1 else 0.5)
    for part in model.modules():
        if hasattr(part, "running_var"):
            part.running_var.uniform_(0.5, 2)
            part.running_mean.normal_()
    return model


def hf_model(kind: str, **config) -> nn.Module:
    """A new model of Hugging Face's, by the name of its class and its configuration, in evaluation mode."""
    import transformers

    made = getattr(transformers, kind)
    return made(made.config_class(**config)).eval()
