"""Lesson 11: names written under letters, with and without a look at the grid, and hidden words filled in beside them.

All models look through the same eyes, those of the stored "names_words", which stay as they are: seeds differ in what
is trained upon them. "new names" are letters with marks that nobody was shown together, "new faces" a family of faces
never seen, "both new" is both. A right answer is any name that the image has in its face.
"""

import time
from functools import cache

import torch
from torch import Tensor, nn

from course_lib.data.glyph_names import Named, named, names
from course_lib.data.glyphs import letters
from course_lib.multimodal.captions import Captioner, share_inside
from course_lib.multimodal.one_stream import OneStream
from course_lib.multimodal.two_streams import TwoStreams
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes.glyph_captions import (
    BATCH,
    GRID,
    SPOTTER,
    STEPS,
    Asked,
    asked,
    blanks,
    caption_loss,
    captioner,
    captions,
    chosen,
    every_matrix,
    filled,
    foretold,
    hidden_words,
    judged,
    learned,
    looked_at,
    reached,
    stream,
    taught_spotter,
    word_loss,
    written,
)

HERE = ["default"]  # the instruction set of what is dear
EYES = [SPOTTER.file]
TESTED = ("new names", "new faces", "both new")
PARTS_OF_NAMES = ("case", "letter", "mark")
LOOKS = 5


@cache
def eyes() -> nn.Module:
    """The convolutions that all models look through."""
    return taught_spotter().eyes


@cache
def seen(part: str, n: int | None = None) -> Named:
    """The grids of a part of the data; n: of so many letters, evenly spaced over all of it."""
    known = looked_at(eyes(), named(part)) if n is None else seen(part)
    return known if n is None else chosen(known, torch.linspace(0, len(known.own) - 1, n).long().tolist())


# --- written word by word


def fitted(seed: int, attention: str = "dot", deaf: float = 0.0, steps: int = STEPS) -> tuple[Captioner, list[float]]:
    """A captioner, trained, and the share of validation letters that it named rightly at five places on the way.

    attention: "none", "dot", or "dot, no vector": all that it knows of the image it has looked at.
    """
    torch.manual_seed(seed)
    model, some = captioner(None if attention == "none" else "dot"), seen("validation faces", 200)
    if attention == "dot, no vector":
        for weight in model.begin.parameters():
            weight.data.zero_()
    model, history = learned(model, captions(seen("train"), BATCH, seed, deaf), caption_loss, steps,
                             watch=lambda step: judged(written(model, some.images), some)["exact"] if step else 0.0,
                             watch_every=steps // LOOKS)  # fmt: skip
    return model, [right for _, right in history.watched[1 : LOOKS + 1]]


def told(model: Captioner) -> dict:
    """What a captioner is worth on each part: names, their parts, words foretold; and how often it writes old names."""
    learned_by_heart = {names()[n] for n in named("train").own.tolist()}
    results = {"training": judged(written(model, seen("train", 500).images), seen("train", 500))}
    for part in TESTED:
        known = seen(part)
        found = written(model, known.images)
        results[part] = judged(found, known)
        results[part]["learned names"] = sum(name.replace(" ,", ",") in learned_by_heart for name in found) / len(found)
        for word in PARTS_OF_NAMES:
            these = asked(known, word)
            results[part][f"{word} foretold"] = foretold(model, these)
            results[part][f"{word} foretold, another image"] = foretold(model, these, others(these))
    return results


def others(these: Asked) -> Tensor:
    """For each letter the image of another one, drawn from the same list."""
    return these.known.images[shuffled(len(these.place))]


def shuffled(n: int) -> Tensor:
    """The numbers below n in an order that is always the same: a list goes by face, and half of it away the same letter
    may stand in another face."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))


WRITERS = [*each(attention=["none", "dot", "dot, no vector"], deaf=[0.0]), {"attention": "dot", "deaf": 0.5}]


@experiment(WRITERS, cpus=HERE, files=EYES)
def writers(seed, attention, deaf):
    """Shares of letters named rightly by a captioner, as a whole and in parts, with a look at the grid and without.

    With a look: where it looks when it writes the mark. deaf: it is trained with half of its own words hidden.
    """
    model, watched = fitted(seed, attention, deaf)
    results = told(model) | {"curve": watched, "weights": sum(weight.numel() for weight in model.parameters())}
    return results | ({part: results[part] | gaze(model, part) for part in TESTED[:2]} if attention != "none" else {})


@experiment(each(attention=["none", "dot"]), cpus=HERE, files=EYES)
def own_vector(seed, attention):
    """Shares of letters named rightly by a captioner whose vector is learned with the captions, with a look or without.

    In `writers` it is what the eyes' own classifier reads every word of a name out of, and stays as it is.
    """
    torch.manual_seed(seed)
    model = captioner(None if attention == "none" else "dot")
    model.begin.reset_parameters()
    model.begin.requires_grad_(True)
    model, _ = learned(model, captions(seen("train"), BATCH, seed), caption_loss)
    return told(model)


@experiment(seeds=[0], cpus=HERE, files=EYES)
def spotter(seed):
    """Shares of cases, letters and marks that the eyes' own classifier names rightly, the likeliest of such words."""
    model, results = taught_spotter(), {}
    for part in TESTED:
        results[part] = {}
        for word in PARTS_OF_NAMES:
            these = asked(seen(part), word)
            every = asked(seen("train"), word)
            known = every.ids.gather(1, every.place[:, None]).unique()  # the words that stand in such a place
            with torch.no_grad():
                logits = model.readout(model.see(these.known.images.flatten(1)))[:, known]
            results[part][word] = these.right(known[logits.argmax(dim=1)]).double().mean()
    return results


# --- where does it look when it writes the mark?


@cache
def bare() -> dict[tuple, Tensor]:
    """The images (32, 32) of letters without marks: by face, script, case and letter."""
    images, rows = letters()
    return {
        (row.face, row.script, row.case, row.letter): torch.from_numpy(image)
        for image, row in zip(images, rows, strict=True)
        if not row.marks
    }


def mark_of(image: Tensor, letter: Tensor) -> Tensor | None:
    """The part of an image (32, 32) that is its mark, bool (32, 32): the ink that the letter alone has not.

    The letter is moved sideways to where it fits best, for a letter with a mark is centred by both. None where a tenth
    of its ink is missing then (the dot of i, a stroke that cuts it), or where fewer than 4 pixels are left.
    """
    moved = [letter.roll(by, 1) for by in range(-4, 5)]
    missing, best = min(((one - image).clamp(min=0).sum().item(), n) for n, one in enumerate(moved))
    part = image - moved[best] > 0.3
    return None if missing > 0.1 * letter.sum().item() or part.sum() < 4 else part


@cache
def marked(part: str) -> tuple[Asked, Tensor, Tensor]:
    """Letters whose one mark is one word and lies apart: what is asked, the marks' parts (N, 32, 32), and the images.

    These are of the letters alone, (N, 1, 32, 32). Where there is a second mark the difference would be both.
    """
    known, found = named(part), []
    for n in [n for n, row in enumerate(known.rows) if len(row.marks) == 1 and " " not in row.marks[0]]:
        row = known.rows[n]
        alone = bare().get((row.face, row.script, row.case, row.letter))
        mark = None if alone is None else mark_of(known.images[n, 0], alone)
        if mark is not None:
            found.append((n, mark, alone))
    at, marks, alone = zip(*found, strict=True)
    return asked(chosen(seen(part), list(at)), "mark"), torch.stack(marks), torch.stack(alone)[:, None]


@torch.no_grad()
def gaze(model: Captioner, part: str) -> dict:
    """How much of the map lies in the mark, by the word that is written, and what happens without a look at it.

    "gaze" is the mean share of the weights in the mark's pixels when the mark is written, and beside it when the letter
    and the case are; with another image's map; and the share of the pixels that the mark takes. "hidden" is the share
    of marks foretold where the places with the mark may not be looked at, beside it as many places that have ink and no
    mark; "erased", of the same marks with the image of the letter alone.
    """
    (these, mark, alone), results = marked(part), {}
    for word in reversed(PARTS_OF_NAMES):
        has_it = torch.tensor([own in blanks(word) for own in these.known.own.tolist()])
        own = asked(these.known, word)
        _, weights = model(own.known.images, own.ids[:, :-1])  # (N, T, S)
        look = weights[torch.arange(len(own.place)), own.place - 1]  # (N, S): while the word is foretold
        results[f"gaze, {word}"] = share_inside(look, mark[has_it], GRID).mean()
        if word == "mark":
            results["gaze, another image"] = share_inside(look[shuffled(len(mark))], mark, GRID).mean()
    results |= {"area": mark.float().mean(), "letters": len(mark)}
    return results | blinded(model, these, mark, alone)


def blinded(model: Captioner, these: Asked, mark: Tensor, alone: Tensor) -> dict:
    """Shares of marks foretold: with all places, without those of the mark, without as many others; mark erased."""
    h, side = GRID[0], mark.shape[-1] // GRID[0]
    cells = mark.float().unflatten(1, (h, side)).unflatten(3, (-1, side)).sum((2, 4)).flatten(1)  # (N, S): pixels
    ink = (alone[:, 0] > 0.3).float().unflatten(1, (h, side)).unflatten(3, (-1, side)).sum((2, 4)).flatten(1)
    of_mark = cells >= 2
    order = ink.masked_fill(cells > 0, -1.0).argsort(dim=1, descending=True).argsort(dim=1)  # most ink first
    elsewhere = order < of_mark.sum(dim=1, keepdim=True)
    return {
        "seen": foretold(model, these),
        "hidden": foretold(model, these, mask=~of_mark),
        "hidden elsewhere": foretold(model, these, mask=~elsewhere),
        "erased": foretold(model, these, eyes()(alone)),
    }


# --- hidden words beside an image


STREAMS = {"one": OneStream, "two": TwoStreams}


@experiment([*each(streams=["one", "two"], image=[True]), {"streams": "one", "image": False}], cpus=HERE, files=EYES)
def hidden(seed, streams, image):
    """Shares of hidden words, case, letter and mark, filled in rightly beside the image, another one, and none at all.

    streams: one Transformer for both, or two with co-attention, of as many parameters that learn. image: whether it is
    trained with images; without, what it knows is what words tell of each other.
    """
    torch.manual_seed(seed)
    known = seen("train")
    known = known if image else known._replace(images=torch.zeros_like(known.images))
    model, _ = learned(stream(STREAMS[streams]), hidden_words(known, BATCH, seed), word_loss)
    results = {"weights": sum(weight.numel() for weight in model.parameters()), "reached": reached(model)}
    for part in TESTED:
        results[part] = {}
        for word in PARTS_OF_NAMES:
            these = asked(seen(part), word)
            none = torch.zeros_like(these.known.images)
            looks = {"": None, ", another image": others(these), ", no image": none} if image else {"": none}
            results[part] |= {f"{word}{how}": filled(model, these, images) for how, images in looks.items()}
    return results


@experiment(seeds=[0], cpus=HERE, files=EYES)
def caption_pace(seed):
    """Seconds of one core that a step of each model takes, and all its steps, measured in turns."""
    known, taken = seen("train"), {}
    kinds = {"none": (captioner(None), captions, caption_loss), "dot": (captioner(), captions, caption_loss),
             "one": (stream(OneStream), hidden_words, word_loss),
             "two": (stream(TwoStreams), hidden_words, word_loss)}  # fmt: skip
    optimisers = {name: every_matrix(model) for name, (model, *_) in kinds.items()}
    for _ in range(12):
        for name, (model, data, loss) in kinds.items():
            batch, start = next(data(known, BATCH, seed)), time.thread_time()
            optimisers[name].zero_grad()
            loss(model, batch).backward()
            optimisers[name].step()
            taken.setdefault(name, []).append(time.thread_time() - start)
    step = {name: sorted(seconds)[len(seconds) // 2] for name, seconds in taken.items()}
    return {"step": step, "all": {name: STEPS * seconds for name, seconds in step.items()}}
