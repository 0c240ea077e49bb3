"""The lessons of the course in their order: the one place that lists them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Lesson:
    """One lesson: its number, slug (as in notebooks/NN_slug.ipynb), title and the question it answers."""

    number: int
    slug: str
    title: str
    question: str

    @property
    def notebook(self) -> str:
        """The file name of its notebook."""
        return f"{self.number:02d}_{self.slug}.ipynb"


LESSONS = (
    Lesson(0, "start_here", "Start here", "How does this course work, and is this machine ready for it?"),
    Lesson(
        1,
        "rnn_bptt",
        "Recurrent networks and back-propagation through time",
        "How can one network read a sequence of any length?",
    ),
    Lesson(
        2,
        "lstm_gradient_flow",
        "LSTM and the gradient's highway",
        "Why do plain RNNs forget, and what does a gate change?",
    ),
    Lesson(3, "seq2seq", "Sequence to sequence", "How does one network write what another has read?"),
    Lesson(4, "attention_alignment", "Attention that aligns", "Must a sentence fit in one vector?"),
    Lesson(
        5,
        "positional_encodings",
        "Self-attention and positions",
        "What knows the order when nothing is read in order?",
    ),
    Lesson(6, "transformer", "The Transformer", "What is left when the recurrence is taken out?"),
    Lesson(7, "gpt", "GPT", "What does predicting the next token buy?"),
    Lesson(8, "bert", "BERT", "What if the model may look both ways?"),
    Lesson(9, "vit", "Vision Transformer", "Is an image a sentence of patches?"),
)
