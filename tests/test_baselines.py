"""course_lib/data/baselines.py: what little knowledge is worth, by hand; bad input in words."""

import pytest

from course_lib.data.baselines import bag_of_words, most_frequent, right


def test_the_most_frequent_label_and_the_share_that_is_right():
    assert most_frequent(["a", "b", "b"], ["b", "a", "b", "c"]) == 0.5
    assert right([1, (2, 3), "x"], [1, (2, 3), "y"]) == pytest.approx(2 / 3)


def test_a_bag_of_words_learns_words_and_nothing_of_their_order():
    texts, labels = ["a red dog", "the red cat", "a blue dog", "the blue cat"], ["r", "r", "b", "b"]
    assert bag_of_words(texts, labels, ["Red!", "BLUE sky", "cat red the"]) == ["r", "b", "r"]
    assert bag_of_words(["x"], ["only"], ["a", "b"]) == ["only", "only"]


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda: most_frequent([], ["a"]), "one labelled text or more"),
        (lambda: right([], []), "one labelled text or more"),
        (lambda: right([1], [1, 2]), "1 answers for 2 questions"),
        (lambda: bag_of_words(["a"], ["x", "y"], []), "1 answers for 2"),
    ],
)
def test_bad_input_is_refused_in_words(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()
