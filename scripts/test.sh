#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test once, in the tree that suits it.
# shellcheck disable=SC2317  # the functions are called through stage()
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test.sh [--quick]

  --quick    the unit tests and whole jobs in the release tree, without those labelled slow or timed, and lint without clang-tidy
  (nothing)  also the trees with the address and undefined-behaviour sanitizers and with the thread sanitizer, and clang-tidy

Each test runs in one tree: what computes or measures, and whole jobs, as users have them (build/release); all else under the address
sanitizer (build/asan); groups, reducer, loader, writers and control port under the thread sanitizer as well (build/tsan). Fuzzers, mutants and the many repetitions
are in scripts/soak.sh.

The last lines are a table of what was promised and measured, the seconds that each room's tests took, and "N passed, N failed,
N skipped"; the exit code is 0 only if nothing failed. A test that measures time (label timed) and fails is run once more, alone, and named as
unsteady if it passes then and had only been late; no other failure is excused.
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
results=$PWD/build/results
export MUSTER_TEST_PROMISES=$results/promises.jsonl
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

# newest_clang: the one that scripts/install_deps.sh installs where a distribution has no longer the one that the presets name.
newest_clang() {
  local version
  for version in 21 20 19 18 17 16; do
    command -v "clang++-$version" && return
  done
  return 1
}

# build TREE TARGET [OPTION...]: by one compiler more than there are processors, for the moments in which one reads or writes.
build() {
  local tree=$1 target=$2 clang='' configured
  shift 2
  mkdir -p "build/$tree"
  if [ "$tree" != release ]; then
    clang=$(newest_clang) || {
      echo "build/$tree needs clang++-16 or newer, and there is none; scripts/install_deps.sh test installs it" >&2
      return 1
    }
    # Without the lines of sources a sixth less is to be compiled: reports name functions. "cmake --preset asan" brings the lines back, with this compiler.
    set -- "$@" -DCMAKE_C_COMPILER="${clang/++/}" -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_CXX_FLAGS_DEBUG=-O0
  fi
  configured=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "build/$tree/CMakeCache.txt" 2>/dev/null || true)
  # CMake would take another compiler, and forget all that it was told of the tree.
  [ -z "$configured" ] || [ -z "$clang" ] || [ "$(basename "$configured")" = "$(basename "$clang")" ] || set -- "$@" --fresh
  cmake --preset "$tree" -DMUSTER_BUILD_TESTS=ON -DMUSTER_BUILD_BENCHMARKS=OFF "$@" >"build/$tree-configure.log" || {
    cat "build/$tree-configure.log"
    return 1
  }
  python3 scripts/build_cost.py record "build/$tree" cmake --build "build/$tree" --parallel $((jobs + 1)) --target "$target"
}

# ctest_tree TREE NAME OPTION...: the results go to build/results/TREE.NAME.xml.
ctest_tree() {
  local tree=$1 name=$2
  shift 2
  ctest --preset "$tree" --test-output-size-passed 65536 --output-junit "$results/$tree.$name.xml" "$@"
}

# run_side_by_side TREE: what measures no time, more at once than there are processors: most of a job's life is waiting.
run_side_by_side() {
  ctest --preset "$1" --show-only=json-v1 >"$results/$1.json"
  ctest_tree "$1" tests --label-exclude "^(timed|soak)$" --parallel $((jobs + 3)) --no-tests=error
}

# run_timed TREE: what measures time, one by one, but for those that mostly wait (label waits), which come first, six together: more would
# make one another late on two processors. What fails is measured once more, alone. scripts/test_summary.py has the last word.
run_timed() {
  ctest_tree "$1" timed --label-regex '^timed$' --parallel 6 --no-tests=error && return
  [ -s "$results/$1.timed.xml" ] || return 1
  printf '\nOnce more:\n'
  ctest_tree "$1" timed.again --label-regex '^timed$' --rerun-failed || true
}

mkdir -p "$results"
rm -f "$results"/*
stage "packages (downloads, not counted)" scripts/install_deps.sh test || exit 1
stage "PyTorch in build/venv (downloads, not counted)" scripts/make_venv.sh || true
stage "NCCL and CUDA headers in build/cuda (downloads, not counted)" scripts/fetch_cuda_headers.sh || true
downloads_s=$SECONDS
trees=()
if $quick; then
  # With the flags that scripts/quickstart.sh compiled the product with, which is then not compiled again.
  stage "build release" build release muster_tests -DMUSTER_TESTS=quick && trees+=(release)
else
  stage "build release" build release all -DMUSTER_TESTS=release -DMUSTER_WARNINGS_AS_ERRORS=ON && trees+=(release)
  stage "build asan" build asan muster_tests && trees+=(asan)
  stage "build tsan" build tsan muster_tests && trees+=(tsan)
fi
for tree in "${trees[@]}"; do
  stage "test $tree" run_side_by_side "$tree" || true
done
if $quick; then
  stage "lint" scripts/lint.sh --no-tidy || true
else
  [ "${trees[0]:-}" != release ] || stage "test release, timed" run_timed release || true
  stage "lint" scripts/lint.sh || true
fi

printf '\nTime: %d s, and %d s of downloads and packages\n' $((SECONDS - downloads_s)) "$downloads_s"
printf '%s\n' "${timings[@]}"
if [ ${#failed_stages[@]} -gt 0 ]; then
  printf '\nFailed stages:\n'
  printf '  %s\n' "${failed_stages[@]}"
fi
echo
code=0
partial=()
! $quick || partial=(--partial)
python3 scripts/test_summary.py "$results" --rooms tests/seconds.json "${partial[@]}" || code=1
[ ${#failed_stages[@]} -eq 0 ] || code=1
exit "$code"
