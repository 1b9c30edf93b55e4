# Thin: what a target sets up is decided in tools/setup_env.py, what it then does in `labs`.
PYTHON ?= python3
TORCH ?= auto
ARGS ?=
export TORCH

SETUP := "$(PYTHON)" tools/setup_env.py
# nbgrader starts `alembic` by name, so .venv/bin stands first on PATH
IN_VENV := PATH="$(CURDIR)/.venv/bin:$$PATH"
LABS := $(IN_VENV) .venv/bin/labs

.DEFAULT_GOAL := help
.PHONY: help lab test run build bench soak clean

help:
	@echo "make lab     set up and open JupyterLab on your own copy of the notebooks (work/)"
	@echo "make test    set up and run all tests; ARGS=\"tests/course -k progress\" runs some"
	@echo "make run     the whole course in one command: execute, grade and show the progress table"
	@echo "make build   build the notebooks from solutions/*.py (ARGS=--check: only compare)"
	@echo "make bench   run the benchmarks; what needs a GPU says so without one"
	@echo "make soak    the long tests: repetitions, kills, large classes"
	@echo "make clean   remove .venv and caches; never work/ or grading/"
	@echo
	@echo "TORCH=auto (default) | cuda | cpu | system   which torch: see tools/setup_plan.py"
	@echo "ARGS=\"...\"   is passed on       PYTHON=python3.12   the python to set up with"
	@echo "Then: .venv/bin/labs doctor      says what this machine can do"

lab:
	@$(SETUP) lab
	@$(LABS) start --open $(if $(ARGS),-- $(ARGS))

test:
	@$(SETUP) dev
	@$(IN_VENV) .venv/bin/python -m ruff check .
	@$(IN_VENV) .venv/bin/python -m pytest $(ARGS)

run build bench:
	@$(SETUP) dev
	@$(LABS) $@ $(ARGS)

soak:
	@$(SETUP) dev
	@$(IN_VENV) .venv/bin/python -m pytest tests -m soak $(ARGS)

clean:
	@$(SETUP) clean
