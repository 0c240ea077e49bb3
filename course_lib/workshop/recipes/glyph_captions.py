"""How lesson 11's captioners, and its Transformers of words and image, are made and trained: sizes, batches, losses.

known = looked_at(taught_spotter().eyes, named("train"))
model, history = learned(captioner("dot"), captions(known), caption_loss)
model, history = learned(stream(OneStream), hidden_words(known), word_loss)
"""

from collections.abc import Iterator
from functools import cache, partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.data.glyph_names import Named, batches, named, names
from course_lib.data.glyphs import parts_of
from course_lib.inputs.sequences import reading
from course_lib.language.muon import Muon
from course_lib.multimodal.captions import Captioner
from course_lib.multimodal.one_stream import OneStream
from course_lib.text.pairs import END, PADDING, START, UNKNOWN, masked_loss, shift
from course_lib.train import cosine, fit
from course_lib.translation.decode import greedy
from course_lib.vision.convnet import ConvLayer, width_for
from course_lib.vision.patches import PatchEmbedding
from course_lib.workshop.recipes.glyph_names import name_ids, tokenizer
from course_lib.workshop.recipes.images import train_on_images
from course_lib.workshop.recipes.recipe import Recipe
from course_lib.workshop.recipes.scenes import ScenesMuon
from course_lib.workshop.recipes.stored import load

CPU = torch.device("cpu")  # models this small are no faster on a GPU
BATCH, STEPS, LONGEST = 64, 300, 12
# Of the captioner with attention six settings were tried, one seed, 300 or 400 steps, whole names right of 250 to 400
# validation faces and of as many validation names: AdamW alone at 0.006 (0.06, 0.22) and 0.012 (0.11, 0.20); Muon for
# all layers at 0.02 with 0.3, 0.6 and 1 times that rate for the rest (0.20, 0.34; 0.30, 0.40; 0.42, 0.39). A vector of
# its own, not the spotter's, with AdamW at 0.006: 0.05, 0.04.
RATE, SPOTTER_SHARE = 0.02, 0.3
# Of one stream three rates were tried, marks filled in rightly with validation names: 0.02, 0.01, 0.005 (0.41, 0.61,
# 0.50); of two streams 0.01 (0.72).
RATES = {"OneStream": 0.01, "TwoStreams": 0.01}
CHANNELS, GRID = (16, 32, 64), (8, 8)
D_WORDS, D_HIDDEN = 64, 96
D_MODEL, N_HEADS, D_FF = 64, 4, 128
D_FF_TWO = 42  # of two streams: with it as many numbers learn as in one
HIDDEN = 0.3  # of the words of a name, one at least
schedule = partial(cosine, warmup=20)


def every_matrix(model: nn.Module) -> Muon:
    """Muon with three rounds for all layers that learn, an LSTM's too; AdamW for tables, places, readouts, biases."""
    layers = [part for name, part in model.named_modules() if not name.endswith("readout")]
    layers = [part for part in layers if isinstance(part, (nn.Linear, nn.RNNBase))]
    learn = {id(weight): weight for weight in model.parameters() if weight.requires_grad}
    inside = {id(weight) for part in layers for weight in part.parameters() if weight.ndim == 2} & learn.keys()
    groups = [{"params": [learn[one] for one in learn if (one in inside) == matrices], "matrices": matrices}
              for matrices in (True, False)]  # fmt: skip
    return Muon(groups, rounds=3)


def learned(model: nn.Module, data, loss, steps: int = STEPS, **how):
    """The model, trained for so many steps on the CPU, and its `History`; how: what else `fit` takes."""
    how = {"lr": RATES.get(type(model).__name__, RATE), "optimiser": every_matrix} | how
    return model, fit(model, data, loss, steps=steps, schedule=schedule, device=CPU, progress=False, **how)


# --- the eyes: both papers begin with a convolutional network that was taught to classify, and leave it as it is


class Spotter(nn.Module):
    """Which words does the name of an image have? images (B, 1, 32, 32) -> logits (B, V), a yes or no for each word.

    `eyes`, lesson 09's convolutions, give the grid (B, 64, 8, 8) that captioners look at; one layer sees all places.
    """

    def __init__(self):
        super().__init__()
        layers, before = [], 1
        for own, stride in zip(CHANNELS, (2, 2, 1), strict=True):
            layers += [ConvLayer(before, own, stride), ConvLayer(own, own)]
            before = own
        self.eyes = nn.Sequential(*layers[:-1])
        self.see = nn.Linear(before * GRID[0] * GRID[1], D_WORDS)
        self.readout = nn.Linear(D_WORDS, len(tokenizer()))
        nn.init.constant_(self.readout.bias, -4.0)  # most words are in few names

    def forward(self, images: Tensor) -> Tensor:
        return self.readout(self.see(self.eyes(images).flatten(1)))


@cache
def bags() -> Tensor:
    """Which words stand in each of `names()`: 0 or 1, (V names, V words)."""
    ids = name_ids()
    return torch.zeros(len(ids), len(tokenizer())).scatter_reduce(1, ids, is_word(ids).float(), "amax")


def with_words(images: Tensor, words: Tensor, batch: int = BATCH, seed: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless batches of images and the words of their names; each once a round, a rest is left out."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for some in torch.randperm(len(images), generator=generator).split(batch):
            if len(some) == batch:
                yield images[some], words[some]


def spotter_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Nats an image, over all words, for `fit`."""
    images, words = batch
    return F.binary_cross_entropy_with_logits(model(images), words, reduction="sum") / len(images)


@torch.no_grad()
def spotted(model: nn.Module, images: Tensor, words: Tensor) -> float:
    """The share of images whose likeliest name, of all, has just their words (N, V); in eval mode."""
    device = model.readout.weight.device
    with reading(model):
        logits = torch.cat([model(some.to(device)).cpu() for some in images.split(500)])
    return (bags()[(logits @ bags().T).argmax(dim=1)] == words).all(dim=1).double().mean().item()


def muon(model: nn.Module) -> ScenesMuon:
    """What the spotter is trained with: Muon for its windows, AdamW for the rest at SPOTTER_SHARE of the rate."""
    return ScenesMuon(model, SPOTTER_SHARE, rounds=3)


def images_and_words(split: str) -> tuple[Tensor, Tensor]:
    """Images and words of a split; for validation, letters in faces and with names that are not learned."""
    parts = {"train": ["train"], "validation": ["validation faces", "validation names"]}[split]
    known = [named(part) for part in parts]
    return torch.cat([one.images for one in known]), bags()[torch.cat([one.own for one in known])]


def measure_words(model: nn.Module) -> dict:
    """The shares of names and of faces never seen whose words are all found."""
    parts = {part.replace(" ", "_"): named(part) for part in ("new names", "new faces")}
    return {part: spotted(model, known.images, bags()[known.own]) for part, known in parts.items()}


SPOTTER = Recipe(
    "names_words",
    "convolutional network that says which words a letter's name has",
    Spotter,
    partial(train_on_images, data=images_and_words, measure=measure_words, batches=with_words, loss=spotter_loss,
            accuracy=spotted, optimiser=muon, warmup=20),
    "all words of {new_names:.1%} of the names never seen, and of {new_faces:.1%} of the letters in faces never seen",
    ("new_names", "new_faces"),
    "{} images",
    lr=RATE,
    steps=800,
    batch=64,
    look=200,
)  # fmt: skip


@torch.no_grad()
def looked_at(eyes: nn.Module, known: Named) -> Named:
    """The same letters, with the grids (N, 64, 8, 8) that the eyes make of them in the place of images."""
    with reading(eyes):
        return known._replace(images=torch.cat([eyes(some) for some in known.images.split(500)]))


class Given(nn.Identity):
    """In the place of the eyes where grids were made before: what comes in goes on."""

    width = CHANNELS[-1]


# --- captions: a picture goes in, its name comes out word by word


def captioner(attention: str | None = "dot", width: int | None = None) -> Captioner:
    """A captioner of grids, untrained; width: of its state. Without attention it is wider, of as many parameters.

    The vector that it begins with is the stored spotter's own, what that reads all words out of, and stays as it is.
    """
    if width is None:
        width = D_HIDDEN
        if attention is None:
            n = sum(weight.numel() for weight in captioner("dot").parameters())
            width = width_for(n, lambda width: captioner(None, width))
    model = Captioner(Given(), GRID[0] * GRID[1], len(tokenizer()), D_WORDS, width, attention)
    if not model.begin.weight.is_meta:  # `width_for` only counts
        model.begin.load_state_dict(taught_spotter().see.state_dict())
    model.begin.requires_grad_(False)
    return model


@cache
def taught_spotter() -> Spotter:
    """The stored one."""
    return load(SPOTTER)[0]


def captions(
    known: Named, batch: int = BATCH, seed: int = 0, deaf: float = 0.0
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Endless batches: grids (B, 64, 8, 8), what the decoder reads, and what it shall write, both (B, T).

    deaf: the share of the words read that become "unknown" (Bowman et al., 2016, section 3.1): so it cannot rely on
    the words that it wrote.
    """
    generator = torch.Generator().manual_seed(seed)
    for images, own, _ in batches(known, batch, seed):
        target_in, target_out = shift(_cut(name_ids()[own]))
        lost = is_word(target_in) & (torch.rand(target_in.shape, generator=generator) < deaf)
        yield images, target_in.masked_fill(lost, UNKNOWN), target_out


def caption_loss(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Nats a word, for `fit`."""
    images, target_in, target_out = batch
    return masked_loss(model(images, target_in)[0], target_out)


@torch.no_grad()
def written(model: Captioner, images: Tensor, mask: Tensor | None = None, at_once: int = 250) -> list[str]:
    """The names that a captioner writes under images, greedily; mask bool (N, S): where it may look."""
    with reading(model):
        masks = [None] * len(images) if mask is None else mask.split(at_once)
        found = [
            greedy(**model.decoding(some, seen), max_len=LONGEST)
            for some, seen in zip(images.split(at_once), masks, strict=False)
        ]
    return [" ".join(tokenizer().decode(ids)) for some in found for ids in some.tokens]


def right_parts(written_name: str, right: list[str]) -> dict[str, bool]:
    """Whether a name is right as a whole, and in its case, its letter and its marks, in any order.

    right: the names that an image has. A part is right where one of them has it, with the script for the letter.
    """
    script, case, letter, marks = parts_of(written_name.replace(" ,", ","))
    wanted = [parts_of(name) for name in right]
    return {
        "exact": written_name.replace(" ,", ",") in right,
        "case": any(case == one[1] for one in wanted),
        "letter": any((script, letter) == (one[0], one[2]) for one in wanted),
        "marks": any(sorted(marks) == sorted(one[3]) for one in wanted),
    }


def right_names(known: Named, at: int) -> list[str]:
    """The names that are right for the image at a place."""
    return [names()[n] for n in known.right[at].nonzero()[:, 0].tolist()]


def judged(found: list[str], known: Named) -> dict[str, float]:
    """Shares of `right_parts` over images of a part of the data; that of marks over images that have some."""
    seen = [right_parts(name, right_names(known, n)) for n, name in enumerate(found)]
    marked = [one["marks"] for one, row in zip(seen, known.rows, strict=True) if row.marks]
    shares = {part: sum(one[part] for one in seen) / len(seen) for part in ("exact", "case", "letter")}
    return shares | {"marks": sum(marked) / max(1, len(marked))}


# --- masked words: a name with blanks beside its picture


class Places(PatchEmbedding):
    """Lesson 09's patches, of a grid: four places in one, and one layer: (B, 64, 8, 8) -> (B, 16, D)."""

    def __init__(self):
        super().__init__(CHANNELS[-1], 2, D_MODEL)


def stream(kind: type[nn.Module]) -> nn.Module:
    """A `OneStream` of four blocks, or a `TwoStreams` of two layers, narrower inside. [MASK] is the id behind words.

    Where words alone are asked, nobody reads what the last layer of two streams makes of the image. So it has two
    layers, or the image would learn nothing from words; and `reached` counts for both about as many that do learn.
    """
    n_layers, d_ff = (4, D_FF) if kind is OneStream else (2, D_FF_TWO)
    sizes = (GRID[0] * GRID[1] // 4, len(tokenizer()) + 1, name_ids().shape[1], D_MODEL, N_HEADS, n_layers)
    return kind(Places(), *sizes, d_ff=d_ff)


def reached(model: nn.Module) -> int:
    """How many parameters of a stream the loss of hidden words can move: not those of an image that nobody reads."""
    unread = [] if isinstance(model, OneStream) else [model.blocks[-1].image_looks, model.blocks[-1].image_own]
    idle = sum(weight.numel() for part in unread for weight in part.parameters())
    return sum(weight.numel() for weight in model.parameters()) - idle


def mask_id() -> int:
    """The id of [MASK]."""
    return len(tokenizer())


def hidden_words(known: Named, batch: int = BATCH, seed: int = 0, share: float = HIDDEN) -> Iterator[tuple]:
    """Endless batches: images, ids (B, T) with some words hidden, mask bool (B, T), answers (B, T), padding elsewhere.

    Each word is hidden with this probability; in a name in which none is, one is drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    for images, own, _ in batches(known, batch, seed):
        ids = _cut(name_ids()[own])  # (B, T)
        words = is_word(ids)
        drawn = torch.rand(ids.shape, generator=generator).masked_fill(~words, 2.0)
        chosen = (drawn < share) | (drawn == drawn.amin(dim=1, keepdim=True))  # (B, T)
        yield images, ids.masked_fill(chosen, mask_id()), ids != PADDING, ids.masked_fill(~chosen, PADDING)


def is_word(ids: Tensor) -> Tensor:
    """Which ids stand for words, not for start, end or padding: as ids, bool."""
    return (ids != PADDING) & (ids != START) & (ids != END)


def word_loss(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
    """Nats a hidden word, for `fit`."""
    images, ids, mask, answers = batch
    return F.cross_entropy(model(images, ids, mask).flatten(0, 1), answers.flatten(), ignore_index=PADDING)


@cache
def blanks(part_of_name: str) -> dict[int, int]:
    """Of each name that has one word for a part, "case", "letter" or "mark", the place of that word in its ids.

    Of several marks the first is taken.
    """
    found = {}
    for n, name in enumerate(names()):
        _, case, letter, marks = parts_of(name)
        word = {"case": case, "letter": letter, "mark": marks[0] if marks else ""}[part_of_name]
        words = tokenizer().split(name)
        if word and " " not in word and words.count(word) == 1:
            found[n] = 1 + words.index(word)  # the start stands before them
    return found


class Asked(NamedTuple):
    """One word of a name is asked for: the letters that have it, their names' ids (N, T), and the place of the word."""

    known: Named
    ids: Tensor
    place: Tensor

    def right(self, words: Tensor) -> Tensor:
        """Whether a name with these words (N,) in the place is one that the image has: bool (N,)."""
        made = self.ids.scatter(1, self.place[:, None], words[:, None])
        given = {tuple(name): n for n, name in enumerate(name_ids().tolist())}
        found = torch.tensor([given.get(tuple(name), -1) for name in made.tolist()])
        return (found >= 0) & self.known.right[torch.arange(len(found)), found.clamp(min=0)]

    def at(self, logits: Tensor, before: int = 0) -> Tensor:
        """What stands in the place, or so many before it: logits (N, T, V) -> (N, V), without [MASK]."""
        return logits[torch.arange(len(self.place)), self.place - before, : mask_id()]


def asked(known: Named, part_of_name: str) -> Asked:
    """Of letters those whose name has one word for a part: "case", "letter" or "mark"."""
    places = blanks(part_of_name)
    some = chosen(known, [n for n, own in enumerate(known.own.tolist()) if own in places])
    return Asked(some, name_ids()[some.own], torch.tensor([places[n] for n in some.own.tolist()]))


def chosen(known: Named, at: list[int]) -> Named:
    """The letters at these places."""
    return Named(known.images[at], known.own[at], known.right[at], [known.rows[n] for n in at])


@torch.no_grad()
def filled(model: nn.Module, these: Asked, images: Tensor | None = None) -> float:
    """The share of names whose hidden word a model of words and image fills in rightly; images: others' in place."""
    images = these.known.images if images is None else images
    hidden = these.ids.scatter(1, these.place[:, None], mask_id())
    with reading(model):
        parts = zip(images.split(500), hidden.split(500), (these.ids != PADDING).split(500), strict=True)
        logits = torch.cat([model(*part) for part in parts])
    return these.right(these.at(logits).argmax(dim=1)).double().mean().item()


@torch.no_grad()
def foretold(model: Captioner, these: Asked, images: Tensor | None = None, mask: Tensor | None = None) -> float:
    """The share of names whose next word a captioner foretells, given those before; mask bool (N, S): where to look."""
    images = these.known.images if images is None else images
    with reading(model):
        logits, _ = model(images, these.ids[:, :-1], mask)
    return these.right(these.at(logits, before=1).argmax(dim=1)).double().mean().item()


def _cut(ids: Tensor) -> Tensor:
    """Without columns of padding behind the longest."""
    return ids[:, : int((ids != PADDING).any(dim=0).sum())]
