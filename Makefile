# Unrolled. Every command sets up what it needs, once, in .venv; after that it takes seconds and no network.
# Written for any GNU make from 3.81 on (the one macOS has), and for a folder whose path may hold spaces, quotes and $:
# commands say "$$(pwd -P)" for it, never $(CURDIR), in which the shell would read all of these.

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
GRADER := $(VENV)/nbgrader
# How many tests run at a time; two suit two cores and 4 GB.
WORKERS ?= 2
# Some notebooks instead of all: make notebooks FILES=notebooks/01_rnn_bptt.ipynb
FILES ?=
# What make claims runs every notebook under: seeds, and instruction sets that stand for other processors.
SEEDS ?= 1 2 3 4 5
CPU ?= default avx2
# The course's place on GitHub, if its pages are to lead there and to Binder.
REPOSITORY ?=
# What make present shows.
LESSON ?= 01
PAGE = 00_start_here.ipynb

# What Jupyter, IPython and matplotlib keep stays in .venv: nobody's own kernels, start-up files or settings can
# change the course, and the course changes nobody's.
export JUPYTER_CONFIG_DIR := $(CURDIR)/$(VENV)/state/jupyter
export JUPYTER_DATA_DIR := $(CURDIR)/$(VENV)/state/jupyter/data
export JUPYTER_RUNTIME_DIR := $(CURDIR)/$(VENV)/state/jupyter/runtime
export IPYTHONDIR := $(CURDIR)/$(VENV)/state/ipython
export MPLCONFIGDIR := $(CURDIR)/$(VENV)/state/matplotlib
export JUPYTER_PREFER_ENV_PATH := 1
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV JUPYTER_PATH JUPYTER_CONFIG_PATH MPLBACKEND

##@ To learn

.PHONY: lab
lab: $(STAMP)  ## open JupyterLab at the course's first page
	@$(PY) -m jupyterlab $(LAB_FLAGS)

# Settings and layout of a talk are its own and last no longer: slides that were left running, or a theme for a dark
# room, must not greet a student. What slides look like in JupyterLab is in course_lib/workshop/publish/live.
.PHONY: present
present: PAGE = $(or $(notdir $(firstword $(wildcard notebooks/$(LESSON)_*.ipynb))),$(error There is no lesson \
	$(LESSON) in notebooks/: say, for example, make present LESSON=01))
present: $(STAMP)  ## show a lesson as live slides in JupyterLab (LESSON=01)
	@rm -rf $(TALK)
	@echo "In JupyterLab: Run > Run All Cells first. Then the cards at the right of the toolbar start the slides;"
	@echo "Space goes on, Shift+Space back, and the cards at the bottom right end them."
	@JUPYTER_CONFIG_PATH="$$(pwd -P)/course_lib/workshop/publish/live" JUPYTERLAB_SETTINGS_DIR="$$(pwd -P)/$(TALK)/settings" \
	  JUPYTERLAB_WORKSPACES_DIR="$$(pwd -P)/$(TALK)/workspaces" $(PY) -m jupyterlab $(LAB_FLAGS)
TALK := $(VENV)/state/talk

# The first page is part of the address, so that it also opens where the address is copied into a browser by hand.
# This machine only, with its token. No look for updates, no list of extensions from the network, and no search for
# language servers, which would start npm. Kernels talk encrypted, so that others on this machine cannot listen.
# (The set-up turns the news off, and the question whether one wants them.)
LAB_FLAGS = --ServerApp.root_dir="$$(pwd -P)" --ServerApp.ip=localhost \
	--LabApp.default_url=/lab/tree/notebooks/$(PAGE) \
	--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate \
	--LabApp.extension_manager=readonly --LanguageServerManager.autodetect=False \
	--KernelManager.transport_encryption=auto $(ALLOW_ROOT)
ALLOW_ROOT = $(shell [ "$$(id -u)" != 0 ] || echo --allow-root)

##@ To teach a class

# nbgrader puts its own menus into every JupyterLab that it is installed with. So it gets an environment of its own,
# which sees the course's packages.
.PHONY: nbgrader
nbgrader: LESSON = $(error Say which lesson: make nbgrader LESSON=04)
nbgrader: $(GRADER)/.installed  ## write a lesson's exercises as an assignment for nbgrader (LESSON=04)
	@$(PY) -m course_lib.workshop.publish.assignment "$(LESSON)"

$(GRADER)/.installed: $(STAMP)
	@echo "Setting up nbgrader in $(GRADER): about 20 seconds, this once."
	@$(PY) -m venv --clear $(GRADER)
	@$(PY) -c "import sysconfig; print(f'import site; site.addsitedir({sysconfig.get_path(\"purelib\")!r})')" \
	  > "$$($(GRADER)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/course.pth"
	@$(subst $(PY),$(GRADER)/bin/python,$(PIP)) "$$(sed -n 's/.*"\(nbgrader==[^"]*\)".*/\1/p' pyproject.toml)" \
	  || { $(STOPPED); }
	@mkdir -p $(GRADER)/share/jupyter
	@for part in nbconvert kernels; do ln -sfn ../../../share/jupyter/$$part $(GRADER)/share/jupyter/$$part; done
	@touch $@

##@ To check

# TELL: a line for each lesson with its seconds, and no dots.
TELL := --tell -o console_output_style=classic

.PHONY: test
test: lint grader  ## check all that can break a lesson: lint, units, every notebook, slide and page; JupyterLab
	@$(PY) -m pytest --nbval-lax -m "not full" -n $(WORKERS) $(TELL)

.PHONY: test-fast
test-fast: lint  ## a first look: units without the slow ones, three cases of each; no notebooks, no browser
	@$(PY) -m pytest tests --ignore=tests/browser --sample -m "not slow and not full" -n $(WORKERS) $(TELL)

# What has passed is written down in tests/checked.json: commit it.
.PHONY: test-all
test-all: LESSON =
test-all: lint grader  ## check everything, every lesson in JupyterLab too (LESSON=03 for one; "03 pages units")
	@$(PY) tests/full.py $(LESSON)

# Without nbgrader the test of its commands is skipped.
.PHONY: grader
grader: $(STAMP)
	@[ -e $(GRADER)/.installed ] || $(MAKE) --no-print-directory $(GRADER)/.installed || \
	  echo "Without nbgrader the test of its commands is skipped."

.PHONY: claims
claims: $(STAMP)  ## say which claims fail under other seeds and processors, and keep the runs (SEEDS="1 2" CPU="default avx2" FILES=...)
	@$(PY) -m course_lib.workshop.publish.claims $(FILES) --seeds $(SEEDS) --cpu $(CPU)

# A lesson by number or slug: make experiments LESSON=02; all if none is named.
.PHONY: experiments
experiments: LESSON =
experiments: $(STAMP)  ## run what the records of the claims' experiments lack (LESSON=02 for one; stop it when you like)
	@$(PY) -m course_lib.workshop.experiments $(LESSON)

.PHONY: bench
bench: $(STAMP)  ## time all beside PyTorch's and Hugging Face's own, and the race (ratios; build/bench.json)
	@for part in $(BENCHES); do $(PY) tests/bench/bench_$$part.py || exit 1; done
BENCHES := layers models generate tokenizers cost memory fit imports race

.PHONY: lint
lint: $(STAMP)  ## check the style of the code
	@$(PY) -m ruff check --quiet . && $(PY) -m ruff format --check --quiet . && echo "ruff: all clean"

##@ To write

# The words go to the shell as they were typed, in the environment; make itself would read a $ in them.
override NUMBER := $(value NUMBER)
override SLUG := $(value SLUG)
override FOLDER := $(value FOLDER)
override TITLE := $(value TITLE)
override QUESTION := $(value QUESTION)
export NUMBER SLUG FOLDER TITLE QUESTION
.PHONY: lesson
lesson: $(STAMP)  ## begin a lesson (NUMBER=10 SLUG=detr FOLDER=vision TITLE="Boxes" QUESTION="What is where?")
	@$(PY) -m course_lib.workshop.publish.new_lesson --number="$$NUMBER" --slug="$$SLUG" --folder="$$FOLDER" \
	  --title="$$TITLE" --question="$$QUESTION"

.PHONY: notebooks
notebooks: $(STAMP)  ## run the notebooks in place, store them clean, measure them (FILES=... for some)
	@$(PY) -m course_lib.workshop.publish.execute $(FILES)

.PHONY: frames
frames: $(STAMP)  ## draw what the controls show, where it is missing, for pages and slides (FILES=... for some)
	@$(PY) -m course_lib.workshop.publish.draw $(FILES)

.PHONY: html
html: $(STAMP)  ## make the web pages in build/html: open index.html, or publish the folder (REPOSITORY=owner/name)
	@$(PY) -m course_lib.workshop.publish.site --repository "$(REPOSITORY)"

.PHONY: slides
slides: $(STAMP)  ## make a deck of slides of each notebook in build/slides: open index.html (FILES=... for some)
	@$(PY) -m course_lib.workshop.publish.slides $(FILES)

.PHONY: slides-pdf
slides-pdf: $(STAMP)  ## the same, and each deck printed, a page for each slide; needs Chromium
	@$(PY) -m course_lib.workshop.publish.slides --pdf $(FILES)

##@ The house

.PHONY: clean
clean:  ## remove what these commands built, .venv too; notebooks, your progress and a class's build/nbgrader stay
	@rm -rf $(VENV) unrolled_course.egg-info dist .pytest_cache .ruff_cache
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -name nbgrader -exec rm -rf {} +
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help:  ## show this list
	@echo "Unrolled: from a recurrent network to a Vision Transformer. Needs Python 3.11 or newer."
	@awk -F ':.*## *' '/^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# --- the set-up

# The stamp names the folder it was made in. In a renamed folder, or without its Python, the set-up runs again.
ifneq ($(shell $(PY) -c '' 2>/dev/null && cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

# PyTorch goes first, alone and pinned: a build of it that pip's own settings name is not replaced by another.
# The stamp comes last, so an interrupted set-up runs again. What lessons 03, 04, 07, 08 and 15 read is not needed
# before: where one cannot be had, the set-up is done all the same.
$(STAMP): pyproject.toml
	@rm -f $@
	@if $(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then exit 0; fi; \
	  new=''; usable=''; \
	  for name in $(PYTHON) python3.13 python3.12 python3.11 python3 python; do \
	    $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    new=$$name; \
	    if $$name -c 'import venv, ensurepip' 2>/dev/null; then usable=$$name; break; fi; \
	  done; \
	  if [ -z "$$new" ]; then \
	    echo "Unrolled needs Python 3.11 or newer and found none: install it, then run make again." >&2; exit 1; \
	  fi; \
	  if [ -z "$$usable" ]; then \
	    echo "$$new has no venv module: install it (Debian, Ubuntu: sudo apt install python3-venv)," \
	      "then run make again." >&2; exit 1; \
	  fi; \
	  $$usable -m venv --clear $(VENV)
	@echo "Setting up the course in $(VENV): some minutes, this once. On Linux about 3 GB are downloaded, most of them"
	@echo "PyTorch's libraries for GPUs."
	@$(PIP) "$$(sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)" || { $(STOPPED); }
	@echo "  PyTorch is in (1 of 3)."
	@$(PIP) -e ".[test]" || { $(STOPPED); }
	@echo "  The other packages are in (2 of 3)."
	@mkdir -p $(LAB_SETTINGS) && echo '{"@jupyterlab/apputils-extension:notification": $(NO_NEWS)}' \
	  > $(LAB_SETTINGS)/default_setting_overrides.json
	@$(PY) -m course_lib.train.published && echo "  The models and words for lessons 03, 04, 07, 08 and 15 are in (3 of 3)." || \
	  echo "  All lessons but 03, 04, 07, 08 and 15 can be run without them (3 of 3)."
	@pwd -P > $@

LAB_SETTINGS := $(VENV)/state/jupyter/labconfig
NO_NEWS := {"fetchNews": "false", "checkForUpdates": false}
PIP := $(PY) -m pip install --disable-pip-version-check --no-input --quiet
STOPPED := echo "The set-up stopped: see the line above, then run make again, it goes on from there." >&2; exit 1
