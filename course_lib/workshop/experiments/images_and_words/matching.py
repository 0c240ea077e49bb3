"""Lesson 11: is it this picture's name? Taught with wrong names drawn at random, or with those likely to CLIP."""

import torch
from torch import Tensor

from course_lib.data.glyph_names import hits, learned_names, named
from course_lib.multimodal.clip import CLIP
from course_lib.workshop.experiments import experiment
from course_lib.workshop.experiments.images_and_words.captions import EYES, eyes, seen
from course_lib.workshop.experiments.images_and_words.core import HERE, fitted, made, new_names
from course_lib.workshop.recipes.glyph_captions import BATCH, chosen, learned, looked_at
from course_lib.workshop.recipes.glyph_matching import RATE, RIVALS, Matcher, match_loss, matched, pairs, rivals
from course_lib.workshop.recipes.glyph_names import scored

ASKED = 400  # images of a part, evenly spaced


def taught(wrong: Tensor, seed: int) -> Matcher:
    """A matcher, trained with these wrong names of the training images, (N, K)."""
    return learned(made(seed, Matcher), pairs(seen("train"), wrong, BATCH, seed), match_loss, lr=RATE)[0]


@torch.no_grad()
def judged(model: Matcher, clip: CLIP, part: str, among: Tensor, generator: torch.Generator) -> dict:
    """Shares of a part's images whose own name scores above a wrong one; and CLIP's ten best names in its order."""
    known = chosen(named(part), torch.linspace(0, len(named(part).own) - 1, ASKED).long().tolist())
    grids, scores = looked_at(eyes(), known).images, scored(clip, known, among)
    own = matched(model, grids, known.own[:, None])
    found = {}
    for kind, by in (("any", torch.rand(scores.shape, generator=generator)), ("likely", scores)):
        found[f"above {kind}"] = (own > matched(model, grids, rivals(known, among, by, 1))).double().mean()
    best = scores.topk(RIVALS, dim=1).indices  # (N, 10), places in `among`
    right = known.right[:, among].gather(1, best)
    found["CLIP's first"] = right[:, 0].double().mean()
    found["CLIP's ten"] = right.any(dim=1).double().mean()
    found["first of ten"] = hits(matched(model, grids, among[best]), right).double().mean()
    return found


@experiment(seeds=range(3), cpus=HERE, files=EYES)
def matching(seed):
    """How often a name that fits scores above one that does not, and what becomes of CLIP's ten best names."""
    clip, old = fitted(made(seed), seed, looks=False)[0], learned_names().nonzero().flatten()
    generator, known, results = torch.Generator().manual_seed(seed), named("train"), {}
    likely = scored(clip, known, old)
    by_kind = {"any": rivals(known, old, torch.rand(likely.shape, generator=generator)),
               "likely": rivals(known, old, likely)}  # fmt: skip
    for kind, wrong in (by_kind | {"both": torch.cat(list(by_kind.values()), dim=1)}).items():
        model = taught(wrong, seed)
        results[kind] = {part: judged(model, clip, part, among, generator)
                         for part, among in (("new names", new_names()), ("new faces", old))}  # fmt: skip
    return results
