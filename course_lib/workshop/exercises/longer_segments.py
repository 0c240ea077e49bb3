"""Lesson 17, a memory to fix: it lets gradients through, so each segment costs more than it should.

The notebook holds the broken function word for word, under the name of its exercise.
"""

import torch
import torch.nn.functional as F

from course_lib.workshop.exercises import Exercise
from course_lib.workshop.exercises.probes import OTHER_SIZES, OVERFLOW, SINGLE, Case, fresh, is_number


def broken_segments(model, segments):
    """The gradients of one text, read segment by segment, are added up in the weights -> its mean loss.

    model(x, memory) -> logits (B, S, V), and for each layer the states (B, M, D) to remember. segments: pairs (x, y),
    (B, S) each, in the order of the text.
    """
    memory, losses = None, []
    for x, y in segments:
        logits, memory = model(x, memory)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) / len(segments)
        loss.backward(retain_graph=True)  # without this the second segment stops with an error
        losses.append(loss.detach())
    return torch.stack(losses).sum()


def mended_segments(model, segments):
    memory, losses = None, []
    for x, y in segments:
        logits, memory = model(x, memory)
        memory = tuple(states.detach() for states in memory)  # for the next segment they are constants
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) / len(segments)
        loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses).sum()


def text(n=4, B=2, S=3, M=5, L=2, V=6, D=4, dtype=torch.float64):
    """A text in n segments, (n, 2, B, S), a table (V, D), a matrix per layer (L, D, D), and positions of memory."""
    ids = torch.randint(V, (B, n * S + 1))
    cut = torch.stack([ids[:, :-1], ids[:, 1:]]).unflatten(-1, (n, S))  # (2, B, n, S)
    return cut.permute(2, 0, 1, 3), torch.randn(V, D).to(dtype), torch.randn(L, D, D).to(dtype), M


def loud_text():
    """As `text`, in single precision, with logits of hundreds."""
    segments, table, weights, places = text(dtype=torch.float32)
    return segments, 10 * table, weights, places


def reader(table, weights, places, passed):
    """Layers that read the mean of what lies before. They remember it as it is, with its graph.

    `passed` gets a number for each segment that is read: how often a gradient comes by it.
    """

    def model(ids, memory):
        x, left, number = table[ids], [], len(passed)  # (B, S, D)
        passed.append(0)
        x.register_hook(lambda grad: passed.__setitem__(number, passed[number] + 1))
        for w, states in zip(weights, memory or [x[:, :0]] * len(weights), strict=True):
            seen = torch.cat([states, x], dim=1)
            left.append(seen[:, -places:])
            means = seen.cumsum(dim=1) / torch.arange(1, seen.shape[1] + 1, dtype=x.dtype)[:, None]
            x = x + torch.tanh(means[:, -x.shape[1] :] @ w)
        return x @ table.T, tuple(left)

    return model


def read_through(answer, segments, table, weights, places):
    """What an answer gives, the gradients that it leaves, and how often one came by each segment."""
    learned, passed = [part.requires_grad_() for part in (table, weights)], []
    given = answer(reader(*learned, places, passed), [tuple(pair) for pair in segments])
    given = given.detach() if isinstance(given, torch.Tensor) else given
    return given, [torch.zeros_like(w) if w.grad is None else w.grad for w in learned], passed


def loss_alone(answer, *arguments):
    """For `Case.ask`: what comes back."""
    return read_through(answer, *arguments)[0]


def way_back(answer, *arguments):
    """For `Case.ask`: what comes back; if that is a number, also the gradients, and how often one came by each."""
    given, gradients, passed = read_through(answer, *arguments)
    return [float(torch.as_tensor(given).detach()), *gradients, *passed] if is_number(given) else given


def where_it_runs(answer, solution, arguments):
    """How often a gradient comes by each segment; or that the gradients themselves are wrong."""
    mine, right = (read_through(one, *fresh(arguments))[2] for one in (answer, solution))
    if mine != right:
        return (
            f"The loss is right. A gradient passes through the segments {', '.join(map(str, mine))} times, in the "
            "order of the text. Once through each is enough."
        )
    return (
        "The loss is right, and a gradient passes through each segment once. The gradients themselves are not right: "
        "each segment's loss goes back through its own segment, and no further."
    )


def remembering(keep, **backward):
    """A wrong answer to `mended_segments`: keep(states of each layer) is handed on."""

    def read_all(model, segments):
        memory, losses = None, []
        for x, y in segments:
            logits, memory = model(x, memory)
            memory = keep(memory)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) / len(segments)
            loss.backward(**backward)
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    return read_all


def once_at_the_end(model, segments):
    memory, loss = None, 0.0
    for x, y in segments:
        logits, memory = model(x, memory)
        loss = loss + F.cross_entropy(logits.flatten(0, 1), y.flatten()) / len(segments)
    loss.backward()
    return loss.detach()


SEGMENTS = Exercise(
    solution=mended_segments,
    cases=(
        Case(
            text,
            "The loss is wrong. It was right before: a mean over segments, each read behind its memory.",
            loss_alone,
        ),
        Case(text, where_it_runs, way_back),
        Case(lambda: text(7, 1, 2, 9, 3), where_it_runs, way_back),
        Case(lambda: text(1), "A text of one segment is wrong: there is nothing to remember yet.", way_back),
        Case(lambda: text(3, 1, 1, 1, 1, 2, 1), OTHER_SIZES, way_back),
        Case(lambda: text(dtype=torch.float32), SINGLE, way_back, 1e-5),
        Case(loud_text, OVERFLOW, way_back, 1e-5),
    ),
    stub=broken_segments,
    mistakes={
        "bug_still_there": broken_segments,
        "not_detached": remembering(lambda memory: memory),
        "once_at_the_end": once_at_the_end,
        "first_layer_only": remembering(lambda memory: (memory[0].detach(), *memory[1:]), retain_graph=True),
        "no_memory": remembering(lambda memory: None),
        "zeros": remembering(lambda memory: tuple(0 * states.detach() for states in memory)),
        "one_position": remembering(lambda memory: tuple(states.detach()[:, -1:] for states in memory)),
        "mean_of_means": lambda model, segments: mended_segments(model, segments) / len(segments),
    },
)

EXERCISES = [SEGMENTS]
