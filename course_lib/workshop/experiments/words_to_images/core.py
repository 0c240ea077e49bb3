"""Lesson 18: what codes keep of an image, what a GPT draws for names that it has never seen, and what else could.

A drawing is right if, of all real letters in all typefaces, the nearest one, dot by dot, bears the name that was asked
for. New names are those of the test side: no typeface showed the letter with this mark while anything was learned.
"""

import time
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention.block import Encoder
from course_lib.data.letter_names import Named, named
from course_lib.multimodal.quantiser import nearest_code
from course_lib.multimodal.vq_vae import VQVAE
from course_lib.multimodal.words_then_codes import nats, row_of
from course_lib.train import cosine, fit
from course_lib.vision.patches import patchify, unpatchify
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes import words_to_images as recipe
from course_lib.workshop.recipes.stored import load
from course_lib.workshop.recipes.words_to_images import (
    BATCH,
    D_MODEL,
    DRAW_STEPS,
    HEADS,
    LAYERS,
    N_CODES,
    PLACES,
    RATE,
    WARMUP,
    coded,
    codes_of,
    drawn,
    fits,
    gpt,
    judged,
    muon,
    n_tokens,
    nearest,
    painted,
    rightly,
    rows_of,
    tokenizer,
    unnamed,
    vq_vae,
    word_ids,
    written,
)

HERE = ["default"]  # the instruction set of what is dear
THREE = range(3)
STORED = [recipe.CODES.file, recipe.PICKER.file]
TEMPERATURES = (1.0, 0.5)


# --- an image as codes


def no_way_back(model: VQVAE, images: Tensor) -> Tensor:
    """`VQVAE.loss` where the picture's error tells the encoder nothing: codes are learned, and it commits to them."""
    _, ids, quantising = model.quantiser(model.vectors(images))
    logits = model.decoder(F.embedding(ids, model.quantiser.codes).permute(0, 3, 1, 2))
    return 10 * F.binary_cross_entropy_with_logits(logits, images) + quantising


WAYS = {
    "straight through": {},
    "no way back": {"loss": no_way_back},
    "dead codes stay": {"awake": 0.0},
}
SHORT = 300  # steps


@cache
def letters_kept() -> Named:
    """Letters of new names, every third."""
    known = named("test")
    return Named(known.images[::3], known.name[::3], known.rows[::3])


def kept(model: VQVAE) -> dict:
    """What is left of letters of new names: mean square error, the share that is still itself, codes in use."""
    known = letters_kept()
    codes = codes_of(model, known.images)
    images = painted(model, codes)
    used = codes_of(model, unnamed()[::4]).unique()
    return {"error": (images - known.images).square().mean(), "right": judged(images, known).right, "used": len(used)}


@experiment(each(way=list(WAYS)), THREE, HERE)
def quantised(seed, way):
    """Error of letters of new names painted from their codes, the share still itself, codes in use, after 300 steps."""
    model = vq_vae(seed)
    if way == "dead codes stay":  # as they are drawn, not put among vectors first
        torch.manual_seed(seed)
        nn.init.normal_(model.quantiser.codes)
    history = coded(model, seed, SHORT, **WAYS[way])
    return kept(model) | {"curve": history.loss[9::10]}


@experiment(seeds=THREE, cpus=HERE)
def listed(seed, rounds=20):
    """The same for a list of patches: each patch of 4 x 4 is replaced by the nearest of 64, which k-means has found."""
    generator = torch.Generator().manual_seed(seed)
    patches = patchify(unnamed()[::4], 4).flatten(0, 1)  # (N, 16)
    patches = patches[patches.amax(dim=1) > 0]  # white is one of the 64, without being looked for
    codes = patches[torch.randperm(len(patches), generator=generator)[: N_CODES - 1]]
    for _ in range(rounds):
        near = nearest_code(patches, codes)
        counts = torch.bincount(near, minlength=len(codes)).clamp(min=1)
        codes = torch.zeros_like(codes).index_add(0, near, patches) / counts[:, None]
    codes = torch.cat([torch.zeros(1, 16), codes])
    known = letters_kept()
    images = unpatchify(codes[nearest_code(patchify(known.images, 4), codes)], 32, 32)
    return {"error": (images - known.images).square().mean(), "right": judged(images, known).right}


# --- names drawn


@cache
def stored_codes() -> Tensor:
    """The codes of all training letters, by the stored VQ-VAE."""
    return codes_of(load(recipe.CODES)[0], named("train").images)


def some_of(split: str, n: int = 300, seed: int = 0) -> Named:
    """n letters of a side, drawn once and for all."""
    known = named(split)
    at = torch.randperm(len(known.rows), generator=torch.Generator().manual_seed(seed))[:n]
    return Named(known.images[at], known.name[at], [known.rows[i] for i in at.tolist()])


def copied(codes: Tensor, known: Tensor) -> Tensor:
    """Which rows of codes are a known row, code for code: bool (N,)."""
    known = {tuple(row) for row in known.tolist()}
    return torch.tensor([tuple(row) in known for row in codes.tolist()])


def worth(codes: Tensor, asked: Named) -> dict:
    """What drawings are worth: the shares of `judged`, and whether they are, or resemble most, what was learned.

    "nearer to the true one" means something for new names alone: a learned name's true image is among the learned.
    """
    images = painted(load(recipe.CODES)[0], codes)
    to_learned, to_true = nearest(images, named("train").images)[1], (images - asked.images).flatten(1).norm(dim=1)
    return judged(images, asked)._asdict() | {
        "copied": copied(codes, stored_codes()).double().mean(),
        "distance": to_learned.mean(),
        "nearer to the true one": (to_true < to_learned).double().mean(),
    }


def drawer(seed: int, part: float = 1.0, look: int = 0, **how):
    """A GPT trained on a part of the training names with marks, and its shares of validation names right on the way."""
    model, known, codes = gpt(seed), named("train"), stored_codes()
    if part < 1:
        at = fewer(known, part, seed)
        known, codes = Named(known.images[at], known.name[at], [known.rows[i] for i in at.tolist()]), codes[at]
    asked = some_of("validation", 200)

    def right(step):
        images = painted(load(recipe.CODES)[0], drawn(model, asked.texts, seed=step))
        return [step, judged(images, asked).right]

    watching = {"watch": right, "watch_every": look} if look else {}
    history = written(model, rows_of(known, codes, seed), **watching, **how)
    return model, history


def fewer(known: Named, part: float, seed: int) -> Tensor:
    """Places of the letters without a mark, and of this part of the names with one, drawn at random."""
    bare = torch.tensor([not row.marks for row in known.rows])
    marked = known.name[~bare].unique()
    chosen = marked[torch.randperm(len(marked), generator=torch.Generator().manual_seed(seed))]
    return (bare | torch.isin(known.name, chosen[: round(part * len(marked))])).nonzero().flatten()


@experiment(cpus=HERE, files=STORED)
def names_drawn(seed):
    """Shares of drawings that are right, for new names and for learned ones, and the best of eight by who picks."""
    model, history = drawer(seed, look=DRAW_STEPS // 5)
    found = {
        f"{split}, {temperature}": worth(drawn(model, some_of(split).texts, temperature, seed), some_of(split))
        for split in ("test", "train") for temperature in TEMPERATURES
    }  # fmt: skip
    return found | {
        "curve": [right for _, right in history.watched], "loss": history.loss[9::10],
        "best of eight": best_of_eight(model, seed),
    }  # fmt: skip


def best_of_eight(model: nn.Module, seed: int, several: int = 8, n: int = 150) -> dict:
    """Shares of new names drawn rightly: the first of eight drawings, the best by whom, and whether any is right."""
    asked, codes_model, clip = some_of("test", n, 1), load(recipe.CODES)[0], load(recipe.PICKER)[0]
    codes = torch.stack([drawn(model, asked.texts, seed=1000 * seed + again) for again in range(several)])  # (8, n, 64)
    images = torch.stack([painted(codes_model, some) for some in codes])
    words = word_ids(asked.texts)
    by = {
        "the first": torch.arange(several, 0, -1)[:, None].expand(-1, n),
        "CLIP": torch.stack([fits(clip, some, asked.texts) for some in images]),
        "the GPT itself": -torch.stack([nats(model, row_of(words, some, len(tokenizer())), PLACES) for some in codes]),
    }
    found = {}
    for who, scores in by.items():
        chosen = images[scores.argmax(dim=0), torch.arange(n)]
        found[who] = judged(chosen, asked).right
    right = torch.stack([torch.tensor(rightly(some, asked)) for some in images])  # (8, n)
    return found | {"any of them": right.any(dim=0).double().mean()}


# --- who draws otherwise


class Painter(nn.Module):
    """Words in, one image out: the GPT's blocks read the name, and one matrix paints from the states of all of them.

    ids (B, T) -> logits (B, 1, 32, 32). Its best answer is the mean of all images that a name may mean.
    """

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(len(tokenizer()), D_MODEL)
        self.places = nn.Parameter(0.02 * torch.randn(n_tokens(), D_MODEL))
        self.encoder = Encoder(D_MODEL, HEADS, LAYERS, pre_norm=True, activation=F.gelu)
        self.blocks, self.paint = self.encoder.blocks, nn.Linear(n_tokens() * D_MODEL, 32 * 32)

    def forward(self, ids: Tensor) -> Tensor:
        return self.paint(self.encoder(self.tokens(ids) + self.places).flatten(1)).view(-1, 1, 32, 32)


def painter(seed: int, steps: int) -> Painter:
    """A `Painter` trained on all training names; from some, as for the GPT, the typeface is left out."""
    torch.manual_seed(seed)
    model, known = Painter(), named("train")
    full, short = word_ids(known.texts), word_ids([text.partition(" in ")[0] for text in known.texts])
    generator = torch.Generator().manual_seed(seed)

    def pairs():
        while True:
            at = torch.randint(len(full), (BATCH,), generator=generator)
            chance = torch.rand(BATCH, 1, generator=generator)
            yield torch.where(chance < recipe.NO_FACE, short[at], full[at]), known.images[at]

    loss = lambda model, batch: F.binary_cross_entropy_with_logits(model(batch[0]), batch[1])  # noqa: E731
    fit(model, pairs(), loss, steps=steps, lr=RATE, optimiser=muon, schedule=partial(cosine, warmup=WARMUP),
        device=recipe.CPU, progress=False)  # fmt: skip
    return model


def ink(images: Tensor) -> float:
    """How grey images are: the mean of 4 p (1 - p) over the dots, 0 for black and white, 1 for grey alone."""
    return (4 * images * (1 - images)).mean().item()


MEANT_STEPS = 4 * DRAW_STEPS  # about as many seconds as the GPT has: `pace` says how near


@experiment(seeds=THREE, cpus=HERE)
def meant(seed):
    """Shares of new names painted rightly by a network that paints each name's mean image, with the typeface told."""
    model, asked = painter(seed, MEANT_STEPS), some_of("test")
    with torch.no_grad():
        images = model(word_ids(asked.texts)).sigmoid()
        short = model(word_ids([text.partition(" in ")[0] for text in asked.texts])).sigmoid()
    grey = {"grey": ink(images), "grey, no typeface told": ink(short), "grey, real": ink(asked.images)}
    return judged(images, asked)._asdict() | {"no typeface told": judged(short, asked)._asdict()} | grey


@experiment(cpus=HERE, files=[recipe.CODES.file, recipe.DRAWER.file])
def no_face_told(seed):
    """What the stored GPT draws for new names without a typeface: right letters, in how many typefaces, how grey."""
    asked, model = some_of("test", 100), load(recipe.DRAWER)[0]
    short = [text.partition(" in ")[0] for text in asked.texts]
    drawings = [painted(load(recipe.CODES)[0], drawn(model, short, seed=8 * seed + again)) for again in range(8)]
    faces = [[named(None).rows[n].face for n in nearest(images, named(None).images)[0].tolist()] for images in drawings]
    kinds = sum(len(set(several)) for several in zip(*faces, strict=True)) / len(short)
    return judged(drawings[0], asked)._asdict() | {"typefaces among eight": kinds, "grey": ink(drawings[0])}


def pasted(asked: Named) -> Tensor:
    """A rule: the letter without its mark, in the typeface asked for, and the mark cut from another letter there.

    Of the letters of that case that bear the mark, the one whose own shape is nearest; where a typeface has none, the
    letter stays without.
    """
    known = named("train")
    at = {(row.face, row.case, row.letter, row.marks): n for n, row in enumerate(known.rows)}
    bare = {key: n for key, n in at.items() if not key[3]}
    made = []
    for row in asked.rows:
        own = bare.get((row.face, row.case, row.letter, ()))
        if own is None:
            made.append(torch.zeros(1, 32, 32))
            continue
        image = known.images[own]
        pairs = [(n, bare[face, case, letter, ()]) for (face, case, letter, marks), n in at.items()
                 if (face, case, marks) == (row.face, row.case, row.marks)
                 and (face, case, letter, ()) in bare]  # fmt: skip
        if pairs:
            marked, plain = min(pairs, key=lambda pair: (known.images[pair[1]] - image).square().sum().item())
            image = (image + known.images[marked] - known.images[plain]).clamp(0, 1)
        made.append(image)
    return torch.stack(made)


def same_words(asked: Named) -> Tensor:
    """A rule: the training image whose name has the most words in common, the first of equals."""
    table = torch.zeros(len(named("train").rows), len(tokenizer())).scatter_(1, word_ids(named("train").texts), 1.0)
    wanted = torch.zeros(len(asked.rows), len(tokenizer())).scatter_(1, word_ids(asked.texts), 1.0)
    common = wanted @ table.T - 0.01 * table.sum(dim=1)
    return named("train").images[common.argmax(dim=1)]


@experiment(seeds=[0], cpus=HERE, files=STORED[:1])
def rules(seed):
    """Shares of new names right for two rules: letter and mark pasted together, the name with the most common words."""
    asked = some_of("test")
    return {"pasted": judged(pasted(asked), asked)._asdict(), "same words": judged(same_words(asked), asked)._asdict(),
            "through codes": judged(painted(load(recipe.CODES)[0], codes_of(load(recipe.CODES)[0], asked.images)),
                                    asked)._asdict()}  # fmt: skip


@experiment(seeds=[0], cpus=HERE)
def pace(seed):
    """Seconds of one core that a step takes: of the GPT, of the network that paints the mean; measured in turns."""
    torch.manual_seed(seed)
    codes, known = torch.randint(N_CODES, (len(named("train").rows), PLACES)), named("train")
    rows, writer, other = next(rows_of(known, codes, seed)), gpt(seed), Painter()
    words = word_ids(known.texts[:BATCH])
    steps = {
        "GPT": (muon(writer), lambda: recipe.codes_loss(writer, rows, PLACES)),
        "mean": (muon(other), lambda: F.binary_cross_entropy_with_logits(other(words), known.images[:BATCH])),
    }
    taken = {name: [] for name in steps}
    for _ in range(7):
        for name, (optimiser, loss) in steps.items():
            start = time.thread_time()
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
            taken[name].append(time.thread_time() - start)
    return {name: sorted(seconds)[len(seconds) // 2] for name, seconds in taken.items()}
