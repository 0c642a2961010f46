# Everything a developer runs. `make` alone lists the targets.
JOBS := $(shell nproc)
PYTHON := .venv/bin/python
FUZZ_SECONDS ?= 300
# Models and data come from installed packages: nothing is fetched while code runs.
export HF_HUB_OFFLINE := 1

.DEFAULT_GOAL := help
.PHONY: help setup build demo test lint format fuzz asan tsan bench bench-check choice clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install system packages and .venv, build what the package and the tool need
	@scripts/setup.sh

build: setup ## Build everything of the release preset, tests and benchmarks too
	@cmake --build build/release -j $(JOBS)

demo: setup ## Tune a real model on a text file and serve it from Python and from C++
	@$(PYTHON) examples/demo.py

test: build ## Run the C++ and the Python tests
	@build/release/bin/graphtune_tests --gtest_brief=1
	@if [ -x build/release/bin/graphtune_engine_tests ]; then build/release/bin/graphtune_engine_tests --gtest_brief=1; fi
	@ctest --test-dir build/release --output-on-failure -L install
	@$(PYTHON) -m pytest -q -n $(JOBS) --dist loadfile tests/python

lint: build ## Check format, clang-tidy, ruff and mypy
	@scripts/lint.sh

format: ## Format the C++ and the Python sources
	@git ls-files '*.h' '*.cpp' | xargs -r clang-format-14 -i
	@$(PYTHON) -m ruff format .
	@$(PYTHON) -m ruff check --fix .

fuzz: ## Run each fuzz target for FUZZ_SECONDS (300) seconds
	@scripts/fuzz.sh $(FUZZ_SECONDS)

asan: ## Core tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset asan-ubsan
	@cmake --build build/asan-ubsan -j $(JOBS)
	@build/asan-ubsan/bin/graphtune_tests --gtest_brief=1

tsan: ## Core tests under ThreadSanitizer
	@cmake --preset tsan
	@cmake --build build/tsan -j $(JOBS)
	@build/tsan/bin/graphtune_tests --gtest_brief=1

bench: build ## Run the C++ and the Python benchmarks, and write their figures into docs/benchmarks.md (alone)
	@mkdir -p build/bench
	@build/release/bin/graphtune_benchmarks --benchmark_min_time=0.1 --benchmark_out_format=json --benchmark_out=build/bench/core.json
	@$(PYTHON) benchmarks/python/bench_call.py --seconds 1 --json build/bench/calls.json
	@$(PYTHON) benchmarks/python/bench_load.py --rounds 3 --json build/bench/load.json
	@$(PYTHON) benchmarks/python/bench_together.py --rounds 6 --json build/bench/together.json
	@$(PYTHON) benchmarks/report.py build/bench

bench-check: build ## Compare the instructions of the C++ call path with those stored (UPDATE=--update stores them)
	@$(PYTHON) benchmarks/check_instructions.py $(UPDATE)

choice: build ## Measure a real model's plan anew, and see whether ten tunes of it agree (half an hour, alone)
	@$(PYTHON) benchmarks/python/check_plan.py
	@$(PYTHON) benchmarks/python/check_stability.py

clean: ## Remove all builds (not .venv)
	@rm -rf build
