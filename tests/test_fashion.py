"""Fashion-MNIST: what is said where it is missing, the four files read right, and, where it is there, its numbers."""

import gzip
import re
import shutil
import struct

import datasets
import numpy as np
import pytest
import torch

from course_lib.data import SPLITS, fashion, read_card, sha256

there = pytest.mark.skipif(not fashion.is_there(), reason=f"Fashion-MNIST is not installed: {fashion.HOW}")
SIZES = {"train": 30, "t10k": 10}  # of the small stand-in below


@pytest.fixture(autouse=True)
def anew():
    fashion._installed.cache_clear()
    fashion._fetched.cache_clear()
    yield
    fashion._installed.cache_clear()
    fashion._fetched.cache_clear()


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Four files of the same form with 40 pictures in all, known by their checksum; the folder, and what they hold."""
    random, whole, files = np.random.default_rng(0), {}, {}
    for part, size in SIZES.items():
        images = random.integers(0, 256, (size, 28, 28), dtype=np.uint8)
        labels = np.arange(size, dtype=np.uint8) % 10
        names = fashion.FILES[part][:2]
        files[part] = (*names, size)
        heads = struct.pack(">4I", 2051, size, 28, 28), struct.pack(">2I", 2049, size)
        for name, head, values in zip(names, heads, (images, labels), strict=True):
            (tmp_path / name).write_bytes(gzip.compress(head + values.tobytes()))
        whole[part] = images, labels
    monkeypatch.setenv(fashion.VARIABLE, str(tmp_path))
    monkeypatch.setattr(fashion, "FILES", files)
    cuts = {"train": ("train", 0, 20), "validation": ("train", 20, 30), "test": ("t10k", 0, 10)}
    monkeypatch.setattr(fashion, "CUTS", cuts)
    bits = b"".join(values.tobytes() for pair in whole.values() for values in pair)
    monkeypatch.setattr(fashion, "CHECKSUM", sha256(bits))
    return tmp_path, whole


def test_the_files_are_read_as_they_are_written(small):
    _, whole = small
    assert fashion.is_there()
    for split, (part, first, last) in fashion.CUTS.items():
        images, labels = fashion.arrays(split)
        assert images.dtype == np.float32 and labels.dtype == np.int64 and images.min() >= 0 and images.max() <= 1
        np.testing.assert_array_equal((images * 255).round().astype(np.uint8), whole[part][0][first:last])
        np.testing.assert_array_equal(labels, whole[part][1][first:last])
        labels[:] = -1
        assert fashion.arrays(split)[1].min() == 0  # what a caller does to the arrays stays with the caller


def test_load_gives_tensors(small):
    _, whole = small
    loaded = fashion.load()
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    columns = loaded["validation"][:]
    assert columns["image"].dtype == torch.int64 and columns["image"].shape == (10, 28, 28)
    assert columns["image"].numpy().tolist() == whole["train"][0][20:].tolist()
    assert loaded["train"].features["label"].names == list(fashion.NAMES)
    assert loaded["test"][:]["label"].tolist() == list(range(10))


def test_the_hub_gives_the_same(small, monkeypatch):
    _, whole = small
    tables = {
        name: datasets.Dataset.from_dict({"image": list(whole[part][0]), "label": whole[part][1]}).with_format("numpy")
        for name, part in (("train", "train"), ("test", "t10k"))
    }
    monkeypatch.setattr(fashion, "from_hub", lambda source, known, instead: tables)
    for split in SPLITS:
        for one, other in zip(fashion.arrays(split, "hub:fashion"), fashion.arrays(split), strict=True):
            np.testing.assert_array_equal(one, other)


def test_where_it_is_missing_one_sentence_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv(fashion.VARIABLE, str(tmp_path))
    assert not fashion.is_there()
    for ask in (lambda: fashion.arrays("test"), fashion.load):
        with pytest.raises(FileNotFoundError, match="is not here .*apt-get install dataset-fashion-mnist.*hub:fashion"):
            ask()
    with pytest.raises(ConnectionError, match="hub:fashion cannot be had|needs the network"):
        fashion.arrays("test", "hub:fashion")
    with pytest.raises(ValueError, match="source must be one of 'installed', 'hub:fashion'; got 'hub:mnist'"):
        fashion.arrays("test", "hub:mnist")
    with pytest.raises(ValueError, match="'train', 'validation' or 'test', not 'all'"):
        fashion.arrays("all")
    monkeypatch.delenv(fashion.VARIABLE)
    assert fashion.folder() == fashion.FOLDER


@pytest.mark.parametrize("harm", ["cut", "not packed", "other size", "other pictures"])
def test_a_damaged_file_is_refused_in_words(small, monkeypatch, harm):
    folder, whole = small
    path = folder / fashion.FILES["t10k"][0]
    good = gzip.decompress(path.read_bytes())
    bad = {
        "cut": path.read_bytes()[:-500],
        "not packed": good,
        "other size": gzip.compress(good[:-784]),
        "other pictures": gzip.compress(good[:-1] + bytes([good[-1] ^ 1])),
    }
    path.write_bytes(bad[harm])
    words = "are not the Fashion-MNIST that this course knows" if harm == "other pictures" else "are damaged"
    with pytest.raises(RuntimeError, match=f"{words}.*apt-get install dataset-fashion-mnist"):
        fashion.arrays("test")


def test_without_datasets_the_arrays_are_there(small, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(ModuleNotFoundError, match="needs the package datasets, which is missing"):
        fashion.load()
    assert len(fashion.arrays("test")[0]) == 10


def test_the_card_names_the_checksum():
    assert f"checksum `{fashion.CHECKSUM}`" in read_card("fashion")


@there
def test_counts_and_checksum_are_those_of_the_card():
    counts = {split: np.bincount(fashion.arrays(split)[1]).tolist() for split in SPLITS}
    assert {split: sum(each) for split, each in counts.items()} == {
        "train": 55_000,
        "validation": 5_000,
        "test": 10_000,
    }
    assert counts["test"] == [1000] * 10 and min(counts["validation"]) >= 450


@there
def test_no_picture_is_in_two_splits_or_twice_in_one():
    seen = [image.tobytes() for split in SPLITS for image in fashion._steps(split, "installed")[0]]
    assert len(set(seen)) == len(seen) == 70_000


@there
def test_the_nearest_mean_is_right_as_often_as_the_card_says():
    (known, names), (asked, truth) = fashion.arrays("train"), fashion.arrays("test")
    known, asked = known.reshape(len(known), -1), asked.reshape(len(asked), -1)
    means = np.stack([known[names == kind].mean(0) for kind in range(10)])
    nearest = (np.square(means).sum(1) - 2 * asked @ means.T).argmin(1)
    said = re.search(r"nearest to .* names (\d+) in 100", " ".join(read_card("fashion").split()))
    assert round(100 * (nearest == truth).mean()) == int(said.group(1))


@there
def test_a_copy_of_the_folder_does_as_well(tmp_path, monkeypatch):
    for *names, _ in fashion.FILES.values():
        for name in names:
            shutil.copy(fashion.folder() / name, tmp_path)
    monkeypatch.setenv(fashion.VARIABLE, str(tmp_path))
    assert len(fashion.arrays("validation")[0]) == 5_000
