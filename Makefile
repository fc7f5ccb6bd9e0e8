# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup lock demo test test-gpu-kernels lint format docs wheel sanitize sanitize-threads attack bits clean

setup: $(STAMP)

# Everything is listed in requirements.lock with its hashes, the build backend too; what has no wheel is in
# requirements-source.lock, and is built with the tools of the first list, so that pip fetches none. torch is listed by its version alone:
# pip takes it from a file of the machine, which differs from machine to machine. Nothing else is fetched (--no-deps).
# Python compiles modules when they are first imported (--no-compile): most of them never are. torch is unpacked while the
# native library is compiled, which does not need it.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-compile
LOCKED := $(VENV)/.locked
$(LOCKED): constraints.txt requirements.lock requirements-source.lock
	$(PYTHON) -m venv --clear $(VENV)
	$(INSTALL) --require-hashes --requirement requirements.lock
	$(INSTALL) --no-build-isolation --require-hashes --requirement requirements-source.lock
	touch $@

$(STAMP): $(LOCKED) pyproject.toml CMakeLists.txt $(shell find native -type f 2>/dev/null)
	$(INSTALL) --constraint constraints.txt torch & \
	$(INSTALL) --no-build-isolation --editable .; built=$$?; wait $$! && exit $$built
	$(BIN)/pip check
	touch $@

# The lock file from the versions in constraints.txt, after a change of them.
lock:
	$(PYTHON) .ci/lock.py

demo: setup
	$(BIN)/python examples/demo.py

# In as many processes as there are cores. Threads that wait sleep: two processes of two threads on two cores otherwise
# take each other's time (tests of the choice: 75 s instead of over 8 minutes).
test: setup lint
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n auto

# Every kernel in Triton, on all sizes and kinds of structures: interpreted on the CPU, then compiled for five GPUs.
test-gpu-kernels: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not gpu" tests/kernels/test_triton_*.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation site in build/site: open build/site/index.html. Nothing is fetched.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# One wheel for any Python >= 3.11, any torch and any Linux from glibc 2.28 on, as torch's own; try_wheel.py holds it to
# that, then installs and uses it in a fresh environment that sees no compiler.
wheel: setup
	$(BIN)/python -m build --wheel --no-isolation --outdir dist --config-setting=wheel.tags=py3-none-manylinux_2_28_$$(uname -m)
	$(BIN)/python examples/try_wheel.py dist

# The native library with every access and every overflow checked, for one instruction set, and its tests with that one.
# Python and torch are not built so: of them the runtime is told to ask nothing. --capture=sys lets its report through. It
# keeps what is freed for a while, to catch who still uses it: so how much memory is in use is not asked here, nor what
# happens when it runs out, where the runtime itself ends the process.
# Threads that wait sleep (passive) instead of taking a core from those that work.
SANITIZED_SET ?= baseline
sanitize: setup
	cmake -S . -B build/sanitized -G Ninja -DQML_SANITIZE="address;undefined" -DQML_INSTRUCTION_SETS="$(SANITIZED_SET)"
	cmake --build build/sanitized
	QML_LIGHTNING_LIBRARY=build/sanitized/libqml_lightning.so ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	UBSAN_OPTIONS=print_stacktrace=1 OMP_WAIT_POLICY=passive \
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	$(BIN)/python -m pytest --capture=sys tests/kernels --ignore-glob='*test_triton*' \
	--deselect tests/kernels/test_native_predictor.py::test_a_thousand_steps_take_no_more_memory_than_the_first_ones \
	--deselect tests/kernels/test_native_abuse.py::test_memory_that_runs_out_is_told_and_the_predictor_serves_on

# Several threads inside the library at once, each with a team of one: GCC's OpenMP runtime tells the sanitizer nothing
# of how it hands work to a team, so larger teams would be reported where there is no race.
sanitize-threads:
	cmake -S . -B build/threads -G Ninja -DQML_SANITIZE=thread -DQML_INSTRUCTION_SETS="$(SANITIZED_SET)"
	cmake --build build/threads
	build/threads/native_threads

# Damaged files and killed commands, counted in a table: N files, with a seed. make attack N=5000 SEED=1
# Then wrong calls of the C interface, with three more seeds than the one in the tests.
N ?= 2000
SEED ?= 0
attack: setup
	PYTHONPATH=$(CURDIR)/tests/helpers OMP_NUM_THREADS=1 $(BIN)/python tests/attack --cases $(N) --seed $(SEED)
	for seed in 1 2 3; do QML_FUZZ_SEED=$$seed $(BIN)/python -m pytest --quiet tests/kernels/test_native_fuzz.py || exit 1; done

# Compares hashes of small fits with those of the table: a refactoring must change no bit.
bits: setup
	OMP_NUM_THREADS=1 $(BIN)/python tests/bits.py

clean:
	rm -rf $(VENV) build dist demo
