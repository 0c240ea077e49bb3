"""Quiz questions: choose, check, read the reason, try again."""

from course_lib.lesson.cards import QUIET, card, emit, prose
from course_lib.lesson.marks import mark
from course_lib.workshop.exercises import Quiz, find_quiz

# Radio buttons come 20 pixels high and on one line; long options would be cut.
_STYLE = """<style>
.unrolled-quiz .widget-radio { width: 100%; height: auto; }
.unrolled-quiz .widget-radio-box { height: auto; flex: 1 1 auto; min-width: 0; }
.unrolled-quiz .widget-radio-box label {
  height: auto; min-height: 24px; line-height: 1.45; white-space: normal; padding: 2px 0; cursor: pointer;
  display: flex; align-items: flex-start; gap: 0.55em;
}
.unrolled-quiz .widget-radio-box label input { flex: none; order: -1; margin: 0; }
.unrolled-quiz .widget-html-content code { font-size: 0.93em; }
.unrolled-quiz .widget-radio-box label, .unrolled-quiz .widget-html-content {
  color: var(--jp-content-font-color1, inherit); line-height: 1.45;
  font-size: var(--jp-content-font-size1, 14px);
}
</style>"""


def quiz(key: str, *, among=None) -> None:
    """Ask a question by radio buttons and a Check button; each answer, right or wrong, is given its reason.

    Where no kernel runs (GitHub, slides, a web page) the question and its options stand, without the answer.
    """
    question = find_quiz(key, among)
    try:
        widget = {k: v for k, v in panel(question)._repr_mimebundle_().items() if k != "text/plain"}
        invitation = "Run this cell to answer."
    except ModuleNotFoundError:
        widget, invitation = {}, "Answering needs the package ipywidgets, which is missing."
    emit(_plain(question), html=_still(question, invitation), widget=widget, metadata={"quiz": key})


def panel(question: Quiz):
    """The widget of a question: its `choice`, `button` and `feedback` are attributes, for tests."""
    import ipywidgets

    options = [(f"{letter}.  {_bare(text)}", i) for i, (letter, (text, _)) in enumerate(_lettered(question))]
    asked = ipywidgets.HTML(_STYLE + f"<b>Question.</b> {prose(question.question)}")
    choice = ipywidgets.RadioButtons(options=options, index=None, layout={"width": "auto"})
    button = ipywidgets.Button(description="Check", tooltip="Check the chosen answer", button_style="primary")
    feedback = ipywidgets.HTML()

    def answer(_):
        feedback.value = f'<div role="status">{_feedback(question, choice.value)}</div>'

    button.on_click(answer)
    # A verdict on one option must not stand beside another.
    choice.observe(lambda _: setattr(feedback, "value", ""), names="index")
    box = ipywidgets.VBox([asked, choice, button, feedback], layout={"max_width": "62em", "width": "100%"})
    box.add_class("unrolled-quiz")
    box.choice, box.button, box.feedback = choice, button, feedback
    return box


def _feedback(question, index):
    if index is None:
        return card("open", "Choose an answer first.")
    _, reason = question.options[index]
    if index != question.correct:
        return card("bad", "<b>Not this one.</b>", prose(reason), f'<span style="{QUIET}">Try another answer.</span>')
    sentence = mark(question.lesson, "quiz", question.key)
    return card("good", "<b>Right.</b>", prose(reason), prose(sentence))


def _lettered(question):
    return zip("ABCDEFGHIJ", question.options, strict=False)


def _bare(text):
    return text.replace("`", "")  # a radio button's label is plain text


def _plain(question):
    options = "\n".join(f"  {letter}. {_bare(text)}" for letter, (text, _) in _lettered(question))
    return f"Question. {_bare(question.question)}\n{options}"


def _still(question, invitation):
    options = [
        f'<div style="padding-left: 1.3em; text-indent: -1.3em">{letter}. {prose(text)}</div>'
        for letter, (text, _) in _lettered(question)
    ]
    asked = f"<b>Question.</b> {prose(question.question)}"
    return card("info", asked, *options, f'<span style="{QUIET}">{invitation}</span>')
