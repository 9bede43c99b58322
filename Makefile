# Every target is one line that calls the set-up, then `sv` or a test tool. `make help` lists them.
SHELL := /bin/bash
SV := .venv/bin/sv
MODELS ?= smollm2-135m
N ?=
INCLUDE_TOOLS ?=
ARGS ?=
tools_flag = $(if $(filter true,$(INCLUDE_TOOLS)),--tools,$(if $(filter false,$(INCLUDE_TOOLS)),--no-tools))

.DEFAULT_GOAL := help
.PHONY: help setup tools quickstart test test-slow check lock eval-e1 e1

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: ## make .venv, with everything but the embedded model
	@bash scripts/setup.sh base

quickstart: ## set up, then evaluate the embedded model and the baselines; prints the benchmark sheet
	@bash scripts/setup.sh local && $(SV) quickstart $(ARGS)

tools: ## build and install the external tools of the environments
	@bash scripts/setup.sh base && $(SV) tools install

test: ## set up, tools included, then run the tests
	@bash scripts/setup.sh dev && $(SV) tools install && .venv/bin/pytest -n auto $(ARGS)

test-slow: ## the tests that take minutes
	@bash scripts/setup.sh dev && .venv/bin/pytest -n auto -m slow $(ARGS)

check: ## format, lint, types, import layers, audits, regression gate
	@bash scripts/setup.sh dev && bash scripts/check.sh

lock: ## renew requirements/*.txt from pyproject.toml
	@bash scripts/lock.sh

eval-e1: ## evaluate E1: make eval-e1 MODELS="a,b" N=10
	@bash scripts/setup.sh local && $(SV) eval e1 --model "$(MODELS)" $(if $(N),-n $(N)) $(tools_flag) $(ARGS)

e1: ## E1's own tests
	@bash scripts/setup.sh dev && .venv/bin/pytest -n auto tests/sv_env_network_logs $(ARGS)
