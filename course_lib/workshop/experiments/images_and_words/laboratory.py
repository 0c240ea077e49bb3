"""Lesson 11, one trained CLIP asked: classes by prompts, search both ways, what it reads, and how it is misled."""

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.data.glyph_names import Named, hits, learned_names, named, names
from course_lib.data.glyphs import parts_of
from course_lib.multimodal.clip import CLIP
from course_lib.multimodal.zero_shot import class_features
from course_lib.vision.images import shift
from course_lib.workshop.experiments import experiment
from course_lib.workshop.experiments.images_and_words.core import HERE, fitted, made, nearest_scored, new_names
from course_lib.workshop.recipes.glyph_names import candidates, features, name_ids, scored, tokenizer

TASKS = {"case": ("SMALL", "CAPITAL"), "script": ("LATIN", "GREEK", "CYRILLIC")}
PART_OF = {"script": 0, "case": 1, "letter": 2, "marks": 3}  # in what `parts_of` gives
RIDGE = 1.0


# --- classes by prompts: where it works, and where not


@cache
def class_of_names(task: str) -> Tensor:
    """The class of every name, 0 or 1 in its column: (V, K)."""
    classes = [TASKS[task].index(parts_of(name)[PART_OF[task]]) for name in names()]
    return F.one_hot(torch.tensor(classes), len(TASKS[task])).float()


def texts(model: CLIP, prompts: list[str]) -> Tensor:
    """Where prompts stand: (P, E)."""
    return features(model, "text", tokenizer().batch(prompts, start=True, end=True)[0])


def prompted(model: CLIP, task: str) -> dict[str, Tensor]:
    """A text for each class, (K, E): its word alone; the beginnings of names; the mean of all learned names of it."""
    classes = TASKS[task]
    other = TASKS["script" if task == "case" else "case"]
    begun = [[f"{one} {c} LETTER" if task == "case" else f"{c} {one} LETTER" for one in other] for c in classes]
    whole, old = texts(model, list(names())), learned_names()
    each_class = [whole[old & (class_of_names(task)[:, k] > 0)] for k in range(len(classes))]
    return {
        "its word": texts(model, list(classes)),
        "beginnings": class_features(torch.stack([texts(model, one) for one in begun])),
        "names": torch.cat([class_features(one[None]) for one in each_class]),
    }


def ways(model: CLIP, task: str) -> dict[str, Callable[[Tensor], Tensor]]:
    """Each way to tell a class: features of images (N, E) -> scores (N, K).

    By prompts; by prompts, each class less its mean over the training images ("..., centred"); by the best of all
    learned names; and by a linear model that was shown the classes of the training images (ridge regression).
    """
    seen, table = features(model, "image", named("train").images), class_of_names(task)
    found = {}
    for name, text in prompted(model, task).items():
        found[name] = lambda x, text=text: x @ text.T
        found[f"{name}, centred"] = lambda x, text=text: x @ text.T - (seen @ text.T).mean(0)
    whole, old = texts(model, list(names())), learned_names()
    found["best name"] = lambda x: table[old][(x @ whole[old].T).argmax(1)]
    wanted = table[named("train").own]
    inputs = F.pad(seen, (0, 1), value=1.0)
    line = torch.linalg.solve(inputs.T @ inputs + RIDGE * torch.eye(inputs.shape[1]), inputs.T @ wanted)
    found["linear"] = lambda x: F.pad(x, (0, 1), value=1.0) @ line
    return found


@torch.no_grad()
def by_prompts(model: CLIP, task: str, part: str) -> dict:
    """Shares of a part's images whose class is told rightly; "alone": of those whose names are all of one class.

    "balanced": the mean of the classes' own shares among these, 1 / K for whoever always says the same.
    """
    known = named(part)
    right = known.right.float() @ class_of_names(task) > 0  # (N, K)
    alone, x = right.sum(1) == 1, features(model, "image", known.images)
    found = {"majority": right.double().mean(0).max(), "majority, alone": right[alone].double().mean(0).max(),
             "look-alikes": (~alone).double().mean()}  # fmt: skip
    for name, way in ways(model, task).items():
        answers = way(x).argmax(1)
        said = right.gather(1, answers[:, None])[:, 0].double()
        found |= {name: said.mean(), f"{name}, alone": said[alone].mean()}
        of_class = [said[alone & right[:, k]].mean() for k in range(right.shape[1])]
        found[f"{name}, balanced"] = torch.stack(of_class).mean()
        found[f"{name}, says"] = F.one_hot(answers, right.shape[1]).double().mean(0)
    return found


@experiment(cpus=HERE)
def prompts(seed):
    """Share of letters in faces never seen whose case and script the CLIP of `live` tells, by prompts and otherwise."""
    model, _ = fitted(made(seed), seed, looks=False)
    return {task: by_prompts(model, task, "new faces") for task in TASKS}


# --- search, and what an answer gets right


@torch.no_grad()
def searched(model: CLIP) -> dict:
    """Recall at 1 and 5, of new names: by words among the images, and by an image among the names."""
    known, among = named("new names"), candidates(named("new names"))
    table, right = scored(model, known, among), known.right[:, among]
    by_words = {f"by words, {k}": hits(table.T, right.T, k).double().mean() for k in (1, 5)}
    by_image = {f"by image, {k}": hits(table, right, k).double().mean() for k in (1, 5)}
    return by_words | by_image | {"names": len(among), "images": len(known.own)}


def told_rightly(known: Named, answers: Tensor) -> dict:
    """Of the names that were answered, (N,): the share whose script, case, letter and marks are a right name's."""
    parts = [parts_of(name) for name in names()]
    right = [[parts[v] for v in row.nonzero().flatten().tolist()] for row in known.right]
    said = [parts[v] for v in answers.tolist()]
    pairs = list(zip(said, right, strict=True))
    return {
        part: sum(any(one[n] == other[n] for other in those) for one, those in pairs) / len(pairs)
        for part, n in PART_OF.items()
    } | {"all": sum(one in those for one, those in pairs) / len(pairs)}


@torch.no_grad()
def reading(model: CLIP) -> dict:
    """What CLIP and the nearest training image get right of new names, among all; and CLIP with words out of order.

    "known shape": the nearest training image has the letter and the case; "marks", of names with one, two and more.
    """
    known, every = named("new names"), torch.arange(len(names()))
    clip_says, near_says = (table.argmax(1) for table in (scored(model, known, every), nearest_scored(known, every, 1)))
    seen = named("train")
    away = seen.images.flatten(1).square().sum(1) - 2 * known.images.flatten(1) @ seen.images.flatten(1).T
    nearest = seen.own[away.argmin(1)]  # (N,)
    parts = [parts_of(name) for name in names()]
    shape = torch.tensor([parts[a][1:3] == parts[b][1:3] for a, b in zip(nearest, known.own, strict=True)])
    marks = torch.tensor([len(row.marks) for row in known.rows])
    said = known.right.gather(1, clip_says[:, None])[:, 0].double()
    return {
        "CLIP": told_rightly(known, clip_says), "nearest": told_rightly(known, near_says),
        "known shape": said[shape].mean(), "other shape": said[~shape].mean(), "share of known": shape.double().mean(),
        "one mark": said[marks == 1].mean(), "more marks": said[marks > 1].mean(),
        "new names": asked_with(model, name_ids()), "words out of order": asked_with(model, shuffled_words()),
    }  # fmt: skip


def shuffled_words() -> Tensor:
    """Every name with its words in another order, start and end where they were: ids (V, T)."""
    generator, ids = torch.Generator().manual_seed(0), name_ids().clone()
    for row in ids:
        n = int((row == tokenizer().end).nonzero()[0]) - 1
        row[1 : 1 + n] = row[1 + torch.randperm(n, generator=generator)]
    return ids


def asked_with(model: CLIP, ids: Tensor) -> float:
    """The share of new names' images that are named rightly among new names, which are written as ids (V, T) say."""
    known, among = named("new names"), new_names()
    table = features(model, "image", known.images) @ features(model, "text", ids[among]).T
    return hits(table, known.right[:, among]).double().mean().item()


@experiment(cpus=HERE)
def sight(seed):
    """Search both ways by the CLIP of `live`, what its answers get right, how pictures of two letters mislead it."""
    model, _ = fitted(made(seed), seed, looks=False)
    return {"search": searched(model), "reading": reading(model), "two": two_in_one(model), "label": labelled(model)}


# --- pictures of two letters


def narrow(known: Named, widest: int = 14) -> Tensor:
    """Which images have ink in so many columns at most: places (n,)."""
    return (known.images.amax(dim=(1, 2)) > 0).sum(1).le(widest).nonzero().flatten()


@torch.no_grad()
def answered(model: CLIP, images: Tensor, right: Tensor, k: int = 1) -> float:
    """The share of images with a right one, bool (N, V), among the k best of the learned names."""
    old = learned_names().nonzero().flatten()
    table = features(model, "image", images) @ features(model, "text", name_ids()[old]).T
    return hits(table, right[:, old], k).double().mean().item()


def two_in_one(model: CLIP, seed: int = 0) -> dict:
    """Two narrow letters of new faces in one picture, left and right: whose name is said; and the left one alone."""
    known = named("new faces")
    some = narrow(known)
    other = some[torch.randperm(len(some), generator=torch.Generator().manual_seed(seed))]
    left, right = shift(known.images[some], 0, -8), shift(known.images[other], 0, 8)
    both = torch.maximum(left, right)
    found = {"pictures": len(some), "middle": answered(model, known.images[some], known.right[some])}
    for name, images in (("left alone", left), ("both", both)):
        for k in (1, 5):
            found[f"{name}, left, {k}"] = answered(model, images, known.right[some], k)
            found[f"{name}, right, {k}"] = answered(model, images, known.right[other], k)
    return found


def labelled(model: CLIP, seed: int = 0) -> dict:
    """A letter with a small other one in the upper right corner: whose name is said; and with its dots in disorder."""
    known, generator = named("new faces"), torch.Generator().manual_seed(seed)
    other = torch.randperm(len(known.own), generator=generator)
    small = F.avg_pool2d(known.images[other], 2)[:, :, 2:14, 2:14]  # (N, 1, 12, 12)
    order = torch.randperm(144, generator=generator)
    found = {"clean": answered(model, known.images, known.right),
             "clean, label's": answered(model, known.images, known.right[other])}  # fmt: skip
    for name, label in (("label", small), ("disorder", small.flatten(1)[:, order].view_as(small))):
        images = known.images.clone()
        images[:, :, :12, 20:] = torch.maximum(images[:, :, :12, 20:], label)
        found[name] = answered(model, images, known.right)
        found[f"{name}, label's"] = answered(model, images, known.right[other])
    return found
