"""Weights of g2p_en, which others trained to say how a word sounds, in a `Seq2Seq` of ours. Lesson 03.

    model = from_g2p(published.arrays("g2p"))
    model.translate([spelled("photograph")])     # [["F", "OW1", "T", "AH0", "G", "R", "AE2", "F"]]

Shapes: H = 256, the width of everything in it.
"""

from torch import Tensor

from course_lib.text.tokenizers import WordTokenizer
from course_lib.translation.seq2seq import Seq2Seq
from course_lib.translation.translator import Translator

LETTERS = "abcdefghijklmnopqrstuvwxyz"
END_SIGN = "</s>"  # what the encoder reads behind the last letter
SOUNDS = (  # those of the CMU Pronouncing Dictionary; the digit of a vowel is its stress
    "AA0 AA1 AA2 AE0 AE1 AE2 AH0 AH1 AH2 AO0 AO1 AO2 AW0 AW1 AW2 AY0 AY1 AY2 B CH D DH EH0 EH1 EH2 ER0 ER1 ER2 EY0 EY1 "
    "EY2 F G HH IH0 IH1 IH2 IY0 IY1 IY2 JH K L M N NG OW0 OW1 OW2 OY0 OY1 OY2 P R S SH T TH UH0 UH1 UH2 UW UW0 UW1 UW2 "
    "V W Y Z ZH"
).split()
# Row by row of our tables, the row of theirs: they have <pad> <unk> </s> a b c ... and <pad> <unk> <s> </s> AA0 AA1 ...
LETTER_ROWS = [0, 0, 0, 1, *range(2, 3 + len(LETTERS))]  # our encoder never reads a start or an end of its own
SOUND_ROWS = [0, 2, 3, 1, *range(4, 4 + len(SOUNDS))]


def from_g2p(weights: dict[str, Tensor]) -> Translator:
    """Encoder and decoder GRU with one vector between them, from the arrays of checkpoint20.npz, by their names.

    enc_emb (29, H), dec_emb (74, H); enc_w_ih, enc_w_hh (3H, H), enc_b_ih, enc_b_hh (3H), the same for dec, gates in
    PyTorch's order r, z, n; fc_w (74, H), fc_b (74). It reads what `spelled` gives. Raises ValueError for others.
    """
    _check_names(weights)
    reads, writes = WordTokenizer([[*LETTERS, END_SIGN]]), WordTokenizer([SOUNDS])
    width = weights["enc_emb"].shape[1]
    model = Seq2Seq(len(reads), len(writes), width, width, cell="gru")
    ours = {
        "encoder.embed.weight": weights["enc_emb"][LETTER_ROWS],
        "decoder.embed.weight": weights["dec_emb"][SOUND_ROWS],
        "decoder.readout.weight": weights["fc_w"][SOUND_ROWS],
        "decoder.readout.bias": weights["fc_b"][SOUND_ROWS],
    }
    for side, network in (("enc", "encoder"), ("dec", "decoder")):
        for part, name in (("w", "weight"), ("b", "bias")):
            ours |= {f"{network}.rnn.fused.{name}_{k}_l0": weights[f"{side}_{part}_{k}"] for k in ("ih", "hh")}
    model.load_state_dict(ours)
    return Translator(model.eval(), reads, writes)


def spelled(word: str) -> list[str]:
    """What the encoder reads of a word: its letters in small, and the sign that it ends."""
    return [*word.lower(), END_SIGN]


def _check_names(weights: dict[str, Tensor]) -> None:
    wanted = {"enc_emb", "dec_emb", "fc_w", "fc_b"} | {
        f"{side}_{part}_{k}" for side in ("enc", "dec") for part in "wb" for k in ("ih", "hh")
    }
    if weights.keys() != wanted or weights["fc_w"].shape[0] != len(SOUND_ROWS):
        raise ValueError("These are not the weights of g2p_en: `published.arrays('g2p')` gives them.")
