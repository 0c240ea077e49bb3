"""How lesson 13's model is made, pre-trained on texts and tuned on a few pairs: sentences about territories.

known = pretrained(seed=0)                              # it has read every sentence, and no question
tuned(known, pairs(facts("train")[:50]), steps=TUNING)  # 50 questions with their answers
answered(known, facts("test"))                          # of places about which nothing was asked

The text: each fact of `territories` in its six sentences, in small letters. A pair: a question, and its answer. The
places of the test questions stand in the text and in no pair: what is right about them was read, or guessed.
"""

import random
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from course_lib.attention.transformer import Transformer
from course_lib.data.territories import Fact, facts, wordings
from course_lib.data.territory_wordings import KINDS
from course_lib.text.pairs import END, PADDING, START, batches, shift
from course_lib.text.tokenizers import WordTokenizer, words
from course_lib.text_to_text.noise import text_infilling
from course_lib.text_to_text.spans import span_corruption
from course_lib.train import History, cosine, fit
from course_lib.translation.translator import Translator, translation_loss

CPU = torch.device("cpu")  # models this small are no faster on a GPU
SENTINELS = tuple(f"<{letter}>" for letter in "XYZABCDE")
SHARE, MEAN = 0.3, 2.0  # of the tokens that are hidden, and how many stand side by side on average
WIDTH, N_LAYERS, BATCH, RATE = 96, 2, 32, 3e-3
