"""What a lesson's notebook does besides teaching: state checked claims, show the library's source, set
exercises.

Only notebooks import this package. Each output reads in JupyterLab, on a slide, on a web page and as plain
text, and carries what it says as data too (output metadata, key "unrolled"), so that tests and the README can
use it.
"""

from course_lib.lesson.board import progress
from course_lib.lesson.by_construction import identities, identity
from course_lib.lesson.citations import cite
from course_lib.lesson.claims import claim, claims
from course_lib.lesson.investigations import investigate
from course_lib.lesson.own_parts import own_parts
from course_lib.lesson.practice import check, graded, hint, solution
from course_lib.lesson.quizzes import quiz
from course_lib.lesson.reports import report
from course_lib.lesson.sources import show_source
from course_lib.lesson.syllabus import LESSONS

__all__ = [
    "LESSONS",
    "check",
    "cite",
    "claim",
    "claims",
    "graded",
    "hint",
    "identities",
    "identity",
    "investigate",
    "own_parts",
    "progress",
    "quiz",
    "report",
    "show_source",
    "solution",
]
