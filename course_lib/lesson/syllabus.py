"""The lessons of the course in their order: the one place that lists them, and the files that each of them brings.

The README's map, the layering test, the groups of tests and the progress board are made from this list.
"""

from dataclasses import dataclass

# Concept files that no single lesson owns; they come before every lesson's own.
SHARED = ("tokenizers.py", "sequences.py", "reach.py")


@dataclass(frozen=True)
class Lesson:
    """One lesson: its number, its slug (as in notebooks/NN_slug.ipynb), its title and the question it answers.

    files: what it brings into course_lib/, in the order in which it may be imported; a concept lies on the shelf
    itself ("rnn.py"), what serves it in a room ("data/dates/"). Its exercises are exercises/<slug>.py. A file that
    another one imports before its own lesson teaches it stands in both.
    """

    number: int
    slug: str
    title: str
    question: str
    files: tuple[str, ...] = ()

    @property
    def notebook(self) -> str:
        """The file name of its notebook."""
        return f"{self.number:02d}_{self.slug}.ipynb"


LESSONS = (
    Lesson(
        0,
        "start_here",
        "Start here",
        "How does this course work, and is this machine ready for it?",
        ("lesson/", "lesson/machine.py"),
    ),
    Lesson(
        1,
        "rnn_bptt",
        "Recurrent networks and back-propagation through time",
        "How can one network read a sequence of any length?",
        ("rnn.py", "language_model.py"),
    ),
    Lesson(
        2,
        "lstm_gradient_flow",
        "LSTM and the gradient's highway",
        "Why do plain RNNs forget, and what does a gate change?",
        ("stacked.py", "lstm.py", "train/stored.py", "data/long_memory.py"),
    ),
    Lesson(
        3,
        "seq2seq",
        "Sequence to sequence",
        "How does one network write what another has read?",
        (
            "attention.py",
            "pairs.py",
            "seq2seq.py",
            "decode.py",
            "translator.py",
            "data/dates/",
            "data/grammar/",
            "data/interface.py",
        ),
    ),
    Lesson(
        4,
        "attention_alignment",
        "Attention that aligns",
        "Must a sentence fit in one vector?",
        ("attention.py", "alignment_error.py", "show/attention_views/"),
    ),
    Lesson(
        5,
        "positional_encodings",
        "Self-attention and positions",
        "What knows the order when nothing is read in order?",
        ("attention.py", "positions.py", "order_model.py", "data/order.py"),
    ),
    Lesson(
        6,
        "transformer",
        "The Transformer",
        "What is left when the recurrence is taken out?",
        ("multi_head.py", "norms.py", "block.py", "transformer.py"),
    ),
    Lesson(
        7,
        "gpt",
        "GPT",
        "What does predicting the next token buy?",
        (
            "counts.py",
            "bpe.py",
            "generate.py",
            "gpt.py",
            "muon.py",
            "next_token.py",
            "llama_weights.py",
            "decoder.py",
            "in_context.py",
            "data/word_tasks.py",
            "train/published.py",
        ),
    ),
    Lesson(
        8,
        "bert",
        "BERT",
        "What if the model may look both ways?",
        (
            "wordpiece.py",
            "bert_weights.py",
            "bert.py",
            "bert_heads.py",
            "bert_labels.py",
            "masked_words.py",
            "pretraining.py",
            "data/emoji.py",
            "data/baselines.py",
            "data/play_tasks.py",
            "data/play_baselines.py",
            "data/senses.py",
        ),
    ),
    Lesson(
        9,
        "vit",
        "Vision Transformer",
        "Is an image a sentence of patches?",
        (
            "images.py",
            "patches.py",
            "convnet.py",
            "vit.py",
            "rollout.py",
            "distillation.py",
            "masked_patches.py",
            "data/fashion.py",
            "train/stored_images.py",
        ),
    ),
)


def concepts() -> list[str]:
    """The names of the concept files in teaching order: each may import those before it."""
    files = [*SHARED, *(file for lesson in LESSONS for file in lesson.files)]
    return [file.removesuffix(".py") for file in dict.fromkeys(files) if "/" not in file]
