"""The check of the machine on the start page."""

import json

import pytest
import torch

from course_lib.lesson.machine import describe, minutes_here, speed


def test_describe_names_what_a_student_must_know():
    assert list(describe()) == ["Python", "PyTorch", "device", "CPU cores", "memory"] and all(describe().values())


@pytest.mark.slow
def test_speed_measures_and_leaves_threads_and_random_numbers_alone():
    torch.manual_seed(0)
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    assert speed(0.3) > 0
    assert torch.get_num_threads() == threads and torch.equal(torch.get_rng_state(), state)


def test_minutes_scale_with_speed_and_need_a_measurement(tmp_path):
    file = tmp_path / "measured.json"
    assert minutes_here(10, file) == {}
    entry = {"seconds": 120}
    for damaged in ("{", "[]", "[" * 9999, json.dumps({"01_a.ipynb": entry}), json.dumps({"01_a.ipynb": {}})):
        file.write_text(damaged)
        assert minutes_here(10, file) == {}
    start = {"seconds": 6, "speed": 20.0}
    file.write_text(json.dumps({"01_a.ipynb": entry, "00_start_here.ipynb": start}))
    assert minutes_here(10, file) == {"00": 0.2, "01": 4.0}
