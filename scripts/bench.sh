#!/usr/bin/env bash
# Measures Muster beside the tools it replaces and writes docs/benchmarks.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=()
for script in tests/bench/*/run.py; do
  all+=("$(basename "$(dirname "$script")")")
done

usage() {
  cat <<TEXT
usage: scripts/bench.sh [SECTION...|all] [-- ARGUMENT...]

Sections: ${all[*]} (default: all)
Installs the peers (PyTorch into build/venv), builds build/bench, runs each section's tests/bench/SECTION/run.py, which measures ours and the peers in
turn, and puts its tables into docs/benchmarks.md. Remarks there outside a section's marks stay. ARGUMENTs go to each run.py: sizes
for a trial, as \`train -- --rounds 1 --share 0.1\`.
Nothing else should run on the machine meanwhile, and nothing but that page and its pictures may differ from the commit that the page will name.
TEXT
}

sections=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  sections+=("$1")
  shift
done
[ $# -eq 0 ] || shift
arguments=("$@")
if [ ${#sections[@]} -eq 0 ] || [ "${sections[0]}" = all ]; then
  sections=("${all[@]}")
fi
for section in "${sections[@]}"; do
  if [ "$section" = --help ] || [ "$section" = -h ]; then
    usage
    exit 0
  fi
  if [ ! -f "tests/bench/$section/run.py" ]; then
    echo "bench.sh: no section '$section'" >&2
    usage >&2
    exit 2
  fi
done

# A figure can be made again from the commit that it names, or it is none.
changed=$(git status --porcelain -- . ':!docs/benchmarks.md' ':!docs/benchmarks.svg' ':!docs/parallel.svg')
if [ -n "$changed" ]; then
  {
    echo "bench.sh: the tree differs from $(git rev-parse --short HEAD), so no commit would have these figures; commit or stash first:"
    echo "$changed"
  } >&2
  exit 2
fi

scripts/install_deps.sh bench
scripts/make_venv.sh
cmake --preset release -B build/bench -DMUSTER_BUILD_TESTS=OFF -DMUSTER_BUILD_BENCHMARKS=ON
cmake --build build/bench --parallel "$(nproc)"
# What is measured is what users have: stripped, and written in one piece, as pip, tar and dpkg write it. A program as the
# linker or strip leaves it lies in the page cache in single pages, and takes a tenth longer to start.
installed=$PWD/build/bench/installed
rm -rf "$installed" "$installed.first"
cmake --install build/bench --component tools --prefix "$installed.first" --strip
cp -r "$installed.first" "$installed"
for program in build/bench/bin/*; do
  [ -e "$installed/bin/$(basename "$program")" ] || cp "$program" "$installed/bin/"
done
[ -x build/venv/bin/torchrun ] ||
  echo "no PyTorch in build/venv: rows that need it are left out" >&2

mkdir -p build/bench/results
failed=()
for section in "${sections[@]}"; do
  printf '\n== %s\n' "$section"
  result=build/bench/results/$section.md
  if "tests/bench/$section/run.py" --bin "$installed/bin" --torch-python "$PWD/build/venv/bin/python" \
    "${arguments[@]}" | tee "$result"; then
    scripts/bench_report.py docs/benchmarks.md "$section=$result"
  else
    failed+=("$section")
  fi
done
scripts/benchmarks_picture.py || failed+=(picture)
if [ build/bench/results/parallel.json -nt "$installed" ]; then
  if build/venv/bin/python scripts/plot.py --bench build/bench/results/parallel.json --output build/bench/results --format svg; then
    cp build/bench/results/memory.svg docs/parallel.svg
  else
    failed+=("picture of memory")
  fi
fi
if [ ${#failed[@]} -gt 0 ]; then
  echo "bench: failed, and left as they were in docs/benchmarks.md: ${failed[*]}" >&2
  exit 1
fi
