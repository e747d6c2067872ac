#!/usr/bin/env bash
# Checks Muster on this machine's GPUs, measures it there, and adds the results to one report. What is checked, in which parts, says
# tests/gpu/check_list.py. Without a GPU it says so and exits with 77.
set -euo pipefail
called_from=$PWD
called_as=("$0" "$@")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/check_gpu.sh [--prebuilt DIR] [--report DIR] [--part N[,N]...|all] [--seconds N] [--again]
       scripts/check_gpu.sh [--prebuilt DIR] --preflight
       scripts/check_gpu.sh --build

  --prebuilt DIR   an unpacked archive of scripts/pack_gpu_check.sh: nothing is compiled or fetched. The machine needs a driver,
                   Python 3.8 or later, and NVIDIA's libraries, for example those that PyTorch's packages bring, for CUDA 12 or 13.
                   Without this flag everything is built here first, from what is installed if nothing can be fetched.
  --report DIR     where gpu-report.json, .md and .log are written; a call adds to what lies there (gpu-report)
  --part LIST|all  only these parts of 1 to 8, such as 1,7 (all)
  --seconds N      what this call may take in all, but for a build: 60 or more (no limit). Checks are begun while there is time for
                   them, shortest first. Call it again until nothing is left: what has passed is not run again.
  --again          runs also what has passed, or was skipped, in an earlier call
  --preflight      only prints what of this machine fits, and what each miss means, as every call does first; exit code 0, or 1
                   where checks cannot be run
  --build          only builds what the checks need; no GPU is needed

MUSTER_TORCH_PYTHON names a Python with PyTorch (build/venv/bin/python, else python3). Exit code: 0 all of it has passed or is skipped,
1 a check failed, or is left and needs what the preflight misses or more seconds, 2 wrong use, 3 nothing failed, and the same command
goes on with what is left, 77 no GPU.
TEXT
}

prebuilt=
report=$called_from/gpu-report
build_only=false
preflight_only=false
arguments=()

# from_caller PATH: a path of the command line, which means the caller's folder.
from_caller() {
  (cd "$called_from" && realpath -m -- "$1")
}

while [ $# -gt 0 ]; do
  case "$1" in
    --prebuilt | --report | --part | --seconds)
      [ $# -gt 1 ] || {
        echo "check_gpu.sh: $1 needs a value" >&2
        exit 2
      }
      case "$1" in
        --prebuilt) prebuilt=$(from_caller "$2") ;;
        --report) report=$(from_caller "$2") ;;
        *) arguments+=("$1" "$2") ;;
      esac
      shift 2
      ;;
    --again | --preflight)
      [ "$1" = --again ] || preflight_only=true
      arguments+=("$1")
      shift
      ;;
    --build)
      build_only=true
      shift
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      echo "check_gpu.sh: unknown argument '$1'" >&2
      usage >&2
      exit 2
      ;;
  esac
done

skip() {
  echo "skipped: $1"
  exit 77
}

require_gpu() {
  command -v nvidia-smi >/dev/null || skip "there is no nvidia-smi, so no driver of NVIDIA is installed"
  timeout 60 nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | grep -q '^[0-9]' || skip "nvidia-smi shows no GPU"
}

# build: fails with 2 where there is nothing to check, and with 1 where one half is missing, whose checks are then skipped.
build() {
  local missing=()
  scripts/install_deps.sh unit || echo "check_gpu.sh: not all packages can be installed here; going on with what there is"
  scripts/fetch_cuda_headers.sh || echo "check_gpu.sh: going on with the headers of CUDA and NCCL that are installed"
  cmake --preset release -DMUSTER_BUILD_TESTS=ON -DMUSTER_TESTS=all >/dev/null || {
    echo "check_gpu.sh: this machine lacks what a build needs (see above)"
    return 2
  }
  compile muster muster-train || return 2
  compile muster_nccl nccl_tests || missing+=("NCCL (nccl.h of 2.19 or later and cuda.h)")
  compile muster_cuda muster-gpu-check device_tests || missing+=("training on GPUs (NVRTC of CUDA 12.8 or 12.9, headers of cuDNN 9)")
  compile muster_gloo >/dev/null 2>&1 || true # for groups of several hosts, which these checks do not have
  [ ${#missing[@]} -eq 0 ] || {
    echo "check_gpu.sh: not built, and so not checked: ${missing[*]}"
    return 1
  }
}

compile() {
  cmake --build --preset release --parallel "$(nproc)" --target "$@"
}

if $build_only; then
  build
  exit
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || {
  echo "check_gpu.sh: python3 is missing or older than 3.8, for which the checks are written" >&2
  exit 1
}
if [ -n "$prebuilt" ]; then
  [ -f "$prebuilt/kit.json" ] || {
    echo "check_gpu.sh: $prebuilt is no unpacked archive of scripts/pack_gpu_check.sh: it has no kit.json" >&2
    exit 2
  }
  checks=$prebuilt/tests/gpu
else
  # A kit is not built; there the preflight, whose seconds are limited, asks for GPUs.
  $preflight_only || require_gpu
  $preflight_only || build || [ $? -eq 1 ] ||
    skip "Muster cannot be built here; scripts/pack_gpu_check.sh makes an archive on a machine where it can, for --prebuilt"
  prebuilt=build/release
  checks=tests/gpu
  if [ -z "${MUSTER_TORCH_PYTHON:-}" ] && [ -x build/venv/bin/python ]; then
    export MUSTER_TORCH_PYTHON=$PWD/build/venv/bin/python
  fi
fi
exec python3 "$checks/run_checks.py" --programs "$prebuilt" --report "$report" "${arguments[@]}" -- "${called_as[@]}"
