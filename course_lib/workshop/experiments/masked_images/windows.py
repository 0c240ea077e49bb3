"""Lesson 12, windows: what the shift brings to a painter that looks within windows, and what windows cost.

The painter is SimMIM's (Xie et al., 2022): every patch has a place, the hidden ones all read as one learned vector, and
one matrix paints. With windows nothing can be left out: a window needs its grid.
"""

import time
from functools import partial

import torch
from torch import Tensor, nn

from course_lib.attention.block import Encoder
from course_lib.language.muon import Muon, split
from course_lib.train import cosine, fit
from course_lib.vision.masked_patches import draw_seen
from course_lib.vision.patches import PatchEmbedding, patchify
from course_lib.vision.windows import WindowEncoder
from course_lib.workshop.experiments import each, experiment
from course_lib.workshop.recipes.masked_images import CPU, SIDE, asked, images_alone, seen_of, unlabelled

HERE = ["default"]  # the instruction set of what is dear
PATCH, WIDTH, HEADS, LAYERS, WINDOW = 4, 48, 4, 4, 4
GRID = (SIDE // PATCH, SIDE // PATCH)  # eight by eight: four windows of four by four
HIDDEN, STEPS, RATE = 0.75, 400, 0.02
# The side of a window, and in which blocks it is shifted by half of it.
LOOKS = {"windows": (WINDOW, "none"), "shifted windows": (WINDOW, "every other"), "all patches": (GRID[0], "none"),
         "windows elsewhere": (WINDOW, "all")}  # fmt: skip


class WindowPainter(nn.Module):
    """images (B, 1, 32, 32), seen (B, n) -> patches (B, N, P P), painted by a stack that looks within windows."""

    def __init__(self, side: int, shifted: str):
        super().__init__()
        n_places = GRID[0] * GRID[1]
        self.embed = PatchEmbedding(1, PATCH, WIDTH)
        self.hidden = nn.Parameter(0.02 * torch.randn(WIDTH))
        self.places = nn.Parameter(0.02 * torch.randn(n_places, WIDTH))
        self.encoder = WindowEncoder(WIDTH, HEADS, GRID, side, LAYERS, shifted=shifted == "every other")
        if shifted == "all":  # the borders stand elsewhere, and nothing crosses them
            self.encoder.blocks = WindowEncoder(WIDTH, HEADS, GRID, side, 2 * LAYERS).blocks[1::2]
        self.paint = nn.Linear(WIDTH, PATCH * PATCH)

    @property
    def blocks(self):
        """The encoder's, by the name under which `muon.split` finds their matrices."""
        return self.encoder.blocks

    def forward(self, images: Tensor, seen: Tensor) -> Tensor:
        x = self.embed(images)  # (B, N, D)
        hidden = torch.ones(x.shape[:2], dtype=torch.bool).scatter(1, seen, False)
        return self.paint(self.encoder(torch.where(hidden[..., None], self.hidden, x) + self.places))


def errors(painted: Tensor, images: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """The square error of each patch, and which are hidden: both (B, N)."""
    error = (painted - patchify(images, PATCH)).square().mean(dim=-1)
    return error, torch.ones_like(error).scatter(1, seen, 0.0)


def at_a_seam() -> Tensor:
    """Which places stand beside another window, (N,): rows and columns 3 and 4 of 0 to 7."""
    row, column = torch.arange(GRID[0] * GRID[1]) // GRID[1], torch.arange(GRID[0] * GRID[1]) % GRID[1]
    return ((row == 3) | (row == 4)) | ((column == 3) | (column == 4))


def painter(look: str, seed: int, steps: int = STEPS) -> WindowPainter:
    """A painter that looks so, trained: other patches are hidden of each image, each time."""
    torch.manual_seed(seed)
    model, generator = WindowPainter(*LOOKS[look]), torch.Generator().manual_seed(seed)

    def loss(model, images):
        seen = draw_seen(len(images), len(model.places), HIDDEN, generator)
        error, hidden = errors(model(images, seen), images, seen)
        return (error * hidden).sum() / hidden.sum()

    fit(model, images_alone(unlabelled(), seed), loss, steps=steps, lr=RATE, schedule=partial(cosine, warmup=20),
        optimiser=lambda model: Muon(split(model), rounds=3), device=CPU, progress=False)  # fmt: skip
    return model.eval()


@experiment(each(look=list(LOOKS)), cpus=HERE)
def shifts(seed, look):
    """Error of hidden patches, of the mean image's, beside the borders of `windows` and not, by the painter's look."""
    model, images = painter(look, seed), asked()
    seen = seen_of(images, HIDDEN, len(model.places))
    with torch.no_grad():
        error, hidden = errors(model(images, seen), images, seen)
    own, mean = at_a_seam().expand_as(hidden), patchify(unlabelled(), PATCH).mean(dim=0)
    of_mean = errors(mean.expand(len(images), -1, -1), images, seen)[0]
    found = {"by place": (error * hidden).sum(dim=0) / (of_mean * hidden).sum(dim=0)}
    for where, there in (("seam", own), ("inside", ~own)):
        found[where] = (error * hidden)[there].sum() / (of_mean * hidden)[there].sum()
    return found


SIZES = (64, 128, 256)  # pixels a side, patches of four: 256, 1,024 and 4,096 places


@experiment(each(pixels=SIZES), [0], HERE)
def cost(seed, pixels):
    """Seconds of one core that two blocks take, forward and back, one image: within windows, and over all patches."""
    torch.manual_seed(seed)
    grid = (pixels // PATCH, pixels // PATCH)
    x = torch.randn(1, grid[0] * grid[1], WIDTH)
    looks = {"windows": WindowEncoder(WIDTH, HEADS, grid, WINDOW, 2), "all patches": Encoder(WIDTH, HEADS, 2,
             pre_norm=True)}  # fmt: skip
    taken = {name: [] for name in looks}
    for _ in range(5):
        for name, encoder in looks.items():
            start = time.thread_time()
            encoder(x).sum().backward()
            taken[name].append(time.thread_time() - start)
    return {name: sorted(seconds)[len(seconds) // 2] for name, seconds in taken.items()}
