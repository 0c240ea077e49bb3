"""Citing a finding in a notebook: what the recorded runs show, and where this run lies among them.

cite(findings.recalls_after_100)
cite(findings.recalls_after_100, this_run=accuracy)      # recorded: 10 of 10 runs, ...; this run 0.98, in the band
"""

from course_lib.lesson.cards import card, emit, prose
from course_lib.lesson.numerals import jsonable, number, shown
from course_lib.workshop.experiments.finding import Finding


def cite(one: Finding, this_run=None) -> None:
    """Show a finding: its sentence, in how many recorded runs it holds, and their numbers.

    this_run: the number that this notebook has computed for the finding's first comparison, where it has. Raises
    TypeError for anything but a finding.
    """
    if not isinstance(one, Finding):
        raise TypeError(f"cite takes a finding, cite(findings.its_name); got {type(one).__name__}")
    evidence = f"Recorded: {one.evidence()}"
    live = None if this_run is None else number(this_run, "this_run")
    if live is not None:
        band = one.comparisons[0][0]
        inside = band.least <= live <= band.most
        evidence += f"; this run {shown(live)}, {'inside' if inside else 'outside'} the recorded band"
    good = one.holds
    emit(
        f"{'●' if good else '✗'} finding: {one.sentence} — {evidence}",
        html=card("info" if good else "bad", f"<b>Finding:</b> {prose(one.sentence)}", prose(evidence)),
        metadata={"finding": one.name, "holds": good, "runs": len(one.held)}
        | ({} if live is None else {"this_run": jsonable(live)}),
    )
