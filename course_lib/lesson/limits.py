"""Every limit that a test holds a lesson to: a number, and above it why. CONTRIBUTING.md's table is made from them.

A test imports the name (`from course_lib.lesson import limits`), never a copy of the number.
"""

# --- a lesson's core: what stands before its laboratory

# One question, answered within an hour of teaching: more slides than these cannot be spoken to in it.
SLIDES = 14
# Minutes in the core's speaker notes: an hour, less the beginning, the questions and the end.
MINUTES = 50
# Lines of code that stand open (not folded; stubs, quizzes and exercises' starters apart): what a student can read
# beside everything else in one sitting. What else a claim needs is an experiment, in the library.
OPEN_LINES = 150
# Open lines on slides, at least: the code that the lesson is about is shown to the room, not only left in the notebook.
SLIDE_LINES = 40
# Findings: nobody keeps more of them in mind. What is true by construction is an identity and is not counted.
CLAIMS = 8
# Measured numbers in one claim: a sentence with three is two sentences.
NUMBERS_PER_CLAIM = 2
# Words that a student reads: about twenty minutes of reading.
WORDS = 2500
# Minutes of a lesson that has no laboratory, least and most: then all of it is the core.
MINUTES_WITHOUT_LABORATORY = (45, 75)

# --- a whole notebook, core and laboratory

# Seconds of Run All on two quiet cores: a class waits for it together.
SECONDS = 75
# Peak memory in MB: a student's laptop of 4 GB runs a browser beside it.
MEMORY_MB = 2000
# The same where a model that others trained is loaded: its weights alone are half a gigabyte.
MEMORY_MB_REAL_MODEL = 3000
# Bytes of the stored notebook: GitHub shows it, and a clone stays small.
NOTEBOOK_BYTES = 1_000_000
# Cells whose text output nbval compares, at least: else a notebook would pass without any number being looked at.
COMPARED_CELLS = 5
# What the title cell says of its minutes, as a part of what was measured, least and most: machines differ by so much.
TITLE_MINUTES = (0.6, 1.6)
