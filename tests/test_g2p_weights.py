"""weights/g2p_weights.py: the published network's words, its logits against a forward pass of our own in NumPy."""

import numpy as np
import pytest
import torch

from course_lib.train import published
from course_lib.weights.g2p_weights import LETTERS, SOUNDS, from_g2p, spelled

PATH = published.find("g2p")
there = pytest.mark.skipif(PATH is None, reason="g2p_en is not here: python -m course_lib.train.published g2p")
THEIR_LETTERS = ["<pad>", "<unk>", "</s>", *LETTERS]
THEIR_SOUNDS = ["<pad>", "<unk>", "<s>", "</s>", *SOUNDS]


@pytest.fixture(scope="module")
def g2p():
    return from_g2p(published.arrays("g2p"))


def gru(arrays, side, x, h):
    """One step of their GRU, gates r, z, n in this order, the reset inside n."""
    from_x = arrays[f"{side}_w_ih"] @ x + arrays[f"{side}_b_ih"]
    from_h = arrays[f"{side}_w_hh"] @ h + arrays[f"{side}_b_hh"]
    (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(from_x, 3), np.split(from_h, 3)
    r, z = 1 / (1 + np.exp(-(r_x + r_h))), 1 / (1 + np.exp(-(z_x + z_h)))
    return (1 - z) * np.tanh(n_x + r * n_h) + z * h


def in_numpy(arrays, word, said):
    """Their logits (T, 74), in their order, at each sound of `said` and behind the last, float64."""
    h = np.zeros(256)
    for letter in [*word, "</s>"]:
        h = gru(arrays, "enc", arrays["enc_emb"][THEIR_LETTERS.index(letter)], h)
    logits = []
    for sound in ["<s>", *said]:
        h = gru(arrays, "dec", arrays["dec_emb"][THEIR_SOUNDS.index(sound)], h)
        logits.append(arrays["fc_w"] @ h + arrays["fc_b"])
    return np.stack(logits)


@there
@pytest.mark.parametrize(
    "word, said",
    [
        ("photograph", "F OW1 T AH0 G R AE2 F"),
        ("psychology", "S AY0 K AA1 L AH0 JH IY0"),
        ("knight", "N AY1 T"),
        ("Photograph", "F OW1 T AH0 G R AE2 F"),
    ],
)
def test_words_come_out_as_published(g2p, word, said):
    """from_g2p, spelled: greedy decoding."""
    assert g2p.translate([spelled(word)], max_len=40) == [said.split()]


@there
def test_a_long_word_loses_its_end_and_stops_by_itself(g2p):
    [said] = g2p.translate([spelled("antidisestablishmentarianism")], max_len=60)
    assert said[:3] == ["AE2", "N", "T"] and len(said) == 18  # 28 would be right


@there
@pytest.mark.parametrize("word", ["a", "photograph", "antidisestablishmentarianism"])
def test_logits_are_those_of_a_forward_pass_written_apart(g2p, word):
    with np.load(PATH) as found:
        arrays = {key: found[key].astype(np.float64) for key in found.files}
    [said] = g2p.translate([spelled(word)], max_len=40)
    expected = in_numpy(arrays, word, said)
    source, real = g2p.reads.batch([spelled(word)])
    target, _ = g2p.writes.batch([said], start=True)
    with torch.no_grad():
        ours = g2p.model(source, real.sum(1), target)[0][0].numpy()  # (T, 74)
    names = ["<pad>", "<s>", "</s>", "<unk>", *SOUNDS]
    assert ours.shape == expected.shape
    np.testing.assert_allclose(ours, expected[:, [THEIR_SOUNDS.index(name) for name in names]], atol=2e-5)
    best = [THEIR_SOUNDS[k] for k in expected.argmax(1)]
    assert best == [*said, "</s>"]


@there
def test_words_in_one_batch_do_not_touch_each_other(g2p):
    some = ["photograph", "a", "psychology", "knight"]
    alone = [g2p.translate([spelled(word)], max_len=40)[0] for word in some]
    assert g2p.translate([spelled(word) for word in some], max_len=40) == alone


@there
def test_it_is_an_encoder_one_vector_and_a_decoder(g2p):
    memory, state = g2p.model.encode(*g2p.reads.batch([spelled("cat")])[:1])
    assert state.shape == (1, 1, 256) and g2p.writes.vocab[4:] == SOUNDS == sorted(SOUNDS)
    assert g2p.reads.vocab[4:] == ["</s>", *LETTERS] and memory.shape == (1, 4, 256)
    theirs = sum(part.numel() for part in published.arrays("g2p").values())
    assert theirs == 834_890 and sum(p.numel() for p in g2p.model.parameters()) == theirs + 2 * 256  # two rows unread


@pytest.mark.parametrize("change", [lambda w: w.pop("fc_b"), lambda w: w.update(fc_w=torch.zeros(80, 4))])
def test_other_weights_are_refused_in_words(change):
    weights = {f"{s}_{p}_{k}": torch.zeros(12) for s in ("enc", "dec") for p in "wb" for k in ("ih", "hh")}
    weights |= {"enc_emb": torch.zeros(29, 4), "dec_emb": torch.zeros(74, 4), "fc_w": torch.zeros(74, 4)}
    weights["fc_b"] = torch.zeros(74)
    change(weights)
    with pytest.raises(ValueError, match="not the weights of g2p_en: `published.arrays"):
        from_g2p(weights)
