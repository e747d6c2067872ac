#!/usr/bin/env bash
# Builds the launcher and the SDK in each way in which somebody may build them, and runs a job with what has been built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly ways=(make-3.25 ninja-3.25 make-4 ninja-4 static shared subproject fetchcontent spaces no-git no-root nccl-2.19)

usage() {
  cat <<TEXT
usage: scripts/test_builds.sh [WAY...]

Without WAY all of them: ${ways[*]}

  GENERATOR-CMAKE     Makefiles (the SDK alone) or Ninja, by the oldest CMake that is enough, and by the newest 4 (both from PyPI); each
                      configures muster-train and the tests, too
  static, shared      BUILD_SHARED_LIBS=OFF with OpenSSL's archives, BUILD_SHARED_LIBS=ON with its shared libraries
  subproject,         the SDK in a project of somebody else's, by add_subdirectory and by FetchContent from a folder
  fetchcontent
  spaces              sources and build tree in folders with spaces in their names
  no-git              sources without their history, where git cannot be run
  no-root             the SDK by another user than root
  nccl-2.19           the plug-in of NCCL and its tests on the fakes, with the oldest headers (fetched from PyPI, 170 MB)

Compilers and distributions are scripts/test_distribution.sh's. Warnings of the compiler are errors. The launcher is compiled with the flags of
the preset release, whose tree has filled the compiler's cache; without it each way takes minutes. The trees are build/way-WAY, the logs lie in
build/builds. The last line is "N built, N failed"; the exit code is 0 only if nothing failed.
TEXT
}

for argument in "$@"; do
  if [ "$argument" = --help ] || [ "$argument" = -h ]; then
    usage
    exit 0
  elif [[ " ${ways[*]} " != *" $argument "* ]]; then
    echo "test_builds.sh: there is no way '$argument'" >&2
    usage >&2
    exit 2
  fi
done

out=$PWD/build/builds
jobs=$(nproc)
small=(-DMUSTER_BUILD_TRAINER=OFF -DMUSTER_BUILD_TESTS=OFF -DMUSTER_WARNINGS_AS_ERRORS=ON)
as_released=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1")
quickly=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O0")
export CCACHE_NOHASHDIR=true

say() {
  printf 'test_builds.sh: %s\n' "$*" >&2
}

# shellcheck source=scripts/copy_sources.sh
. scripts/copy_sources.sh

# cmake_of VERSION: prints the path of a CMake of that version, from PyPI.
cmake_of() {
  local wanted=$1 venv=$out/cmake-$1
  case "$wanted" in
    3.25) wanted='cmake==3.25.2' ;;
    4) wanted='cmake>=4,<5' ;;
  esac
  if ! "$venv/bin/cmake" --version >/dev/null 2>&1; then
    rm -rf "$venv"
    python3 -m venv "$venv" || return
    if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$wanted"; then
      say "no CMake $wanted could be had from PyPI"
      return 1
    fi
  fi
  echo "$venv/bin/cmake"
}

# build_sdk CMAKE SOURCE TREE OPTION...: the library, and a program with it.
build_sdk() {
  local cmake=$1 source=$2 tree=$3
  shift 3
  rm -rf "$tree"
  "$cmake" -S "$source" -B "$tree" "${small[@]}" "${quickly[@]}" "$@"
  "$cmake" --build "$tree" --parallel "$jobs" --target muster_sdk embed_c
  "$tree/bin/embed_c"
}

# build_launcher CMAKE SOURCE TREE OPTION...: launcher and library, and a job with them.
build_launcher() {
  local cmake=$1 source=$2 tree=$3
  shift 3
  rm -rf "$tree"
  # A tree that lies as deep in its sources as build/release does is the same to the compiler's cache.
  export CCACHE_BASEDIR=$source
  "$cmake" -S "$source" -B "$tree" -G Ninja "${small[@]}" "${as_released[@]}" "$@"
  "$cmake" --build "$tree" --parallel "$jobs" --target muster muster_sdk embed_c
  "$tree/bin/muster" run --nproc-per-node 2 "$tree/bin/embed_c"
  "$tree/bin/muster" version --json
}

# configure_everything CMAKE GENERATOR: with muster-train and the tests.
configure_everything() {
  "$1" --version
  rm -rf "$folder/everything"
  "$1" -G "$2" -S . -B "$folder/everything"
}

# project HOW: somebody else's, whose program links the SDK; HOW is CMake's way to ours.
project() {
  mkdir -p "$folder/project"
  cat >"$folder/project/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.25)
project(Theirs LANGUAGES CXX)
$1
add_executable(ring "$PWD/tests/consumer/project/ring.cpp")
target_link_libraries(ring PRIVATE Muster::muster)
TEXT
  rm -rf "$tree"
  cmake -S "$folder/project" -B "$tree" "${quickly[@]}" -DMUSTER_WARNINGS_AS_ERRORS=ON
  cmake --build "$tree" --parallel "$jobs" --target ring
  "$tree/ring"
}

# without_git FOLDER COMMAND...: where git fails, and who calls it is told.
without_git() {
  local said=$1/git-was-called
  mkdir -p "$1/bin"
  printf '#!/bin/sh\necho "$@" >>"%s"\nexit 127\n' "$said" >"$1/bin/git"
  chmod +x "$1/bin/git"
  rm -f "$said"
  PATH=$1/bin:$PATH "${@:2}"
  [ ! -e "$said" ] || {
    say "git was called: $(cat "$said")"
    return 1
  }
}

# as_nobody: with a folder of its own, and a compiler's cache there.
as_nobody() {
  local place
  if [ "$(id --user)" -ne 0 ]; then
    build_sdk cmake . "$tree"
    return
  fi
  place=$(mktemp -d)
  # shellcheck disable=SC2064  # this folder
  trap "rm -rf '$place'" EXIT
  copy_sources "$place/sources"
  chown -R nobody "$place"
  # shellcheck disable=SC2016  # the inner shell expands it
  setpriv --reuid nobody --regid nogroup --clear-groups env --unset=CCACHE_DIR HOME="$place" PLACE="$place" JOBS="$jobs" bash -euc '
    cd "$PLACE/sources"
    cmake -B ../build "$@"
    cmake --build ../build --parallel "$JOBS" --target muster_sdk embed_c
    ../build/bin/embed_c
    cmake --install ../build --component sdk --prefix ../installed --strip' as_nobody "${small[@]}" "${quickly[@]}"
}

# old_nccl: NCCL's oldest headers with CUDA 12, which the fakes are not for, and with those of today's CUDA, on the fakes.
old_nccl() {
  local headers=$PWD/build/cuda-2.19
  local options=(--preset release -DMUSTER_NCCL_INCLUDE="$headers/nccl" -DMUSTER_BUILD_TRAINER=OFF -DMUSTER_WITH_NCCL=ON -DMUSTER_WARNINGS_AS_ERRORS=ON)
  scripts/fetch_cuda_headers.sh 2.19
  scripts/fetch_cuda_headers.sh
  rm -rf "$folder/cuda-12" "$tree"
  cmake "${options[@]}" -B "$folder/cuda-12" -DMUSTER_CUDART_INCLUDE="$headers/include" -DMUSTER_BUILD_TESTS=OFF
  cmake --build "$folder/cuda-12" --parallel "$jobs" --target muster_nccl
  cmake "${options[@]}" -B "$tree" -DMUSTER_CUDART_INCLUDE="$PWD/build/cuda/include" -DMUSTER_TESTS=all
  cmake --build "$tree" --parallel "$jobs" --target muster_nccl nccl_tests fake_gpu_rules_test
  ctest --test-dir "$tree" --output-on-failure --no-tests=error --tests-regex '^(nccl_(contract|faults|streams|host_memory)|fake_gpu_rules)_test$'
}

build_way() {
  local folder=$out/$1 tree=$PWD/build/way-$1 cmake
  mkdir -p "$folder"
  case "$1" in
    make-*)
      cmake=$(cmake_of "${1#make-}")
      configure_everything "$cmake" 'Unix Makefiles'
      build_sdk "$cmake" "$PWD" "$tree" -G 'Unix Makefiles'
      ;;
    ninja-*)
      cmake=$(cmake_of "${1#ninja-}")
      configure_everything "$cmake" Ninja
      build_launcher "$cmake" "$PWD" "$tree"
      ;;
    static) build_launcher cmake "$PWD" "$tree" -DBUILD_SHARED_LIBS=OFF -DOPENSSL_USE_STATIC_LIBS=ON ;;
    shared)
      build_launcher cmake "$PWD" "$tree" -DBUILD_SHARED_LIBS=ON -DOPENSSL_USE_STATIC_LIBS=OFF
      readelf --dynamic "$tree/bin/muster" | grep 'NEEDED.*libssl'
      ;;
    subproject) project "add_subdirectory(\"$PWD\" muster)" ;;
    fetchcontent) project "include(FetchContent)
FetchContent_Declare(Muster SOURCE_DIR \"$PWD\")
FetchContent_MakeAvailable(Muster)" ;;
    spaces)
      copy_sources "$folder/the sources of it"
      tree="$folder/the sources of it/build/a tree"
      build_launcher cmake "$folder/the sources of it" "$tree"
      cmake --install "$tree" --component sdk --prefix "$folder/an installed library" --strip
      ;;
    no-git)
      copy_sources "$folder/sources"
      without_git "$folder" build_launcher cmake "$folder/sources" "$folder/sources/build/tree" -DCMAKE_DISABLE_FIND_PACKAGE_Git=ON
      ;;
    no-root) as_nobody ;;
    nccl-2.19) old_nccl ;;
  esac
}

[ $# -gt 0 ] || set -- "${ways[@]}"
scripts/install_deps.sh unit
mkdir -p "$out"
built=0
failed=()
# Each way is a process group of its own, which an interrupt ends.
set -m
trap 'kill -- "-$!" 2>/dev/null; exit 130' INT TERM
for way in "$@"; do
  begin=$SECONDS
  log=$out/$way.log
  # Behind a condition errexit would not hold in it.
  (build_way "$way") >"$log" 2>&1 &
  if wait $!; then
    built=$((built + 1))
    result=built
  else
    failed+=("$way")
    result=FAILED
    grep --extended-regexp --after-context=8 'error:|CMake Error|FAILED|test_builds.sh:' "$log" | head -n 40 || tail -n 20 "$log"
  fi
  printf '%-12s %-6s %4d s, warnings of CMake: %d (%s)\n' "$way" "$result" $((SECONDS - begin)) \
    "$(grep --count --extended-regexp '^CMake (Deprecation )?Warning' "$log" || true)" "$log"
done
[ ${#failed[@]} -eq 0 ] || echo "failed: ${failed[*]}"
echo "$built built, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
