#!/usr/bin/env bash
# Makes build/venv with PyTorch, which the tests with PyTorch and the benchmarks use; keeps one that works. Where it cannot be
# made, that is said and is no failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# More for the tests, which each skip without it: what reads the event files and the weights that we write, draws metrics, wraps
# programs, sends functions to other processes, and judges JSON by schemas.
extras=(tensorboard safetensors matplotlib uv cloudpickle jsonschema)
install_extras() {
  local extra
  # One by one: a machine for which one has no wheel gets the others.
  for extra in "${extras[@]}"; do
    build/venv/bin/python -c "import $extra" 2>/dev/null ||
      build/venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: "$extra" ||
      echo "PyPI cannot be reached, or has no $extra for this machine: tests with it are skipped"
  done
}

python=
if build/venv/bin/python -c 'import numpy, torch; print("PyTorch", torch.__version__)' 2>/dev/null; then
  install_extras
  exit 0
fi
# A python3 in PATH may be somebody's own build without ensurepip; the distribution's is tried first.
for candidate in /usr/bin/python3 python3; do
  if rm -rf build/venv && "$candidate" -m venv build/venv 2>/dev/null; then
    python=build/venv/bin/python
    break
  fi
done
if [ -z "$python" ]; then
  echo "no python3 with venv: tests with PyTorch are skipped"
  exit 0
fi
if ! "$python" -m pip install --quiet --disable-pip-version-check --only-binary :all: torch numpy; then
  rm -rf build/venv
  echo "PyPI cannot be reached: tests with PyTorch are skipped"
  exit 0
fi
install_extras
