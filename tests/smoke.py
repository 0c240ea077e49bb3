"""The one smoke run of an experiment: with its sizes cut it ends, names what its record names, and repeats itself.

Each lesson's tests cut the sizes in a fixture, and run `smoke` over `experiments_of` their records.
"""

import pytest
from torch.utils._pytree import tree_leaves

from course_lib.workshop.experiments import Experiment, __main__, record


def experiments_of(*slugs: str, leave_out: tuple[str, ...] = ()):
    """Parametrise a test by all experiments of these records, as `one`."""
    every = [one for slug in slugs for one in __main__.experiments(slug) if one.name not in leave_out]
    return pytest.mark.parametrize("one", every, ids=[f"{one.slug}-{one.name}" for one in every])


def smoke(one: Experiment) -> dict:
    """Run its first variant with seed 0: numbers, none of them nan or infinite, under names that its record has; run
    it again, and they are the same, but for seconds."""
    variant = one.variants[0]
    found = one(0, **variant)
    recorded = {name for run in record.read(one.slug)[one.name]["runs"] for name in run["result"]}
    assert found and found.keys() <= recorded
    assert not {"nan", "inf", "-inf"} & {*tree_leaves(found)}
    if "econds" not in one.what and "seconds" not in found:
        assert one(0, **variant) == found
    return found


def parts(model) -> dict:
    """A copy of every weight of a model, by name."""
    return {name: part.clone() for name, part in model.state_dict().items()}


def same(one: dict, other: dict) -> bool:
    """Whether these are the same weights under the same names."""
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)
