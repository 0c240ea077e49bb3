"""The page of results: what it makes of a record, and that it is there without one."""

import json

import pytest

from course_lib.workshop.publish import results

NOTEBOOKS = {"01_rnn_bptt.ipynb": None, "02_lstm_gradient_flow.ipynb": None}


def run(seed, cpu, lag, result):
    where = {"machine": "2 cores, a processor, PyTorch 2", "date": f"2026-01-0{1 + seed}"}
    return {"variant": {"cell": "LSTM", "lag": lag}, "seed": seed, "cpu": cpu, "digest": "d", "result": result, **where}


@pytest.fixture
def folder(tmp_path):
    """A folder of records, with one of lesson 02: an experiment of two variants, and one of curves alone."""
    recall = [
        run(seed, cpu, lag, {"accuracy": 0.5 + lag / 100 + seed / 10, "size": {"weights": 5000}, "curve": [1.0, 0.5]})
        for lag in (12, 24)
        for seed in (0, 1)
        for cpu in ("default", "avx2")
    ]
    recall[-1]["result"] = recall[-1]["result"] | {"only here": "nan"}
    curves = [{"variant": {}, "seed": 0, "cpu": "avx2", "digest": "d", "result": {"curve": [1, 2]}}]
    told = {"recall": {"what": "Recall | of a_symbol.", "runs": recall}, "loss": {"what": "The loss.", "runs": curves}}
    (tmp_path / "lstm_gradient_flow.json").write_text(json.dumps({"experiments": told}))
    return tmp_path


def test_every_variant_is_a_row_with_mean_and_range(folder):
    lines = results.page(NOTEBOOKS, folder).splitlines()
    assert "## [02 · LSTM and the gradient's highway](02_lstm_gradient_flow.ipynb)" in lines
    assert "**Recall \\| of a\\_symbol.**" in lines
    assert "| variant | accuracy | size · weights | only here | runs |" in lines
    assert "| cell LSTM, lag 12 | 0.67 (0.62 to 0.72) | 5,000 |  | 4 |" in lines
    assert "| cell LSTM, lag 24 | 0.79 (0.74 to 0.84) | 5,000 | no number in 1 of 1 | 4 |" in lines


def test_it_says_where_it_was_measured(folder):
    made = results.page(NOTEBOOKS, folder)
    where = "*seeds 0, 1; instruction sets avx2, default; 2 cores, a processor, PyTorch 2; 2026-01-01 to 2026-01-02.*"
    assert where in made.splitlines()
    assert "**The loss.** Only curves are recorded" in made


def test_without_a_record_the_page_says_so(tmp_path):
    made = results.page(NOTEBOOKS, tmp_path)
    assert made.startswith("# Results\n") and results.NONE in made and "##" not in made


def test_a_lesson_without_a_page_has_no_results(folder):
    assert results.NONE in results.page({"01_rnn_bptt.ipynb": None}, folder)


def test_a_damaged_record_is_named(folder):
    (folder / "lstm_gradient_flow.json").write_text("{")
    with pytest.raises(ValueError, match="lstm_gradient_flow.json is damaged"):
        results.page(NOTEBOOKS, folder)
