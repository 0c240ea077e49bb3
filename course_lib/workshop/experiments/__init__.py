"""Experiments: every training and measurement that a claim rests on, a function each, run by seed and recorded.

A notebook shows one training in full; whatever a claim needs beyond it (five seeds, variants, controls, sizes) is a
function `name(seed, **variant)` in experiments/<lesson>/, short enough to be shown. `make experiments` runs what is
missing or was measured with other code and writes data/records/<slug>.json; a notebook reads `recorded(experiment)`
and may run one seed more. What all recorded runs show is stated as a finding in experiments/<lesson>/findings.py.
"""

from course_lib.workshop.experiments.experiment import Experiment, each, experiment
from course_lib.workshop.experiments.finding import Finding, finding
from course_lib.workshop.experiments.record import Record, recorded
from course_lib.workshop.experiments.runs import Runs

__all__ = ["Experiment", "Finding", "Record", "Runs", "each", "experiment", "finding", "recorded"]
