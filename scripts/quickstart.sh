#!/usr/bin/env bash
# From a fresh machine to a finished training job: installs, builds, runs two workers on synthetic images.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ $# -gt 0 ]; then
  echo "usage: scripts/quickstart.sh"
  echo "Installs what the build needs, builds build/release, and trains a small network on two workers."
  [ "$1" = --help ] || [ "$1" = -h ] || exit 2
  exit 0
fi

step() {
  printf '\n== %s\n' "$*"
}

# run PROGRAM...: shows the command, and runs it.
run() {
  printf '$ %s\n\n' "$*"
  "$@"
}

step "Packages (apt-get; nothing happens when they are installed)"
scripts/install_deps.sh build

step "Build of the launcher (build/release, without the tests)"
cmake --preset release -DMUSTER_BUILD_TESTS=OFF -DMUSTER_BUILD_BENCHMARKS=OFF
cmake --build --preset release --parallel "$(nproc)" --target muster

step "Run: two workers print their ranks"
run build/release/bin/muster run --nproc-per-node 2 printenv RANK
printf '\nThe first job has run after %s s.\n' "$SECONDS"

step "Build of the rest"
cmake --build --preset release --parallel "$(nproc)"

step "Run: two workers train a small CNN on synthetic images"
run build/release/bin/muster run --nproc-per-node 2 \
  build/release/bin/muster-train --model small-cnn --data synthetic --epochs 2

step "Done in ${SECONDS} s"
cat <<'TEXT'
What happened: `muster run` opened a store, started two workers, gave each its rank, and watched them to the end.
The parameter hash above is the same on both ranks: they trained one model together.

Next:
  the same on your data   build/release/bin/muster run --nproc-per-node 2 build/release/bin/muster-train --data DIR
                          (DIR holds data_batch_1.bin ... and test_batch.bin of CIFAR-10's binary version)
  your PyTorch script     build/release/bin/muster run --nproc-per-node 2 train.py
  see what would start    build/release/bin/muster run --dry-run --nproc-per-node 2 train.py
  run all tests           scripts/test.sh
TEXT
