# One entry for commands. `make help` lists them; everything runs in .venv, which `make setup` fills.

PYTHON ?= python3
BIN := .venv/bin
JAX_CHECKOUT ?= ../jax
XLA_CHECKOUT ?= ../xla
CORES ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
AS_PROCESSOR := $(if $(PROCESSOR),benchmarks/as_processor.py $(PROCESSOR))

.DEFAULT_GOAL := help
.PHONY: libraries help lock setup run test test-slow test-mpi test-emulated test-vscode coverage check format golden bench bench-suite bench-neon bench-linear-algebra bench-models bench-large bench-jax sharded bench-mpi bench-gpu performance bench-start bench-threads bench-memory bench-passes bench-parse parse-equality footprint docs screens accuracy conformance conformance-gpu jax-tests xla-texts site tree-sitter fuzz fuzz-nightly valgrind prove pass-matrix ci clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e '.[dev]'
	@touch $@

lock: ## pin the packages that CI installs: .ci/constraints.txt
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	HLOC_PREBUILT=0 build/lock/bin/pip install -q -e '.[dev]' hatchling
	{ sed -n '/^#/p' .ci/constraints.txt; build/lock/bin/pip freeze --exclude-editable; } > build/constraints.txt
	mv build/constraints.txt .ci/constraints.txt

setup: .venv/.installed ## make .venv and install hloc with the dev extra

run: setup ## compile and run an example and compare it with the evaluator
	$(BIN)/hloc examples/mlp_train_step.hlo -O2 --run --random=0 --compare-with=interp

test: setup ## the tests that need neither JAX nor a GPU
	$(BIN)/python -m pytest -q -n auto

test-slow: setup ## the slow tests, and those beside JAX and PyTorch (skipped where they are missing)
	$(BIN)/python -m pytest -q -m "slow or jax or torch"

test-mpi: setup ## jobs of several processes over MPI; needs `pip install 'hloc[mpi]'`
	$(BIN)/python -m pytest -q -m mpi tests/mpi

test-emulated: setup ## objects for other machines and processors, under QEMU and node
	$(BIN)/python -m pytest -q -m "slow or not slow" tests/unit/codegen/test_aot*.py

test-vscode: setup ## the extension in VS Code itself (needs code-server, chromium, chromedriver and npm)
	$(BIN)/python -m pytest -q -m slow tests/unit/editors/test_vscode.py tests/web/test_code_server.py

coverage: setup ## lines and branches that the default tests reach, worker processes included
	rm -rf build/coverage
	mkdir -p build/coverage
	$(BIN)/coverage run -m pytest -q -n auto
	$(BIN)/coverage combine -q
	$(BIN)/coverage html -q -d build/coverage/html
	$(BIN)/coverage report --sort=cover

check: setup ## lint, format and types; CI runs this target
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## rewrite files as `make check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

golden: setup ## rewrite the expected texts of the golden tests; read the diff afterwards
	$(BIN)/python -m pytest -q tests --update-golden

bench-parse: setup ## speed and memory of reading and printing; FILES="a.hlo b.hlo" for other texts
	$(BIN)/python benchmarks/bench_parse.py $(FILES)

parse-equality: setup ## both ways of reading on all texts and 75,000 mutations: 0 differences
	$(BIN)/python -m tests.unit.parser.two_ways --jobs $(CORES)

bench: setup ## parse and run times, beside XLA:CPU where jax is installed
	$(BIN)/python benchmarks/bench_parse.py
	$(BIN)/python benchmarks/bench_run.py

bench-jax: setup ## small JAX programs on hloc's backend and on plain JAX (needs jax), and libraries where they are installed: docs/jax-small.md, docs/jax-libraries.md
	mkdir -p build
	$(BIN)/python benchmarks/jax_small.py --page docs/jax-small.md --json build/jax_small.json $(NAMES)
	$(BIN)/python benchmarks/jax_small.py --append build/jax_small.json
	$(BIN)/python benchmarks/jax_libraries.py --page docs/jax-libraries.md

bench-mpi: setup ## collectives over MPI beside raw mpi4py (needs hloc[mpi])
	for n in 2 4; do $(BIN)/mpiexec --oversubscribe -n $$n $(BIN)/python benchmarks/mpi_latency.py; done

sharded: setup ## sharded JAX programs in four ways beside XLA (needs jax, and mpi4py for one way): docs/sharded.md; NAMES="grids heat" for some
	$(BIN)/python -m benchmarks.sharded.dump build/sharded $(NAMES)
	$(BIN)/python benchmarks/bench_sharded.py build/sharded --times --page docs/sharded.md $(NAMES)

bench-gpu: setup ## kernels on an NVIDIA GPU beside XLA:GPU and PyTorch; NAMES="softmax transpose" for some
	$(BIN)/python benchmarks/gpu.py $(NAMES)

performance: bench-suite bench-models bench-large ## measure kernels, whole models and large modules beside XLA:CPU and write docs/performance.md (needs jax; hours)

bench-suite: setup ## two hundred programs beside XLA:CPU, on one core and on CORES (needs jax; an hour): docs/performance.md; NAMES="rows softmax" for some, PROCESSOR=avx2 or avx512 as on an older processor
	mkdir -p build
	$(BIN)/python $(AS_PROCESSOR) -m hloc cache --fill=package -q
	$(BIN)/python $(AS_PROCESSOR) benchmarks/bench_suite.py --json build/suite.json $(NAMES)
	$(BIN)/python $(AS_PROCESSOR) benchmarks/bench_suite.py --cores $(CORES) --json build/suite_cores.json $(NAMES)
	$(BIN)/python benchmarks/history.py build/suite.json build/suite_cores.json
	$(BIN)/python benchmarks/suite_page.py

bench-neon: setup ## instructions of the same programs on an emulated 64-bit ARM processor, beside XLA:CPU (needs jax, QEMU and an aarch64 system in HLOC_AARCH64_ROOT: benchmarks/bench_neon.py; an hour or two): docs/performance.md; NAMES="rows softmax" for some
	mkdir -p build
	$(BIN)/python benchmarks/bench_neon.py --json build/neon.json $(NAMES)
	$(BIN)/python benchmarks/bench_neon.py --append build/neon.json
	$(BIN)/python benchmarks/suite_page.py

bench-linear-algebra: setup ## programs with linear algebra beside XLA:CPU, write docs/linear-algebra.md (needs jax; four minutes)
	mkdir -p build
	$(BIN)/hloc cache --fill=package -q
	$(BIN)/python benchmarks/bench_suite.py small_matrices factorisations linear_algebra --json build/linear_algebra.json
	$(BIN)/python benchmarks/history.py build/linear_algebra.json
	$(BIN)/python benchmarks/linear_algebra_page.py > build/linear_algebra.md
	mv build/linear_algebra.md docs/linear-algebra.md

bench-models: setup ## whole models beside XLA:CPU, PyTorch and ONNX Runtime, write docs/models.md and README's figures (needs jax, better hloc[peers]; an hour or two); NAMES="resnet gpt2" for some
	mkdir -p build
	$(BIN)/hloc cache --fill=package -q
	$(BIN)/python benchmarks/bench_models.py --json build/models.json $(NAMES)
	$(BIN)/python benchmarks/bench_models.py --append build/models.json
	$(BIN)/python benchmarks/models_page.py
	$(BIN)/python benchmarks/suite_page.py

bench-large: setup ## compile training steps of GPT of up to 30,000 instructions beside XLA:CPU: docs/performance.md (needs jax)
	mkdir -p build
	$(BIN)/python benchmarks/bench_large.py --json build/large.json
	$(BIN)/python benchmarks/bench_large.py --append build/large.json
	$(BIN)/python benchmarks/suite_page.py

bench-start: setup ## processor time of commands from start to end, into benchmarks/history
	$(BIN)/python benchmarks/bench_start.py

bench-threads: setup ## fork and join, one and two threads, beside the simulation; NAMES="softmax models" of the suite (needs jax), ARGS="--busy 2" for busy cores
	$(BIN)/python benchmarks/bench_threads.py $(NAMES) $(ARGS)

bench-memory: setup ## temporary memory and kernels, beside XLA:CPU where jax is installed; FILES=...
	$(BIN)/python benchmarks/bench_memory.py --cache build/xla_memory.json --json build/memory.json $(FILES)

bench-passes: setup ## time of the passes against the number of instructions, up to 24,000
	$(BIN)/python benchmarks/bench_passes.py

footprint: setup ## disk, memory and time of compiled programs, NumPy and jaxlib: docs/footprint.md
	$(BIN)/python benchmarks/footprint.py --runs 9 --write

docs: setup ## rewrite the generated pages docs/{command-line,diagnostics,numerics,opcodes,passes,rules}.md, and the colours of editors
	for page in command_line diagnostics numerics passes rules opcodes; do \
		$(BIN)/python -m docs.generators.$$page > docs/.page.md && \
		mv docs/.page.md docs/$$(echo $$page | tr _ -).md || exit 1; done
	$(BIN)/python -m docs.generators.textmate > editors/vscode/syntaxes/hlo.tmLanguage.json
	$(BIN)/python -m docs.generators.tree_sitter > editors/tree-sitter-hlo/queries/highlights.scm
	$(BIN)/python -m docs.generators.emacs > editors/emacs/hlo-words.el

site: setup ## the documentation site, in build/site (needs `pip install 'hloc[docs]'`); open it with `python -m http.server -d build/site`
	$(BIN)/python -m docs.generators.site build/site-source
	$(BIN)/mkdocs build --strict

tree-sitter: setup ## the share of legal texts in a folder that the tree-sitter grammar reads without a fault: TEXTS=FOLDER (needs tree-sitter and cc)
	$(BIN)/python -m tests.unit.editors.tree_sitter_hlo $(TEXTS)

screens: setup ## draw the pictures of README and docs/pictures.md again, from the examples
	$(BIN)/python benchmarks/repl_picture.py
	$(BIN)/hloc graph examples/softmax_relu.hlo -q -o docs/screens/graph.svg
	$(BIN)/hloc graph examples/gpt_block.hlo reduce_sum.49 --radius=3 -q -o docs/screens/neighbourhood.svg
	mkdir -p build
	$(BIN)/hloc examples/softmax_relu.hlo -O2 -q -o build/softmax_relu.hlo
	$(BIN)/hloc graph build/softmax_relu.hlo --diff=examples/softmax_relu.hlo -q -o docs/screens/diff.svg
	$(BIN)/hloc examples/gpt_block.hlo -q --memory=docs/screens/memory.svg
	$(BIN)/hloc roofline examples/gpt_block.hlo --run -q -o docs/screens/roofline.svg

accuracy: setup ## measure the elementary functions and rewrite docs/accuracy.md
	$(BIN)/python benchmarks/accuracy.py --write

fuzz: setup ## random modules, texts and protos for MINUTES (10) from SEED (0); findings shrink into build/fuzz
	nice -n 10 $(BIN)/python -m fuzz --minutes $(or $(MINUTES),10) --seed $(or $(SEED),0)

fuzz-nightly: setup ## the same for eight hours, from a seed of the day
	nice -n 10 $(BIN)/python -m fuzz --minutes 480 --seed $$(date +%Y%m%d)00000

valgrind: setup ## MODULES (1000) random modules from SEED (0) as C programs under valgrind (needs valgrind and cc)
	nice -n 10 $(BIN)/python -m fuzz.valgrind --modules $(or $(MODULES),1000) --seed $(or $(SEED),0)

prove: setup ## prove every rule of the simplifier and compare with the record (about eight minutes); WRITE=--write records anew
	$(BIN)/python -m tests.prove_rules --jobs $(CORES) $(WRITE) $(RULES)

pass-matrix: setup ## every pass alone on many modules, against the evaluator
	$(BIN)/python tests/pass_matrix.py

conformance: setup ## pass rates on foreign modules against the recorded floors
	$(BIN)/python tests/conformance_gate.py

conformance-gpu: setup ## the same for GPU code in the PTX interpreter, on a sample
	$(BIN)/python tests/conformance_gate.py gpu-jax gpu-modules --minutes 4

jax-tests: setup ## JAX's own tests, plain and on hloc: JAX_CHECKOUT=folder of jax-ml/jax (its version's tag); FILES="lax api"
	$(BIN)/python benchmarks/jax_tests/run.py $(JAX_CHECKOUT) $(FILES)

libraries: ## programs of 69 JAX libraries beside XLA, in an environment of their own: docs/libraries.md
	$(PYTHON) -m venv build/libraries
	build/libraries/bin/pip install -q -e .
	grep -v '^#' benchmarks/libraries/requirements.txt | xargs -n 1 build/libraries/bin/pip install -q jax==0.10.2
	# The stable release, which some ask for, does not know this version of JAX; both are one package.
	build/libraries/bin/pip uninstall -q -y tensorflow-probability
	grep tfp-nightly benchmarks/libraries/requirements.txt | xargs build/libraries/bin/pip install -q --no-deps --force-reinstall
	build/libraries/bin/python -m benchmarks.libraries --page docs/libraries.md $(PACKAGES)

xla-texts: setup ## every text of XLA's source judged as XLA's tests judge it: XLA_CHECKOUT=folder of openxla/xla
	$(BIN)/python -m tests.xla_texts $(XLA_CHECKOUT) $(NAMES)

ci: ## what CI runs: the README's test line, then the conformance gate
	.ci/run

clean: ## remove the environment, caches and build products
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
