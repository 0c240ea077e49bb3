"""The table of shapes: what fits, what is refused, and in which words."""

import pytest
import torch

from course_lib.inputs.shapes import check_shapes


def test_names_take_the_size_that_they_find():
    """check_shapes: the sizes of q (B, T_q, d) and k (B, T_k, d) by name."""
    q, k = torch.zeros(2, 3, 5), torch.zeros(2, 4, 5)
    assert check_shapes("attend", q=(q, "B T_q d"), k=(k, "B T_k d")) == {"B": 2, "T_q": 3, "d": 5, "T_k": 4}
    assert check_shapes("attend", q=(q, "... d"), mask=(None, "B T")) == {"d": 5}
    assert check_shapes("one", x=(torch.zeros(5), "... 5")) == {}
    assert check_shapes("none", x=(torch.zeros(0, 3), "B 3")) == {"B": 0}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"q": ((2, 3, 5), "B T_q d"), "k": ((2, 4, 6), "B T_k d")},
         "attend needs q (batch, queries, d) and k (batch, keys, d); got (2, 3, 5) and (2, 4, 6)."),
        ({"x": ((2, 3), "B T 4")}, "attend needs x (batch, time, 4); got (2, 3)."),
        ({"x": ((2, 3, 5), "B T 4")}, "attend needs x (batch, time, 4); got (2, 3, 5)."),
        ({"x": ((3,), "... T d")}, "attend needs x (..., time, d); got (3,)."),
        ({"a": ((1,), "B"), "b": ((2,), "B"), "c": ((1,), "B")},
         "attend needs a (batch), b (batch) and c (batch); got (1,), (2,) and (1,)."),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_whole(table, told):
    with pytest.raises(ValueError) as raised:
        check_shapes("attend", **{name: (torch.zeros(shape), words) for name, (shape, words) in table.items()})
    assert str(raised.value) == told


def test_what_is_no_tensor_or_not_real_is_told():
    with pytest.raises(TypeError, match="attend needs mask as a tensor; got list"):
        check_shapes("attend", mask=([1], "B"))
    with pytest.raises(TypeError, match="x is torch.int64: embed token ids first"):
        check_shapes("attend", x=(torch.zeros(1, dtype=torch.long), "B"))
    assert check_shapes("embed", real=False, ids=(torch.zeros(2, 3, dtype=torch.long), "B T")) == {"B": 2, "T": 3}


def test_it_compiles_and_waits_for_nothing():
    def f(x):
        check_shapes("f", x=(x, "B T 3"))
        return x * 2

    compiled = torch.compile(f, fullgraph=True, backend="eager")
    assert torch.equal(compiled(torch.ones(2, 4, 3)), torch.full((2, 4, 3), 2.0))
