#!/usr/bin/env bash
# Builds in a root of a Debian release, with that release's compiler and libraries, and runs the unit tests there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/test_distribution.sh bookworm|trixie [COMPILER]

  COMPILER  a compiler of that release, by the name of its package: g++ (default), g++-14, clang, clang-19, ...

The root is build/root-RELEASE, made once with debootstrap (2 GB; remove it to make it anew), from the mirror that this machine's apt
has for Debian, or deb.debian.org where it has none; MUSTER_DEBIAN_MIRROR names another. The sources of this tree are copied in, what is not
committed included, and what the tests labelled unit and sim need is built there. What measures time is left out, and so is what needs a package that
scripts/install_deps.sh unit does not name: PyTorch, Gloo, MPI, CUDA.

It must run as root, for namespaces; what it builds in there, it builds as a user without rights. All that it mounts and starts lives in
namespaces of its own and ends with it. The last lines are the versions that were compiled with and "N passed, N failed, N skipped"; the exit
code is 0 only if nothing failed.
TEXT
}

fail() {
  printf 'test_distribution.sh: %s\n' "$@" >&2
  exit 1
}

case "${1:-}" in
  bookworm | trixie) release=$1 ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac
compiler=${2:-g++}
if [ $# -gt 2 ] || ! [[ $compiler =~ ^(g\+\+|clang)(-[0-9]+)?$ ]]; then
  usage >&2
  exit 2
fi
case "$compiler" in
  g++*) cc=gcc${compiler#g++} cxx=$compiler ;;
  clang*) cc=$compiler cxx=clang++${compiler#clang} ;;
esac

root=$PWD/build/root-$release
results=$PWD/build/distribution/$release-$compiler
tree=/build/$compiler
jobs=$(nproc)

trap 'exit 130' INT

# shellcheck source=scripts/debian_root.sh
. scripts/debian_root.sh
# shellcheck source=scripts/copy_sources.sh
. scripts/copy_sources.sh

# as_user COMMAND...: in the root, as somebody whose are the build tree and the compiler's cache.
as_user() {
  in_root setpriv --reuid nobody --regid nogroup --clear-groups env HOME=/tmp "$@"
}

install_packages() {
  in_root scripts/install_deps.sh unit
  in_root dpkg-query --show "$compiler" >/dev/null 2>&1 && return
  in_root apt-get install --yes --no-install-recommends "$compiler" ||
    fail "$release has no compiler $compiler, or its mirror could not be reached. It has:" \
      "$(in_root apt-cache search --names-only '^(g\+\+|clang)(-[0-9]+)?$' | sed 's/ .*//' | sort --version-sort | paste --serial --delimiters=' ')"
  in_root apt-get clean
}

# What the compiler itself reads, whichever packages brought it.
versions() {
  # shellcheck disable=SC2016  # the inner shell expands it
  in_root bash -c '
    set -euo pipefail
    macros=$(printf "#include <boost/version.hpp>\n#include \"worker_sdk/nn/cpu/onednn.hpp\"\n#include \"catch.hpp\"\n" |
      "$1" -std=c++20 -E -dM -x c++ -I . -I worker_sdk/include -I tests/support -)
    value() { sed -n "s/^#define $1 //p" <<<"$macros" | tr -d "\"" | tr _ .; }
    release=$(sed -n "s/^PRETTY_NAME=//p" /etc/os-release | tr -d "\"")
    printf "%s, %s, Boost %s, Catch2 %s.%s.%s, oneDNN %s.%s.%s\n" "$release" "$("$1" --version | head -n 1)" "$(value BOOST_LIB_VERSION)" \
      "$(value CATCH_VERSION_MAJOR)" "$(value CATCH_VERSION_MINOR)" "$(value CATCH_VERSION_PATCH)" \
      "$(value DNNL_VERSION_MAJOR)" "$(value DNNL_VERSION_MINOR)" "$(value DNNL_VERSION_PATCH)"' versions "$cxx"
}

check_root_can_be
make_root
copy_sources "$root/muster"
copy_names
install_packages
mkdir -p "$root$tree" "$root/ccache"
in_root chown -R nobody:nogroup "$tree" /ccache
mkdir -p "$results"
rm -f "$results"/*
log=$results/build.log
# Warnings are counted and are no errors: a newer compiler knows others, and what is asked here is whether it works.
printf '== build (%s)\n' "$log"
if ! {
  as_user cmake --preset release -B "$tree" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
    -DMUSTER_BUILD_TESTS=ON -DMUSTER_TESTS=all -DMUSTER_WARNINGS_AS_ERRORS=OFF &&
    as_user cmake --build "$tree" --parallel "$jobs" --target muster_unit_tests
} >"$log" 2>&1; then
  grep --extended-regexp --after-context=8 'error:|CMake Error|FAILED:' "$log" | head -n 60 || tail -n 20 "$log"
  versions || true
  fail "the build failed: $log has all of it."
fi
printf 'warnings: %d\n' "$(grep --count ' warning: ' "$log" || true)"

code=0
in_root ctest --test-dir "$tree" --label-regex '^(unit|sim)$' --label-exclude '^(timed|soak)$' --no-tests=error --parallel "$jobs" \
  --test-output-size-passed 65536 --output-on-failure --output-junit "$tree/results.xml" || code=1
cp "$root$tree/results.xml" "$results/$release-$compiler.unit.xml" || fail "ctest wrote no results: see above."
echo
versions
python3 scripts/test_summary.py "$results" || code=1
exit "$code"
