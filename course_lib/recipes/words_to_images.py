"""Lesson 18's models: a VQ-VAE turns letters into codes, a GPT writes codes behind a name, a CLIP says what fits it.

codes = load("letters_codes")[0];  drawer = load("letters_drawer")[0]
images = codes.paint(drawn(drawer, ["small e with acute in serif bold"]))

Whatever is learned here is learned from names on the side "train" of the split by name, in all sixteen typefaces. What
is asked for in the end are names of which no typeface showed a letter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from course_lib.data import glyphs
from course_lib.data.letter_names import Named, marks, named
from course_lib.inputs.sequences import reading
from course_lib.language.gpt import GPT, GPTConfig
from course_lib.language.muon import Muon, split
from course_lib.multimodal.clip import CLIP, TextTower
from course_lib.multimodal.contrastive import contrastive_loss
from course_lib.multimodal.vq_vae import VQVAE
from course_lib.multimodal.words_then_codes import codes_loss, draw, row_of
from course_lib.recipes.glyph_names import image_tower
from course_lib.recipes.scenes import ScenesMuon
from course_lib.text.tokenizers import WordTokenizer
from course_lib.train import History, cosine, fit

CPU = torch.device("cpu")  # models this small are no faster on a GPU
BATCH, RATE, WARMUP = 64, 0.02, 20
N_CODES, CODE_WIDTH, CHANNELS, HALVINGS = 64, 32, 24, 2
SIDE = 32 // 2**HALVINGS  # 8 x 8 codes an image
PLACES = SIDE**2
CONV_SHARE = 0.15  # of the rate, for what Muon does not step
AWAKE, EVERY = 0.7, 50  # up to this share of the steps, dead codes are put elsewhere, once in so many
D_MODEL, HEADS, LAYERS = 96, 4, 4
NO_FACE = 0.15  # share of the names that lose their typeface
CODE_STEPS, DRAW_STEPS, PICK_STEPS = 2_400, 800, 800
# What was tried, one seed each, looking at names of validation and, for the codes, of test: 4 x 4 codes of 256 (0.50 to
# 0.69 of the letters of new names still themselves after 800 to 1,600 steps; 0.25 drawn rightly by a GPT of 1,200), 8 x
# 8 of 32 and of 64 (0.88 and 0.92 after 800 steps; 0.40 drawn rightly, of 64); a VQ-VAE of Latin letters alone, AdamW
# (both worse); for the GPT a dropout of 0.1, places as sums of row and column (no better), classifier-free guidance
# (0.38 without, 0.40 with a scale of 1.5), 600 to 1,500 steps.


# --- an image as codes


@cache
def unnamed() -> Tensor:
    """What the VQ-VAE sees: Latin, Greek and Cyrillic letters of the training names, all faces, (N, 1, 32, 32)."""
    return torch.from_numpy(glyphs.letters(names="train")[0])[:, None]


def images_of(images: Tensor, seed: int) -> Iterator[Tensor]:
    """Batches, each image as likely as the other."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield images[torch.randint(len(images), (BATCH,), generator=generator)]


def vq_vae(seed: int) -> VQVAE:
    """The VQ-VAE, untrained; its codes are vectors that it gives to 64 images now, for else most were never near."""
    torch.manual_seed(seed)
    model = VQVAE(N_CODES, CODE_WIDTH, CHANNELS, HALVINGS)
    with torch.no_grad():
        model.quantiser.share.zero_()
        generator = torch.Generator().manual_seed(seed)
        model.quantiser.revive(model.vectors(next(images_of(unnamed(), seed))), generator)
    return model


def conv_muon(model: nn.Module) -> ScenesMuon:
    """Muon with three rounds for windows of 3 x 3 and matrices of blocks, AdamW for the rest."""
    return ScenesMuon(model, CONV_SHARE, rounds=3)


def coded(model: VQVAE, seed: int, steps: int = CODE_STEPS, whole: int | None = None, awake: float = AWAKE,
          loss=VQVAE.loss, **how) -> History:  # fmt: skip
    """Train a VQ-VAE in place. whole: of how many steps these are the first; awake 0: dead codes stay dead."""
    generator, step, until = torch.Generator().manual_seed(seed), 0, awake * (whole or steps)

    def lessened(model, images):
        nonlocal step
        step += 1
        if step % EVERY == 0 and step < until:
            with torch.no_grad():
                model.quantiser.revive(model.vectors(images), generator)
        return loss(model, images)

    schedule = lambda step, all_steps: cosine(step, whole or all_steps, WARMUP)  # noqa: E731
    return fit(model, images_of(unnamed(), seed), lessened, steps=steps, lr=RATE, schedule=schedule,
               optimiser=conv_muon, **{"device": CPU, "progress": False, **how})  # fmt: skip


@torch.no_grad()
def codes_of(model: VQVAE, images: Tensor) -> Tensor:
    """The codes of many images, some at a time: (N, 64)."""
    with reading(model):
        return torch.cat([model.encode(some) for some in images.split(500)])


@torch.no_grad()
def painted(model: VQVAE, codes: Tensor) -> Tensor:
    """The images of many rows of codes, some at a time: (N, 1, 32, 32)."""
    with reading(model):
        return torch.cat([model.paint(some) for some in codes.split(500)])


# --- words, then codes


@cache
def tokenizer() -> WordTokenizer:
    """The words of the training names: small, capital, a to z, with, acute ..., in, sans, bold ..."""
    return WordTokenizer(named("train").texts)


@cache
def n_tokens() -> int:
    """The length to which every name is padded: that of the longest, and its end."""
    letter = max(len(mark.split()) for mark in marks())
    return len("small e with".split()) + letter + len("in sans bold italic".split()) + 1


def word_ids(texts: Sequence[str]) -> Tensor:
    """Names as words, padded to one length: (B, T). Raises ValueError, in words, for what is no such name."""
    texts = [" ".join(text.lower().split()) for text in texts]
    _check_names(texts)
    ids = [tokenizer().encode(text, end=True).tolist() for text in texts]
    return torch.tensor([row + [WordTokenizer.padding] * (n_tokens() - len(row)) for row in ids])


def gpt(seed: int) -> GPT:
    """The GPT over words and codes, untrained."""
    torch.manual_seed(seed)
    return GPT(GPTConfig(len(tokenizer()) + N_CODES, n_tokens() + PLACES, D_MODEL, HEADS, LAYERS))


def muon(model: nn.Module) -> Muon:
    """Muon with three rounds for the matrices of the blocks, AdamW for the rest."""
    return Muon(split(model), rounds=3)


def rows_of(known: Named, codes: Tensor, seed: int) -> Iterator[Tensor]:
    """Batches of rows, words and then codes (N, 64); of some names the typeface is left out."""
    full, short = word_ids(known.texts), word_ids([text.partition(" in ")[0] for text in known.texts])
    generator = torch.Generator().manual_seed(seed)
    while True:
        at = torch.randint(len(full), (BATCH,), generator=generator)
        chance = torch.rand(BATCH, 1, generator=generator)
        words = torch.where(chance < NO_FACE, short[at], full[at])
        yield row_of(words, codes[at], len(tokenizer()))


def written(model: GPT, rows: Iterator[Tensor], steps: int = DRAW_STEPS, whole: int | None = None, **how) -> History:
    """Train the GPT in place to write the codes behind the words. whole: of how many steps these are the first."""
    schedule = lambda step, all_steps: cosine(step, whole or all_steps, WARMUP)  # noqa: E731
    return fit(model, rows, lambda model, batch: codes_loss(model, batch, PLACES), steps=steps, lr=RATE,
               schedule=schedule, optimiser=muon, **{"device": CPU, "progress": False, **how})  # fmt: skip


def drawn(model: GPT, texts: Sequence[str], temperature: float = 1.0, seed: int = 0) -> Tensor:
    """The codes that a GPT draws for names, one image each: (B, 64)."""
    generator = torch.Generator().manual_seed(seed)
    parts = word_ids(texts).split(500)
    return torch.cat([draw(model, some, PLACES, len(tokenizer()), temperature, generator) for some in parts])


# --- what is right


class Judged(NamedTuple):
    """Shares of correct drawings: letter and accent; the letter with its case, the accent and the typeface alone."""

    right: float
    letter: float
    mark: float
    face: float


def nearest(images: Tensor, among: Tensor, at_once: int = 500) -> tuple[Tensor, Tensor]:
    """Which image of `among` differs least, dot by dot, and by how much (the root of the squares' sum): (N,) each."""
    found = [torch.cdist(some.flatten(1), among.flatten(1)).min(dim=1) for some in images.split(at_once)]
    return torch.cat([one.indices for one in found]), torch.cat([one.values for one in found])


PARTS = {
    "right": lambda row: (row.case, row.letter, row.marks),
    "letter": lambda row: (row.case, row.letter),
    "mark": lambda row: row.marks,
    "face": lambda row: row.face,
}


def rightly(images: Tensor, asked: Named, part: str = "right") -> list[bool]:
    """Which drawings are correct in a part: the nearest of all real letters, in all typefaces, has what was asked for.

    Letters of new names are among them, and nobody has learned from those: this judge is not trained at all.
    """
    read = [named(None).rows[n] for n in nearest(images, named(None).images)[0].tolist()]
    return [PARTS[part](one) == PARTS[part](other) for one, other in zip(read, asked.rows, strict=True)]


def judged(images: Tensor, asked: Named) -> Judged:
    """The shares of drawings that are correct, by `rightly`: as a whole, and in each part."""
    return Judged(*(sum(rightly(images, asked, part)) / len(images) for part in PARTS))


# --- a CLIP that picks


def picker(seed: int) -> CLIP:
    """Lesson 11's CLIP for these names, untrained."""
    torch.manual_seed(seed)
    return CLIP(image_tower(), TextTower(len(tokenizer()), n_tokens(), 64, 4, 1, 64, WordTokenizer.end))


def picked(model: CLIP, seed: int, steps: int = PICK_STEPS, **how) -> History:
    """Train the CLIP in place on the training names and their images."""
    known, generator = named("train"), torch.Generator().manual_seed(seed)
    words = word_ids(known.texts)

    def pairs():
        while True:
            at = torch.randint(len(words), (2 * BATCH,), generator=generator)
            yield known.images[at], words[at], (words[at][:, None] == words[at]).all(dim=2)

    return fit(model, pairs(), lambda model, batch: contrastive_loss(model(*batch[:2]), batch[2]), steps=steps, lr=RATE,
               optimiser=conv_muon, schedule=partial(cosine, warmup=WARMUP),
               **{"device": CPU, "progress": False, **how})  # fmt: skip


@torch.no_grad()
def fits(model: CLIP, images: Tensor, texts: Sequence[str]) -> Tensor:
    """How well each image fits its own name, by CLIP: cosines (N,)."""
    with reading(model):
        seen = torch.cat([model.image_features(some) for some in images.split(500)])
        return (seen * model.text_features(word_ids(texts))).sum(dim=1)


def _check_names(texts: Sequence[str]) -> None:
    known = {*tokenizer().vocab[WordTokenizer.unknown + 1 :]}
    for text in texts:
        if not text:
            raise ValueError("A name has at least one word, such as 'small e with acute'.")
        if unknown := [word for word in text.split() if word not in known]:
            raise ValueError(f"{unknown[0]!r} is no word of these names. They are: {' '.join(sorted(known))}.")
        if len(text.split()) >= n_tokens():
            raise ValueError(f"A name has at most {n_tokens() - 1} words, such as 'small e with acute in serif bold'; "
                             f"got {text!r}.")  # fmt: skip


# --- what is stored


@dataclass(frozen=True)
class CodesRecipe:
    """How the stored VQ-VAE is made: as the recorded ones, of a seed that no record holds, for longer.

    `about`: what it is, for the card. `half`: stored in half precision.
    """

    about: str
    lr: float = RATE
    steps: int = CODE_STEPS
    batch: int = BATCH
    seed: int = 5
    half: bool = True
    look: int = CODE_STEPS // 6

    MEASURED: ClassVar = {"test_error", "test_right"}  # what a record holds besides what every record does

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes, their width, channels of the first stage, how often the side is halved."""
        return N_CODES, CODE_WIDTH, CHANNELS, HALVINGS

    def model_of(self, record: dict) -> VQVAE:
        """A new model of the size that a record tells: there is one size."""
        return VQVAE(*self.sizes)

    def train(self, steps: int, **how) -> tuple[VQVAE, History, dict]:
        """Train a new model for so many of its steps -> the model, its history, and what was measured.

        The history's looks are [step, error of letters of validation names, painted from their codes].
        """
        model = vq_vae(self.seed)

        def error(split):
            images = named(split).images
            return (painted(model, codes_of(model, images)) - images).square().mean().item()

        history = coded(model, self.seed, steps, whole=self.steps, watch_every=self.look,
                        watch=lambda step: [step, error("validation")], **how)  # fmt: skip
        right = judged(painted(model, codes_of(model, named("test").images)), named("test")).right
        return model, history, {"test_error": error("test"), "test_right": right}

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        return f"{record['test_right']:.1%} of the letters of new names are still themselves, painted from their codes"

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        return f"{self.batch} images"


@dataclass(frozen=True)
class DrawerRecipe(CodesRecipe):
    """How the stored GPT over words and codes is made, from the codes of the stored VQ-VAE."""

    steps: int = DRAW_STEPS
    look: int = DRAW_STEPS // 4

    MEASURED: ClassVar = {"test_nats"}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Words and codes, tokens of a row, width, heads, layers."""
        return len(tokenizer()) + N_CODES, n_tokens() + PLACES, D_MODEL, HEADS, LAYERS

    def model_of(self, record: dict) -> GPT:
        """A new model of the size that a record tells: there is one size."""
        return gpt(self.seed)

    def train(self, steps: int, **how) -> tuple[GPT, History, dict]:
        """As `CodesRecipe.train`; looks are [step, nats per code after names of validation]."""
        from course_lib.recipes.stored import load

        model, codes = gpt(self.seed), load("letters_codes")[0]

        @torch.no_grad()
        def surprise(split):
            known = named(split)
            rows = row_of(word_ids(known.texts), codes_of(codes, known.images), len(tokenizer()))
            with reading(model):
                losses = [codes_loss(model, some, PLACES).item() * len(some) for some in rows.split(200)]
            return sum(losses) / len(rows)

        known = named("train")
        history = written(model, rows_of(known, codes_of(codes, known.images), self.seed), steps, whole=self.steps,
                          watch_every=self.look, watch=lambda step: [step, surprise("validation")], **how)  # fmt: skip
        return model, history, {"test_nats": surprise("test")}

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        return f"{record['test_nats']:.2f} nats a code after new names"

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        return f"{self.batch} rows of words and {PLACES} codes"


@dataclass(frozen=True)
class PickerRecipe(CodesRecipe):
    """How the stored CLIP that picks among drawings is made."""

    steps: int = PICK_STEPS
    look: int = PICK_STEPS // 4

    MEASURED: ClassVar = {"test_found"}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Words, tokens of a name, width and features, heads, layers of the text tower."""
        return len(tokenizer()), n_tokens(), 64, 4, 1

    def model_of(self, record: dict) -> CLIP:
        """A new model of the size that a record tells: there is one size."""
        return picker(self.seed)

    def train(self, steps: int, **how) -> tuple[CLIP, History, dict]:
        """As `CodesRecipe.train`; looks are [step, share of validation images that find their own name]."""
        model = picker(self.seed)

        @torch.no_grad()
        def found(split):
            known = named(split)
            with reading(model):
                scores = model(known.images, word_ids(known.texts))
            return (scores.argmax(dim=1) == torch.arange(len(scores))).double().mean().item()

        history = picked(model, self.seed, steps, watch_every=self.look,
                         watch=lambda step: [step, found("validation")], **how)  # fmt: skip
        return model, history, {"test_found": found("test")}

    def result(self, record: dict) -> str:
        """What a record says that the model is worth."""
        return f"{record['test_found']:.1%} of the letters of new names find their own name, typeface and all"

    def batches_in_words(self) -> str:
        """What it reads in a step."""
        return f"{2 * self.batch} images and their names"


LETTERS = {
    "letters_codes": CodesRecipe("VQ-VAE: 64 codes, 8 × 8 of them an image"),
    "letters_drawer": DrawerRecipe("GPT of four blocks, 96 wide, over the words of a name and the codes of its image"),
    "letters_clip": PickerRecipe("CLIP: convolutions of lesson 11 and a text tower of one block, 64 wide"),
}
