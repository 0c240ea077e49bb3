"""The table of shapes: what fits, what is refused, and in which words."""

import pytest
import torch

from course_lib.inputs.shapes import broadcasts, check_same_shapes, check_shapes


def test_a_name_is_the_same_size_wherever_it_stands():
    """check_shapes: q (B, T_q, d) and k (B, T_k, d) are of one batch and one width."""
    q, k = torch.zeros(2, 3, 5), torch.zeros(2, 4, 5)
    check_shapes("attend", q=(q, "B T_q d"), k=(k, "B T_k d"))
    check_shapes("attend", q=(q, "... d"), mask=(None, "B T"))
    check_shapes("one", x=(torch.zeros(5), "... 5"))
    check_shapes("none", x=(torch.zeros(0, 3), "B 3+"))
    with pytest.raises(ValueError, match="attend needs"):
        check_shapes("attend", q=(q, "B T d"), k=(k, "B T d"))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"q": ((2, 3, 5), "B T_q d"), "k": ((2, 4, 6), "B T_k d")},
         "attend needs q (batch, queries, d) and k (batch, keys, d); got (2, 3, 5) and (2, 4, 6)."),
        ({"x": ((2, 3), "B T 4")}, "attend needs x (batch, time, 4); got (2, 3)."),
        ({"x": ((2, 3, 5), "B T 4")}, "attend needs x (batch, time, 4); got (2, 3, 5)."),
        ({"x": ((1, 2, 3, 4), "B T 4")}, "attend needs x (batch, time, 4); got (1, 2, 3, 4)."),
        ({"x": ((3,), "... T d")}, "attend needs x (..., time, d); got (3,)."),
        ({"x": ((0, 3), "B+ 3")}, "attend needs x (batch, 3), not empty; got (0, 3)."),
        ({"x": ((2, 0), "B T+")}, "attend needs x (batch, time), not empty; got (2, 0)."),
        ({"a": ((1,), "B"), "b": ((2,), "B"), "c": ((1,), "B")},
         "attend needs a (batch), b (batch) and c (batch); got (1,), (2,) and (1,)."),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_whole(table, told):
    for _ in range(2):  # what is remembered of a table is refused again
        with pytest.raises(ValueError) as raised:
            check_shapes("attend", **{name: (torch.zeros(shape), words) for name, (shape, words) in table.items()})
        assert str(raised.value) == told


@pytest.mark.parametrize(
    ("given", "words", "told"),
    [
        ([1], "B", "attend needs x (batch) as a tensor; got list."),
        ([1], "any B", "attend needs x (batch) as a tensor; got list."),
        (torch.zeros(1).numpy(), "B", "attend needs x (batch) as a tensor; got ndarray."),
        (torch.zeros(1, dtype=torch.long), "B",
         "attend computes with vectors of real numbers; got x of torch.int64: embed token ids first, or convert with "
         ".float()."),
        (torch.zeros(1, dtype=torch.complex64), "B",
         "attend computes with vectors of real numbers; got x of torch.complex64: embed token ids first, or convert "
         "with .float()."),
        (torch.zeros(1), "int B", "attend needs x (batch) of whole numbers; got torch.float32."),
        (torch.zeros(1, dtype=torch.bool), "int ...", "attend needs x of whole numbers; got torch.bool."),
        (torch.zeros(1, dtype=torch.int32), "int64 B",
         "attend needs x (batch) of whole numbers (int64); got torch.int32."),
        (torch.zeros(1, dtype=torch.long), "bool B",
         "attend needs x (batch) of bool; got torch.int64: a comparison gives one, such as ids != padding."),
        (torch.zeros(1, 1), "bool B",
         "attend needs x (batch) of bool; got torch.float32: a comparison gives one, such as ids != padding."),
    ],
)  # fmt: skip
def test_what_is_no_tensor_or_of_other_numbers_is_told_before_any_shape(given, words, told):
    with pytest.raises(TypeError) as raised:
        check_shapes("attend", first=(torch.zeros(2), "B"), x=(given, words))
    assert str(raised.value) == told


def test_each_kind_of_numbers_is_let_through():
    ids = torch.zeros(2, 3, dtype=torch.long)
    check_shapes("embed", a=(ids, "int B T"), b=(ids.int(), "int B T"), c=(ids, "int64 B T"), d=(ids > 0, "bool B T"))
    check_shapes("embed", a=(ids, "any B T"), b=(ids.float(), "any B T"), c=(ids.half(), "B T"))


def test_broadcasts():
    part, whole = torch.zeros(3, 1, 4), (2, 3, 5, 4)
    assert broadcasts(part, whole) and broadcasts(part[0], whole) and broadcasts(torch.zeros(()), whole)
    assert (part + torch.zeros(whole)).shape == whole
    for wrong in ((4, 1), (3, 5, 1, 1), (1, 2, 3, 5, 4), (5, 4, 1)):
        assert not broadcasts(torch.zeros(wrong), whole)


def test_it_compiles_and_waits_for_nothing():
    def f(x):
        check_shapes("f", x=(x, "B T 3"))
        return x * 2

    compiled = torch.compile(f, fullgraph=True, backend="eager")
    assert torch.equal(compiled(torch.ones(2, 4, 3)), torch.full((2, 4, 3), 2.0))
    assert torch.equal(compiled(torch.ones(2, 7, 3)), torch.full((2, 7, 3), 2.0))


def test_one_graph_reads_any_batch_and_time():
    built = []

    def backend(graph, _):
        built.append(graph)
        return graph.forward

    @torch.compile(fullgraph=True, backend=backend, dynamic=True)
    def f(x, memory):
        check_shapes("f", x=(x, "B+ T+ 3"), memory=(memory, "B+ T_k+ 3"))
        return x.sum() + memory.sum()

    for B, T, T_k in ((2, 4, 5), (3, 6, 7), (4, 9, 8)):
        f(torch.ones(B, T, 3), torch.ones(B, T_k, 3))
    assert len(built) == 1


def test_it_is_checked_under_transforms():
    def f(x):
        check_shapes("f", x=(x, "B 3"))
        return x.sum()

    assert torch.func.vmap(f)(torch.ones(5, 2, 3)).tolist() == [6.0] * 5
    assert torch.equal(torch.func.grad(f)(torch.ones(2, 3)), torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"f needs x \(batch, 3\); got \(2, 4\)"):
        torch.func.vmap(f)(torch.ones(5, 2, 4))


def test_weights_of_other_names_or_shapes_are_named():
    ours = {"a": torch.zeros(2, 3), "b": torch.zeros(4), "c": torch.zeros(1)}
    check_same_shapes("Toy", ours, {name: part + 1 for name, part in ours.items()})
    for theirs, names in (
        ({**ours, "a": torch.zeros(3, 2)}, "a"),
        ({"a": ours["a"], "b": ours["b"]}, "c"),
        ({**ours, "b2": ours["b"], "b": ours["a"]}, "b, b2"),
    ):
        with pytest.raises(ValueError, match=f"The weights are not those of a Toy of these sizes: {names} ..."):
            check_same_shapes("Toy", ours, theirs)
