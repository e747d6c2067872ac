#!/usr/bin/env bash
# Checks what the compiler does not: format, clang-tidy, the tree's own rules, the page of failures, shell scripts, the cost of a build,
# the commits of figures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/lint.sh [--all] [--no-tidy]

  --all      clang-tidy on every source file; else on those that differ from where this branch left main
             (on main itself: from the commit before the last, plus what is not committed; in a clone that holds no
             commit before the last: none, because every file takes the better part of an hour)
  --no-tidy  everything but clang-tidy, a few seconds

clang-tidy needs a configured build/release (cmake --preset release), the cost of a build one that scripts/test.sh has built.
TEXT
}

tidy=changed
for argument in "$@"; do
  case "$argument" in
    --all) tidy=all ;;
    --no-tidy) tidy=none ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
done

build=build/release
clang_major=14
failed=()

check() {
  local title=$1
  shift
  if "$@"; then
    printf '  ok    %s\n' "$title"
  else
    printf '  FAIL  %s\n' "$title"
    failed+=("$title")
  fi
}

# clang_tool NAME USE: the program of this tree's release, for releases differ in what they want; nothing, and a word on stderr,
# where only another release is installed.
clang_tool() {
  local major
  major=$("$1" --version 2>/dev/null | sed -n 's/.*version \([0-9]\+\).*/\1/p' | head -n 1)
  if [ "$major" != "$clang_major" ] && command -v "$1-$clang_major" >/dev/null; then
    echo "$1-$clang_major"
  elif [ -z "$major" ] || [ "$major" = "$clang_major" ]; then
    echo "$1"  # one that is not installed fails when it is run
  else
    echo "skipped: the tree is $2 with $1 $clang_major, this is $major" >&2
  fi
}

cpp_files() {
  git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.c' '*.h' '*.cu' '*.cuh'
}

changed_files() {
  local base main=main
  git rev-parse --quiet --verify main >/dev/null || main=origin/main
  base=$(git merge-base HEAD "$main" 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-parse --quiet --verify HEAD~1 || true)
  fi
  if [ -z "$base" ]; then
    echo "clang-tidy: no commit to compare with, so only what is not committed; scripts/lint.sh --all checks every file" >&2
    base=HEAD
  fi
  git diff --name-only --diff-filter=d "$base"
  git ls-files --others --exclude-standard
}

check_format() {
  local tool
  tool=$(clang_tool clang-format formatted)
  [ -n "$tool" ] || return 0
  cpp_files | xargs --no-run-if-empty "$tool" --dry-run --Werror
}

check_shell() {
  git ls-files --cached --others --exclude-standard -- '*.sh' .ci/run | xargs --no-run-if-empty shellcheck
}

check_tidy() {
  if [ ! -f "$build/compile_commands.json" ]; then
    echo "no $build/compile_commands.json: run cmake --preset release first"
    return 1
  fi
  local tool candidates
  tool=$(clang_tool clang-tidy checked)
  [ -n "$tool" ] || return 0
  candidates=$({ if [ "$tidy" = all ]; then cpp_files; else changed_files; fi; } | grep '\.cpp$' | sort --unique || true)
  # Only what is compiled: compile_commands.json names it. The warnings of g++ are not clang's.
  local files=()
  local file
  for file in $candidates; do
    if grep --quiet --fixed-strings "/$file\"" "$build/compile_commands.json"; then
      files+=("$file")
    fi
  done
  [ ${#files[@]} -gt 0 ] || return 0
  # The static analyzer of clang 14 does not follow coroutines: it reports undefined pointers inside Asio's own headers.
  local coroutines plain code=0
  coroutines=$(grep --files-with-matches --extended-regexp 'co_await|co_spawn' "${files[@]}" || true)
  plain=$(grep --files-without-match --extended-regexp 'co_await|co_spawn' "${files[@]}" || true)
  run_tidy "$tool" '' "$plain" || code=1
  run_tidy "$tool" '--checks=-clang-analyzer-*' "$coroutines" || code=1
  return "$code"
}

# run_tidy TOOL FLAG FILES: FILES one a line, FLAG may be empty.
run_tidy() {
  [ -n "$3" ] || return 0
  # shellcheck disable=SC2086  # an empty flag is no argument
  printf '%s\n' "$3" | xargs --max-args=1 --max-procs="$(nproc)" \
    "$1" --quiet -p "$build" $2 --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error 2>/dev/null
}

check_build_cost() {
  python3 scripts/build_cost.py check "$build"
}

# Every figure of the page can be made again: its commit is in this history.
check_benchmark_commits() {
  local commit commits code=0
  git rev-parse --quiet --verify HEAD~1 >/dev/null || {
    echo "not checked: this clone has no history"
    return 0
  }
  echo "sections of docs/benchmarks.md without a commit of this history: $(grep -c '^Made .* on a commit that this history does not hold' docs/benchmarks.md)"
  mapfile -t commits < <(sed -n 's/^Made [0-9-]* at \([^ ]*\) on .*/\1/p' docs/benchmarks.md | sort --unique)
  for commit in "${commits[@]}"; do
    git merge-base --is-ancestor "$commit" HEAD 2>/dev/null || {
      echo "docs/benchmarks.md: $commit is no commit of this history: make its sections anew (scripts/bench.sh)"
      code=1
    }
  done
  return "$code"
}

check "format (clang-format)" check_format
check "tree (scripts/check_tree.py)" python3 scripts/check_tree.py
check "docs/failures.md (scripts/failures_page.py)" python3 scripts/failures_page.py --check
check "shell scripts (shellcheck)" check_shell
check "processor time of the release build (scripts/build_cost.py)" check_build_cost
check "commits of docs/benchmarks.md" check_benchmark_commits
if [ "$tidy" != none ]; then
  check "clang-tidy ($tidy files)" check_tidy
fi

if [ ${#failed[@]} -gt 0 ]; then
  echo "lint: ${#failed[@]} failed"
  exit 1
fi
