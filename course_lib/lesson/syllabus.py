"""The lessons of the course in their order: the one place that lists them, and the files that each of them brings.

The README's map, the layering test, the groups of tests and the progress board are made from this list.
"""

from dataclasses import dataclass

# The shelf's folders in order: each imports itself and those before it.
SHELF = (
    "inputs",
    "text",
    "recurrent",
    "attention",
    "translation",
    "weights",
    "language",
    "bert",
    "vision",
    "detection",
    "multimodal",
    "retrieval",
    "text_to_text",
    "long_context",
)

# Concept files that no single lesson owns; they come before every lesson's own.
SHARED = ("inputs/shapes.py", "inputs/sequences.py", "text/tokenizers.py", "inputs/reach.py")


@dataclass(frozen=True)
class Lesson:
    """One lesson: its number, its slug (as in notebooks/NN_slug.ipynb), its title and the question it answers.

    files: what it brings into course_lib/, in the order in which it may be imported; a concept lies in a
    folder of the shelf ("recurrent/rnn.py"), what serves it in a room ("data/dates/"). Its exercises are
    workshop/exercises/<slug>.py. A file that another one imports before its own lesson teaches it stands in both.
    to_be_written: it is under way (`make lesson` begins one so): its files lie in their places, and no reader, page or
    check of the whole course meets it before this is taken out.
    """

    number: int
    slug: str
    title: str
    question: str
    files: tuple[str, ...] = ()
    to_be_written: bool = False

    @property
    def notebook(self) -> str:
        """The file name of its notebook."""
        return f"{self.number:02d}_{self.slug}.ipynb"


LISTED = (
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
        ("recurrent/rnn.py", "recurrent/language_model.py"),
    ),
    Lesson(
        2,
        "lstm_gradient_flow",
        "LSTM and the gradient's highway",
        "Why do plain RNNs forget, and what does a gate change?",
        ("recurrent/stacked.py", "recurrent/lstm.py", "workshop/recipes/stored.py", "data/long_memory.py"),
    ),
    Lesson(
        3,
        "seq2seq",
        "Sequence to sequence",
        "How does one network write what another has read?",
        (
            "attention/attention.py",
            "text/pairs.py",
            "translation/seq2seq.py",
            "translation/decode.py",
            "translation/translator.py",
            "translation/error_rate.py",
            "weights/g2p_weights.py",
            "train/published.py",
            "data/sounds.py",
            "data/dates/",
            "data/grammar/",
            "data/interface.py",
            "show/one_vector.py",
        ),
    ),
    Lesson(
        4,
        "attention_alignment",
        "Attention that aligns",
        "Must a sentence fit in one vector?",
        ("attention/attention.py", "translation/alignment_error.py", "show/attention_views/"),
    ),
    Lesson(
        5,
        "positional_encodings",
        "Self-attention and positions",
        "What knows the order when nothing is read in order?",
        ("attention/attention.py", "attention/positions.py", "attention/order_model.py", "data/order.py"),
    ),
    Lesson(
        6,
        "transformer",
        "The Transformer",
        "What is left when the recurrence is taken out?",
        ("attention/multi_head.py", "attention/norms.py", "attention/block.py", "attention/transformer.py"),
    ),
    Lesson(
        7,
        "gpt",
        "GPT",
        "What does predicting the next token buy?",
        (
            "text/counts.py",
            "text/token_row.py",
            "text/bpe.py",
            "language/generate.py",
            "weights/hf_activations.py",
            "language/gpt.py",
            "language/muon.py",
            "language/next_token.py",
            "weights/llama_weights.py",
            "language/decoder.py",
            "language/in_context.py",
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
            "text/wordpiece.py",
            "weights/bert_weights.py",
            "bert/bert.py",
            "bert/bert_heads.py",
            "bert/bert_labels.py",
            "bert/masked_words.py",
            "bert/pretraining.py",
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
            "vision/images.py",
            "vision/patches.py",
            "vision/convnet.py",
            "vision/vit.py",
            "vision/rollout.py",
            "vision/distillation.py",
            "weights/mae_weights.py",
            "vision/masked_patches.py",
            "data/photographs.py",
            "data/glyphs.py",
            "data/fashion.py",
            "workshop/recipes/glyphs.py",
            "workshop/recipes/images.py",
            "workshop/recipes/deit.py",
        ),
    ),
    Lesson(
        10,
        "detr",
        "Objects as a set",
        "How does a network answer with a list whose order means nothing?",
        (
            "detection/boxes.py",
            "detection/matching.py",
            "detection/set_loss.py",
            "detection/resnet.py",
            "detection/detr.py",
            "detection/average_precision.py",
            "detection/heat_map.py",
            "data/scenes.py",
            "workshop/recipes/scenes.py",
        ),
    ),
    Lesson(
        11,
        "images_and_words",
        "Images and words",
        "How does a network learn what a picture is called?",
        (
            "multimodal/contrastive.py",
            "multimodal/clip.py",
            "multimodal/zero_shot.py",
            "multimodal/captions.py",
            "multimodal/one_stream.py",
            "multimodal/two_streams.py",
            "data/glyph_names.py",
            "workshop/recipes/glyph_names.py",
            "workshop/recipes/glyph_captions.py",
        ),
    ),
    Lesson(
        12,
        "masked_images",
        "Images without labels",
        "What can be learned from images that nobody has named?",
        (
            "vision/windows.py",
            "weights/swin_weights.py",
            "vision/swin.py",
            "weights/mae_weights.py",
            "workshop/recipes/masked_images.py",
        ),
    ),
    Lesson(
        13,
        "text_to_text",
        "Every task in words",
        "Can one model do all of it, if every task is text in, text out?",
        (
            "text_to_text/noise.py",
            "text_to_text/spans.py",
            "text_to_text/tasks.py",
            "text_to_text/rouge.py",
            "weights/t5_weights.py",
            "text_to_text/t5.py",
            "weights/bart_weights.py",
            "text_to_text/bart.py",
            "workshop/recipes/text_to_text.py",
        ),
    ),
    Lesson(
        14,
        "multilingual",
        "Many languages, one model",
        "What do two languages share, if they share no word?",
        (
            "text/unigram.py",
            "weights/xlm_weights.py",
            "bert/xlm.py",
            "data/emoji_names.py",
            "data/locale_names.py",
            "workshop/recipes/multilingual.py",
        ),
    ),
    Lesson(
        15,
        "retrieval",
        "A memory outside the weights",
        "Must a model know everything by heart?",
        (
            "retrieval/bm25.py",
            "retrieval/dense.py",
            "retrieval/marginal.py",
            "retrieval/learned_search.py",
            "data/territories.py",
            "data/territory_wordings.py",
            "workshop/recipes/facts.py",
        ),
    ),
    Lesson(
        16,
        "smaller_bert",
        "Smaller, and quicker to learn",
        "What may be left out of a BERT?",
        (
            "weights/lean_bert_weights.py",
            "bert/lean_bert.py",
            "bert/replaced_words.py",
            "bert/soft_targets.py",
            "bert/fewer_bits.py",
            "data/punctuation.py",
            "workshop/recipes/smaller_bert.py",
            "workshop/recipes/replaced_words.py",
        ),
    ),
    Lesson(
        17,
        "longer",
        "Longer",
        "How far can a model read?",
        (
            "long_context/window.py",
            "long_context/segments.py",
            "long_context/hashing.py",
            "long_context/reversible.py",
            "long_context/linear_attention.py",
            "long_context/all_orders.py",
            "data/key_values.py",
            "workshop/recipes/longer.py",
        ),
    ),
    Lesson(
        18,
        "words_to_images",
        "From a name to an image",
        "How does a language model draw what a name says?",
        (
            "multimodal/quantiser.py",
            "multimodal/vq_vae.py",
            "multimodal/words_then_codes.py",
            "data/letter_names.py",
            "workshop/recipes/words_to_images.py",
        ),
    ),
)

LESSONS = tuple(lesson for lesson in LISTED if not lesson.to_be_written)
IN_WRITING = tuple(lesson for lesson in LISTED if lesson.to_be_written)


def concepts() -> list[str]:
    """The shelf's files in teaching order, by name below course_lib ("recurrent.rnn"): each may import those before."""
    files = dict.fromkeys([*SHARED, *(file for lesson in LISTED for file in lesson.files)])
    return [file.removesuffix(".py").replace("/", ".") for file in files if file.partition("/")[0] in SHELF]
