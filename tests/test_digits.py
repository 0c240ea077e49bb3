"""The digits: the source's own values, split without leaks; and what is made in data/README.md."""

from functools import cache

import datasets
import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from course_lib.data import SPLITS, __main__, digits, read_card


@cache
def all_splits():
    return {split: digits.arrays(split) for split in SPLITS}


def test_counts_and_checksum_are_pinned():
    assert {split: len(labels) for split, (_, labels) in all_splits().items()} == {
        "train": 1157, "validation": 258, "test": 382,
    }  # fmt: skip
    assert digits.checksum() == "a9ec20aa084f4d578502bd96c81da5b0f679d0eedc59bf798e6aa8d3f8857968"


def test_the_splits_together_are_scikit_learns_digits():
    source = load_digits()
    np.testing.assert_array_equal(np.concatenate([images for images, _ in all_splits().values()]), source.images / 16)
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in all_splits().values()]), source.target)


def test_values_are_ink_from_zero_to_one():
    for images, labels in all_splits().values():
        assert images.dtype == np.float32 and images.shape == (len(labels), 8, 8)
        assert images.min() == 0 and images.max() == 1
        assert labels.dtype == np.int64


def test_no_image_is_in_two_splits_or_twice_in_one():
    seen = [image.tobytes() for images, _ in all_splits().values() for image in images]
    assert len(set(seen)) == len(seen) == 1797


def test_every_split_holds_every_digit_about_equally_often():
    for _, labels in all_splits().values():
        share = np.bincount(labels, minlength=10) / len(labels)
        assert share.min() > 0.09 and share.max() < 0.105


def test_a_split_begins_where_a_form_begins():
    for _, labels in all_splits().values():  # every writer first wrote 0 1 2 … 9, three times
        assert labels[:30].tolist() == 3 * list(range(10))


def test_the_nearest_image_of_train_is_right_as_often_as_the_card_says():
    (known, names), (asked, truth) = all_splits()["train"], all_splits()["test"]
    distance = ((asked[:, None] - known[None]) ** 2).sum((2, 3))
    right = (names[distance.argmin(1)] == truth).mean()
    assert f"already names {right:.0%}".replace("%", " in 100") in " ".join(read_card("digits").split())


def test_load_gives_tensors():
    loaded = digits.load()
    assert isinstance(loaded, datasets.DatasetDict) and list(loaded) == list(SPLITS)
    for split, (images, labels) in all_splits().items():
        columns = loaded[split][:]
        assert columns["image"].dtype == torch.float32 and columns["label"].dtype == torch.int64
        torch.testing.assert_close(columns["image"], torch.from_numpy(images), rtol=0, atol=0)
        assert columns["label"].tolist() == labels.tolist()
    assert loaded["train"].features["label"].names == list("0123456789")


def test_what_a_caller_does_to_the_arrays_stays_with_the_caller():
    images, labels = digits.arrays("test")
    images[:], labels[:] = -1, -1
    assert digits.arrays("test")[0].min() == 0 and digits.arrays("test")[1].min() == 0


def test_a_damaged_file_says_what_to_do(monkeypatch):
    digits._read.cache_clear()
    monkeypatch.setattr(digits, "CHECKSUM", "0" * 64)
    with pytest.raises(RuntimeError, match="pip install --force-reinstall --no-deps scikit-learn==1.9.1"):
        digits.arrays("test")


@pytest.mark.slow
def test_what_is_made_in_the_readme_is_what_the_corpora_are_now():
    written = __main__.README.read_text(encoding="utf-8")
    assert written == __main__.readme(), "what the cards tell has changed: run `python -m course_lib.data`"
    for split, (_, labels) in all_splits().items():
        assert f"| {split} | {len(labels):,} |" in written


def test_what_is_made_is_made_anew_and_what_is_written_by_hand_stays(monkeypatch, tmp_path):
    written = "# Data\n\n<!-- made:digits -->\nold\n<!-- /made -->\n\nBy hand.\n"
    (tmp_path / "README.md").write_text(written, encoding="utf-8")
    monkeypatch.setattr(__main__, "README", tmp_path / "README.md")
    __main__.main()
    assert [file.name for file in tmp_path.iterdir()] == ["README.md"]
    now = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| train | 1,157 | 114, 117," in now and "old" not in now and now.endswith("By hand.\n")
