"""DeiT-Tiny, a Vision Transformer that others trained on photographs, where the hub can be had. Lesson 09.

5.7 million parameters, 1.3 million photographs of ImageNet in 1,000 classes (Touvron et al., 2021); Apache-2.0. No
package carries it, so it comes from the Hugging Face hub: one commit of its repository, its weights compared with the
checksum that the commit names. It is unpickled as numbers only; no code from it is run.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from torch import Tensor

from course_lib.data import hub_answers
from course_lib.vision.vit import ViT

REPOSITORY, REVISION = "facebook/deit-tiny-patch16-224", "b3428f18dcc7b543470d07f14b4a4157815d1880"
CONFIG, WEIGHTS = "config.json", "pytorch_model.bin"
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's red, green and blue


def deit_tiny() -> tuple[ViT, list[str]]:
    """The model as a `ViT`, and the names of its 1,000 classes; 23 MB, fetched once into the hub's own cache.

    Raises ConnectionError, in a sentence and within seconds, where the hub cannot be had; ValueError for a file that is
    not what the commit says.
    """
    from transformers import ViTForImageClassification

    paths = [_file(name) for name in (CONFIG, WEIGHTS)]
    theirs = ViTForImageClassification.from_pretrained(paths[0].parent, local_files_only=True)
    return ViT.from_hf(theirs).eval(), [theirs.config.id2label[n] for n in range(theirs.config.num_labels)]


def as_imagenet(images: Tensor) -> Tensor:
    """images (B, 3, H, W) from 0 to 1, less the mean and over the spread of ImageNet's colours, as DeiT reads them."""
    mean, spread = (images.new_tensor(numbers).view(3, 1, 1) for numbers in (MEAN, SPREAD))
    return (images - mean) / spread


def _file(name: str) -> Path:
    """A file of the commit, out of the hub's cache or fetched."""
    from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache

    path = try_to_load_from_cache(REPOSITORY, name, revision=REVISION)
    if not isinstance(path, str):
        offline = ConnectionError("DeiT-Tiny comes from the Hugging Face hub, which cannot be reached here.")
        if not constants.HF_HUB_OFFLINE and not hub_answers(constants.ENDPOINT):
            raise offline
        try:
            path = hf_hub_download(REPOSITORY, name, revision=REVISION)
        except Exception as error:
            raise offline from error
    kept = Path(path).resolve()  # where the system has links, the hub's cache keeps a large file under its SHA-256
    if name == WEIGHTS and kept.name not in (name, hashlib.sha256(kept.read_bytes()).hexdigest()):
        raise ValueError("DeiT-Tiny's weights are damaged: remove them from the hub's cache, and run this again.")
    return Path(path)
