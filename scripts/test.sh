#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test there is.
# shellcheck disable=SC2317  # the functions are called through stage()
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [--quick]

  --quick    the release tree without the tests labelled slow, and lint without clang-tidy: a few minutes
  (nothing)  also the address and thread sanitizers, the fuzzers (30 s each) and clang-tidy

The last line is "N passed, N failed, N skipped"; the exit code is 0 only if nothing failed. A test that fails is run once more,
alone; if it passes then, it is named as unsteady and does not fail the run, unless a sanitizer reported or a program crashed.
Tests with real images use MUSTER_TEST_CIFAR10 (default: ../shared/data/cifar-10-batches-bin) and are skipped without it.
Tests with PyTorch use a virtual environment in build/venv, made once; they are skipped where PyPI cannot be reached.
The NCCL plug-in is built where headers of NCCL and CUDA are found or can be fetched into build/cuda.
TEXT
}

quick=false
case "${1:-}" in
  "") ;;
  --quick) quick=true ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac

jobs=$(nproc)
# What one clone compiled serves the next: paths count from here, whatever this folder is called.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
results=build/results
failed_stages=()
timings=()

# stage TITLE COMMAND...: runs the command, prints how long it took, goes on after a failure.
stage() {
  local title=$1 begin=$SECONDS outcome=ok
  shift
  printf '\n== %s\n' "$title"
  if ! "$@"; then
    outcome=FAILED
    failed_stages+=("$title")
  fi
  timings+=("$(printf '%5d s  %-6s  %s' $((SECONDS - begin)) "$outcome" "$title")")
  printf '== %s: %s, %d s\n' "$title" "$outcome" $((SECONDS - begin))
  [ "$outcome" = ok ]
}

build() {
  cmake --preset "$1" -DMUSTER_BUILD_TESTS=ON -DMUSTER_BUILD_BENCHMARKS=OFF >build/"$1"-configure.log || {
    cat build/"$1"-configure.log
    return 1
  }
  cmake --build --preset "$1" --parallel "$jobs"
}

# run_ctest TREE: the few tests that fail are run again, alone: what happens once on a busy machine is told apart from what happens
# always. scripts/test_summary.py holds both runs side by side and has the last word.
run_ctest() {
  local exclude='^$' first=$results/$1.xml again=$results/$1.again.xml said=$results/$1.log
  $quick && exclude=slow
  ctest --preset "$1" --label-exclude "$exclude" --parallel "$jobs" --no-tests=error --output-junit "$PWD/$first" |
    tee "$said" && return
  may_be_chance "$first" "$said" || return 1
  printf '\nOnce more, alone:\n'
  ctest --preset "$1" --rerun-failed --output-junit "$PWD/$again" || true
  python3 scripts/test_summary.py "$first" "$again"
}

# may_be_chance RESULTS OUTPUT: one to five tests have failed or taken too long, and there is no crash, no report of a sanitizer or a
# fuzzer, and no test that could not be started.
may_be_chance() {
  local failures
  failures=$(grep -c '<failure' "$1" 2>/dev/null) || return 1
  [ "$failures" -le 5 ] || return 1
  ! grep --extended-regexp '(ERROR|WARNING): ([A-Za-z]+Sanitizer|libFuzzer)|runtime error:' "$2" >/dev/null || return 1
  ! sed -n '/^The following tests FAILED:/,$p' "$2" | grep --extended-regexp '^\s+[0-9]+ - ' |
    grep --invert-match --extended-regexp ' \((Failed|Timeout|Skipped|Disabled)\)' >/dev/null
}

# Tests run only when their tree was built; a tree that cannot be built is a failure of its own.
test_tree() {
  if stage "build $1" build "$1"; then
    stage "test $1" run_ctest "$1" || true
  fi
}

slowest_files() {
  printf '\nSlowest files to compile (build/release):\n'
  python3 scripts/compile_times.py build/release --top 5
}

mkdir -p "$results"
rm -f "$results"/*.xml "$results"/*.log
stage "packages" scripts/install_deps.sh test || exit 1
stage "PyTorch (build/venv)" scripts/make_venv.sh || true
stage "NCCL and CUDA headers (build/cuda)" scripts/fetch_cuda_headers.sh || true
test_tree release
slowest_files || true
if $quick; then
  stage "lint" scripts/lint.sh --no-tidy || true
else
  stage "lint" scripts/lint.sh || true
  test_tree asan
  test_tree tsan
  test_tree fuzz
fi

printf '\nTime: %d s\n' "$SECONDS"
printf '%s\n' "${timings[@]}"
if [ ${#failed_stages[@]} -gt 0 ]; then
  printf '\nFailed stages:\n'
  printf '  %s\n' "${failed_stages[@]}"
fi
echo
shopt -s nullglob
code=0
python3 scripts/test_summary.py "$results"/*.xml || code=1
[ ${#failed_stages[@]} -eq 0 ] || code=1
exit "$code"
