"""No module of the shelf is forgotten: each with a forward pass is compiled and tried on a device (models.py)."""

import importlib
import inspect

import pytest
import test_accelerator
import test_compile
import torch
from models import MODELS, NOT_COMPILED, OWN_CASES, PARTS, New
from torch import nn
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves, tree_map_only

from course_lib.lesson.syllabus import concepts


def modules() -> list[type]:
    """The modules that the shelf defines with a forward pass of their own, or heads that look in a way of their own;
    but for those that others are made from."""
    files = [importlib.import_module(f"course_lib.{name}") for name in concepts()]
    found = [
        one
        for file in files
        for one in vars(file).values()
        if inspect.isclass(one) and issubclass(one, nn.Module) and one.__module__ == file.__name__
    ]
    bases = {base for one in found for base in one.__mro__[1:] if base.__name__ in {"Stacked", "Attention", "Head"}}
    return [one for one in found if {"forward", "heads"} & vars(one).keys() and one not in bases]


@pytest.mark.parametrize("module", modules(), ids=lambda one: f"{one.__module__.rpartition('.')[2]}-{one.__name__}")
def test_every_module_is_compiled_and_tried_on_a_device(module):
    where = [module in cases for cases in (MODELS, OWN_CASES, NOT_COMPILED, PARTS)]
    assert sum(where) == 1, f"{module.__name__} needs an entry in MODELS of tests/models.py: how it is made and called"


@pytest.mark.parametrize("module", sorted(OWN_CASES, key=lambda one: one.__name__), ids=lambda one: one.__name__)
def test_a_module_with_cases_of_its_own_has_them_in_both_files(module):
    for tests in (test_compile, test_accelerator):
        assert module in vars(tests).values(), f"{module.__name__} is not tried in {tests.__name__}.py"


def test_what_is_not_there_any_more_has_no_entry():
    assert {*MODELS, *NOT_COMPILED, *PARTS} <= {*modules()}


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_same_numbers_on_cuda(kind):
    torch.manual_seed(0)
    drawn = New(
        lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True),
        lambda *shape: torch.randint(2, shape),
        lambda *shape: torch.rand(shape) < 0.7,
    )
    model, given = MODELS[kind].make().double(), MODELS[kind].given(drawn, 3)

    def answers(device: str) -> list[torch.Tensor]:
        model.to(device).zero_grad()
        out = tree_leaves(model(*tree_map_only(torch.Tensor, lambda one: one.to(device), given)))
        sum(one.square().sum() for one in out if one.is_floating_point()).backward()
        return [one.detach().cpu() for one in (*out, *(p.grad for p in model.parameters() if p.grad is not None))]

    assert_close(answers("cuda"), answers("cpu"), rtol=1e-9, atol=1e-9)
