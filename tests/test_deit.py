"""DeiT-Tiny by the hub: read off files as the hub keeps them, refused where damaged, one sentence without a network."""

import hashlib
import re

import pytest
import torch

from course_lib.workshop.recipes import deit

# How the published file calls what transformers calls otherwise by now.
OLD_NAMES = [
    (r"^vit\.layers\.(\d+)\.", r"vit.encoder.layer.\1."),
    (r"attention\.q_proj", "attention.attention.query"),
    (r"attention\.k_proj", "attention.attention.key"),
    (r"attention\.v_proj", "attention.attention.value"),
    (r"attention\.o_proj", "attention.output.dense"),
    (r"mlp\.fc1", "intermediate.dense"),
    (r"mlp\.fc2", "output.dense"),
]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A small random model under the published names, laid out as in the hub's cache: links to files by SHA-256."""
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 48}
    labels = {0: "temple", 1: "flower"}
    config = ViTConfig(image_size=32, patch_size=8, layer_norm_eps=1e-12, id2label=labels, **sizes)
    theirs = ViTForImageClassification(config).eval()
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    state = theirs.state_dict()
    for new, old in OLD_NAMES:
        state = {re.sub(new, old, name): weight for name, weight in state.items()}
    folder, blobs = tmp_path / "snapshot", tmp_path / "blobs"
    blobs.mkdir()
    folder.mkdir()
    torch.save(state, tmp_path / deit.WEIGHTS)
    content = (tmp_path / deit.WEIGHTS).read_bytes()
    blob = blobs / hashlib.sha256(content).hexdigest()
    blob.write_bytes(content)
    config.architectures = ["ViTForImageClassification"]
    config.save_pretrained(folder)
    (folder / deit.WEIGHTS).symlink_to(blob)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda repo, name, revision: str(folder / name))
    return theirs, blob


def test_the_published_files_give_their_logits(kept):
    """deit_tiny: the same logits as Hugging Face's, from a file with the names of its time; classes in order."""
    ours, names = deit.deit_tiny()
    images = torch.rand(3, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(ours(images), kept[0](images).logits, atol=1e-4, rtol=1e-4)
    assert names == ["temple", "flower"] and not ours.training


def test_a_damaged_file_is_refused(kept):
    kept[1].write_bytes(kept[1].read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match="weights are damaged"):
        deit.deit_tiny()


def test_what_is_not_there_is_fetched_at_its_commit(kept, monkeypatch):
    """Each file is asked for by repository, name and commit, once the hub has answered."""
    ready, asked = __import__("huggingface_hub").try_to_load_from_cache, []
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *name, revision: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(deit, "hub_answers", lambda address: True)
    monkeypatch.setattr("huggingface_hub.hf_hub_download",
                        lambda *name, revision: asked.append((*name, revision)) or ready(*name, revision))  # fmt: skip
    deit.deit_tiny()
    assert asked == [(deit.REPOSITORY, name, deit.REVISION) for name in (deit.CONFIG, deit.WEIGHTS)]
    assert re.fullmatch(r"[0-9a-f]{40}", deit.REVISION)


def test_without_a_network_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *name, revision: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ConnectionError, match="which cannot be reached here"):
        deit.deit_tiny()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConnectionError, match="which cannot be reached here"):
        deit.deit_tiny()


def test_colours_are_as_imagenet_counts_them():
    """as_imagenet: the mean colour becomes 0, one spread more becomes 1."""
    mean, spread = torch.tensor(deit.MEAN).view(1, 3, 1, 1), torch.tensor(deit.SPREAD).view(1, 3, 1, 1)
    torch.testing.assert_close(deit.as_imagenet(mean + spread), torch.ones(1, 3, 1, 1))
