#!/usr/bin/env bash
# Runs for a given time what is too long for every run of the tests.
# shellcheck disable=SC2317  # the stages are called by their names
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/soak.sh [MINUTES] [--seed N]

For MINUTES (30 if none are given), each stage with its share of them:
  simulator  simulated jobs from the seed on, and the bugs planted in the coordinator
  comm       the mutants of the group over shared memory, under ThreadSanitizer
  leftovers  every way in which a job can end, many times
  losses     every process of ours killed, stopped and cut off, in every phase of a job, on hosts made of namespaces
  hosts      jobs on three hosts made of namespaces, a random process of which gets a random signal at a random moment
  metrics    a job that Debian's Prometheus scrapes
  yama       whose stacks may be read under each scope of Yama, in a virtual machine with Debian's kernel
  frameworks eight programs of PyTorch, Transformers, Lightning, accelerate and DeepSpeed, beside torchrun
  hangs      PyTorch programs that hang, on more ranks and on three hosts; these and slow ones with the default of --hang-timeout
  faults     every fault in every phase, on every backend
  contract   what all backends must do, on every backend
  recipe     the small CNN beside PyTorch's, over three seeds
  fuzz       every fuzzer
  plain      a build that compiles each file alone

The seed is printed first; what fell, what was skipped, and the seconds of each stage, last. The exit code is 1 if anything fell, 130
after Ctrl-C, which ends it in order. A stage whose time is up before each of its parts was run once is cut short, which is no failure but
is named: the next soak begins elsewhere, and goes on with the plain build where this one stopped. What is missing of build/release and
build/fuzz is built first and not counted. Logs and what the fuzzers found are in build/soak.
TEXT
}

minutes=30
seed=$((RANDOM * 32768 + RANDOM))
while [ $# -gt 0 ]; do
  case "$1" in
    --help | -h)
      usage
      exit 0
      ;;
    --seed)
      seed=${2:-}
      shift
      ;;
    --seed=*) seed=${1#--seed=} ;;
    *) minutes=$1 ;;
  esac
  shift || true
done
# Numbers that no sum or product below takes out of 64 bits.
if ! [[ $minutes =~ ^[1-9][0-9]{0,4}$ && $seed =~ ^(0|[1-9][0-9]{0,9})$ ]]; then
  usage >&2
  exit 2
fi

jobs=$(nproc)
python=/usr/bin/python3
[ -x "$python" ] || python=python3
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true PYTHONDONTWRITEBYTECODE=1
export MUSTER_BIN_DIR=$PWD/build/release/bin PYTHONPATH=$PWD/tests/support
results=$PWD/build/soak
release=$PWD/build/release
build_limit_s=7200

interrupted=false
trap 'interrupted=true' INT TERM
timings=()
fallen=()
skipped=()
stage_log=
stage_end=0
runs=0
cut=false

# fell TEXT: notes a failure of the present stage.
fell() {
  fallen+=("$1")
  printf '   FELL: %s\n' "$1"
}

# was_skipped TEXT: notes what this machine cannot run, once.
was_skipped() {
  local known
  for known in "${skipped[@]}"; do
    [ "$known" != "$1" ] || return 0
  done
  skipped+=("$1")
}

left_s() { echo $((stage_end - SECONDS)); }

# more: whether the stage may begin something else. What a short soak cannot reach at all is begun once.
more() { ! $interrupted && [ "$(left_s)" -gt 0 ]; }

# bounded SECONDS COMMAND...: in the stage's log; 0, the command's code, or 124 when the time was up.
bounded() {
  local limit=$1 code=0
  shift
  runs=$((runs + 1))
  "$python" tests/soak/bounded.py "$limit" "$stage_log" "$@" || code=$?
  [ "$code" -ne 130 ] || interrupted=true
  return "$code"
}

# whole WHAT LIMIT COMMAND...: something short that must end within LIMIT seconds.
whole() {
  local what=$1 limit=$2 code=0
  shift 2
  bounded "$limit" "$@" || code=$?
  $interrupted && return
  case $code in
    0) ;;
    77) was_skipped "$what" ;;
    124) fell "$what: no end within $limit s" ;;
    *) fell "$what: exit code $code" ;;
  esac
}

# log_has BYTES PATTERN: whether the stage's log has it behind so many bytes. In a pipe, tail would fail once grep has found it.
log_has() { grep --quiet --extended-regexp "$2" <(tail -c "+$(($1 + 1))" "$stage_log"); }

# share WHAT SECONDS COMMAND...: something long, which is cut off after that; what its output calls a failure counts nevertheless.
share() {
  local what=$1 limit=$2 code=0 before
  shift 2
  before=$(wc -c <"$stage_log")
  bounded "$limit" "$@" || code=$?
  $interrupted && return
  case $code in
    # A test that CTest skips is no failure of CTest.
    0) ! log_has "$before" '\*\*\*Skipped' || was_skipped "$what" ;;
    77) was_skipped "$what" ;;
    124)
      cut=true
      ! log_has "$before" '^(FAILED|UNNOTICED|FAILED:) |\*\*\*(Failed|Exception|Timeout)' || fell "$what: see the log"
      ;;
    *) fell "$what: exit code $code" ;;
  esac
}

# stage NAME SECONDS: runs stage_NAME.
stage() {
  local name=$1 begin=$SECONDS before=${#fallen[@]} skipped_before=${#skipped[@]} outcome=ok
  $interrupted && return
  stage_log=$results/$name.log
  stage_end=$((SECONDS + $2))
  runs=0
  cut=false
  : >"$stage_log"
  printf '== %s, %d s\n' "$name" "$2"
  "stage_$name" "$2"
  [ ${#skipped[@]} -eq "$skipped_before" ] || outcome='with skips'
  $cut && outcome='cut'
  $interrupted && outcome='interrupted'
  [ ${#fallen[@]} -eq "$before" ] || outcome=FELL
  timings+=("$(printf '%6d s  %-11s  %-10s %d runs' $((SECONDS - begin)) "$outcome" "$name" "$runs")")
}

# tests_named PATTERN: the names of the tests of the release tree, from another one in each soak.
tests_named() {
  ctest --test-dir "$release" --show-only -R "$1" | sed -n 's/^ *Test *#[0-9]*: //p' | from_seed
}

# from_seed: its lines, from one that the seed chooses.
from_seed() {
  local lines first
  mapfile -t lines
  [ ${#lines[@]} -gt 0 ] || return 0
  first=$((seed % ${#lines[@]}))
  printf '%s\n' "${lines[@]:first}" "${lines[@]:0:first}"
}

# ctest_share PATTERN: these tests, one after the other, as many as the time allows, and again.
ctest_share() {
  local name names whole_pass=false
  mapfile -t names < <(tests_named "$1")
  if [ ${#names[@]} -eq 0 ]; then
    fell "no test is called $1"
    return
  fi
  while more; do
    for name in "${names[@]}"; do
      more || {
        $whole_pass || cut=true
        break
      }
      share "ctest --test-dir build/release -R '^$name\$'" "$(left_s)" \
        ctest --test-dir "$release" --output-on-failure -R "^$name\$"
    done
    whole_pass=true
  done
  ! $whole_pass || cut=false
}

stage_simulator() {
  local first=$seed
  whole "sim_mutants --first-seed $seed" 300 "$release/tests/sim_mutants" --first-seed "$seed"
  while more; do
    whole "round_sim --first-seed $first --seeds 3000" 300 "$release/tests/round_sim" --first-seed "$first" --seeds 3000
    first=$((first + 3000))
  done
}

stage_comm() {
  share "check_mutations.py" "$1" "$python" tests/unit/worker_sdk/comm/mutations/check_mutations.py --compiler c++
}

stage_leftovers() {
  local scenario scenarios repeats pass=0
  mapfile -t scenarios < <(sed -n '/^SCENARIOS = {/,/^}/s/^ *"\([a-z_]*\)":.*/\1/p' tests/e2e/leftovers/leftovers_test.py | from_seed)
  # 20 of each at least, if all 20 have room for that.
  repeats=$(($1 / ${#scenarios[@]}))
  repeats=$((repeats < 3 ? 3 : repeats > 20 ? 20 : repeats))
  whole "preemption_test.py $repeats" 900 \
    env MUSTER_TORCH_PYTHON="$PWD/build/venv/bin/python" "$python" tests/interop/preemption_test.py "$repeats"
  while more; do
    for scenario in "${scenarios[@]}"; do
      more || {
        [ "$pass" -gt 0 ] || cut=true
        break
      }
      whole "MUSTER_TEST_SEED=$((seed + pass)) leftovers_test.py $scenario $repeats" 600 \
        env MUSTER_TEST_SEED=$((seed + pass)) "$python" tests/e2e/leftovers/leftovers_test.py "$scenario" "$repeats"
    done
    pass=$((pass + 1))
  done
}

stage_hosts() {
  # Each of its runs is bounded; the last one begins in time.
  whole "random_faults.py --seed $seed --seconds $1 (the log names the runs)" $(($1 + 300)) \
    "$python" tests/soak/random_faults.py --seed "$seed" --seconds "$1"
}

stage_metrics() { whole "prometheus_test.py" 400 "$python" tests/soak/prometheus_test.py; }
stage_frameworks() { whole "frameworks_test.py" 3600 "$python" tests/soak/frameworks_test.py; }
stage_yama() { whole "yama_test.py" 700 "$python" tests/soak/yama_test.py; }

# Each of its runs takes some minutes; the last one begins in time.
stage_hangs() {
  local variant variants words whole_pass=false
  mapfile -t variants < <(printf '%s\n' 'hung_test.py hosts' 'slow_test.py default' 'hung_test.py 4' 'hung_test.py default' 'hung_test.py 8' | from_seed)
  while more; do
    for variant in "${variants[@]}"; do
      more || {
        $whole_pass || cut=true
        break
      }
      read -r -a words <<<"$variant"
      whole "$variant" 600 \
        env MUSTER_TORCH_PYTHON="$PWD/build/venv/bin/python" "$python" "tests/interop/hang/${words[0]}" "${words[1]}"
    done
    whole_pass=true
  done
}

# The whole table, in an order of its own.
stage_losses() {
  share "loss_table_test.py --all --seed $seed" "$1" "$python" tests/e2e/multi_node/loss_table_test.py --all --seed "$seed"
}

stage_faults() { ctest_share '^faults_'; }

stage_contract() { ctest_share 'contract|^backend_failures|^mpi_test$'; }

stage_recipe() {
  share "compare.py 3" "$1" env MUSTER_TORCH_PYTHON="$PWD/build/venv/bin/python" "$python" tests/interop/small_cnn/compare.py 3 3 5
}

# The fuzzers with the arguments of their tests, but a time of our own: one a line, words separated by tabs.
fuzzers() {
  ctest --test-dir build/fuzz --show-only=json-v1 -R '^fuzz_' | "$python" -c '
import json, sys
for test in json.load(sys.stdin)["tests"]:
    if "command" in test:
        print(*(word for word in test["command"] if not word.startswith("-max_total_time=")), sep="\t")'
}

stage_fuzz() {
  local line lines words name each
  mapfile -t lines < <(fuzzers | from_seed)
  if [ ${#lines[@]} -eq 0 ]; then
    fell "there is no fuzzer in build/fuzz"
    return
  fi
  each=$(($1 / ${#lines[@]}))
  each=$((each < 2 ? 2 : each))
  for line in "${lines[@]}"; do
    more || {
      cut=true
      break
    }
    IFS=$'\t' read -r -a words <<<"$line"
    name=${words[0]##*/}
    # Reading the corpus is not counted in -max_total_time.
    whole "$name (input: build/soak/$name-*)" $((each + 120)) \
      "${words[@]}" -max_total_time="$each" -seed=$((seed % 2147483646 + 1)) -artifact_prefix="$results/$name-"
  done
}

# The tree stays: what one soak has no time to compile the next one does.
stage_plain() {
  local tree=$results/plain
  share "cmake, each file alone" "$1" \
    cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
    -DMUSTER_BUILD_TESTS=ON -DMUSTER_WARNINGS_AS_ERRORS=ON -DMUSTER_UNITY=OFF
  more || {
    cut=true
    return 0
  }
  share "build, each file alone" "$(left_s)" \
    cmake --build "$tree" --parallel "$jobs" -- -k 0
}

# build TREE OPTION...: what is missing of it.
build() {
  local tree=$1
  shift
  stage_log=$results/build_$tree.log
  : >"$stage_log"
  printf '== build/%s (%s)\n' "$tree" "not counted"
  whole "cmake --preset $tree" 600 cmake --preset "$tree" -DMUSTER_BUILD_TESTS=ON "$@"
  $interrupted || whole "cmake --build --preset $tree" "$build_limit_s" cmake --build --preset "$tree" --parallel "$jobs"
}

summary() {
  echo
  printf '%s\n' "${timings[@]}"
  printf '%6d s\n' "$SECONDS"
  if [ ${#skipped[@]} -gt 0 ]; then
    printf '\nSkipped, which is no test of it (logs in build/soak):\n'
    printf '  %s\n' "${skipped[@]}"
  fi
  if [ ${#fallen[@]} -gt 0 ]; then
    printf '\nFell (seed %s, logs in build/soak):\n' "$seed"
    printf '  %s\n' "${fallen[@]}"
    exit 1
  fi
  if $interrupted; then
    echo "interrupted; nothing fell"
    exit 130
  fi
  echo "nothing fell"
}

echo "scripts/soak.sh $minutes --seed $seed"
mkdir -p "$results"
build release -DMUSTER_TESTS=all
$interrupted || build fuzz
budget=$((minutes * 60))
if [ ${#fallen[@]} -eq 0 ]; then
  # Parts of a hundred; the plain build, which is the longest, also gets what the others leave.
  end=$((SECONDS + budget))
  stage simulator $((budget * 6 / 100))
  stage comm $((budget * 10 / 100))
  stage leftovers $((budget * 11 / 100))
  stage losses $((budget * 12 / 100))
  stage hosts $((budget * 8 / 100))
  stage hangs $((budget * 6 / 100))
  stage metrics $((budget / 100))
  stage yama $((budget / 100))
  stage frameworks $((budget / 100))
  stage faults $((budget * 11 / 100))
  stage contract $((budget * 7 / 100))
  stage recipe $((budget * 7 / 100))
  stage fuzz $((budget * 11 / 100))
  rest=$((end - SECONDS))
  stage plain $((rest > budget * 10 / 100 ? rest : budget * 10 / 100))
fi
summary
