#!/usr/bin/env bash
# Runs the tests of the nccl backend on this machine's GPUs, two ranks on one GPU where there is only one, and prints the
# bandwidth of its calls; then compares training steps on a GPU with those of the CPU and measures images a second, beside
# PyTorch where that is present (MUSTER_TORCH_PYTHON, else build/venv or python3). Without a GPU it says so and exits with 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  "") ;;
  --help | -h)
    echo "usage: scripts/check_gpu.sh"
    echo "Uses the installed libnccl.so.2 and libcudart, or those in build/cuda; MUSTER_NCCL_LIBRARY and MUSTER_CUDART_LIBRARY name others."
    exit 0
    ;;
  *)
    echo "check_gpu.sh: unknown argument '$1'" >&2
    exit 2
    ;;
esac

skip() {
  echo "skipped: $1"
  exit 77
}

command -v nvidia-smi >/dev/null || skip "there is no nvidia-smi, so no driver of NVIDIA is installed"
gpus=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | grep -c '^[0-9]' || true)
[ "$gpus" -gt 0 ] || skip "nvidia-smi shows no GPU"

scripts/install_deps.sh test
scripts/fetch_cuda_headers.sh
cmake --preset release -DMUSTER_BUILD_TESTS=ON >/dev/null
tests=(muster_nccl nccl_contract_test nccl_streams_test nccl_faults_test nccl_bandwidth_test)
cmake --build --preset release --parallel "$(nproc)" --target "${tests[@]}" ||
  skip "the NCCL plug-in cannot be built here (see above)"

# Without the folder of the fakes: what the loader finds is real.
export MUSTER_PLUGIN_PATH=$PWD/build/release/lib/muster
[ -n "${MUSTER_NCCL_LIBRARY:-}" ] || ldconfig -p | grep -q 'libnccl\.so\.2 ' || export MUSTER_NCCL_LIBRARY=$PWD/build/cuda/lib/libnccl.so.2
if [ -z "${MUSTER_CUDART_LIBRARY:-}" ]; then
  MUSTER_CUDART_LIBRARY=$(ldconfig -p | sed -n 's/.*libcudart\.so\.1[23] .* => //p' | head -n 1)
  export MUSTER_CUDART_LIBRARY=${MUSTER_CUDART_LIBRARY:-$PWD/build/cuda/lib/libcudart.so.13}
fi

nvidia-smi --query-gpu=index,name,driver_version --format=csv,noheader
failed=()

# check TITLE COMMAND...: no test takes longer than five minutes unless it hangs.
check() {
  local title=$1
  shift
  printf '\n== %s\n' "$title"
  timeout 300 "$@" || failed+=("$title;")
}

# all_tests GPUS: the environment says the rest.
all_tests() {
  export MUSTER_TEST_GPUS=$1
  check "contract on $1 GPU(s)" build/release/tests/nccl_contract_test
  check "streams and graphs on $1 GPU(s)" build/release/tests/nccl_streams_test
  check "faults on $1 GPU(s)" build/release/tests/nccl_faults_test '[gpu]'
  check "bandwidth on $1 GPU(s)" build/release/tests/nccl_bandwidth_test
}

[ "$gpus" -lt 2 ] || all_tests "$gpus"

# NCCL takes ranks with different NCCL_HOSTID (each rank of the tests sets its own) for different hosts and so lets them
# share a GPU; they then meet through the loopback interface, at its speed.
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0
all_tests 1

# program MODEL BATCH: the rate of an epoch of muster-train, its own figure.
program() {
  local rate
  rate=$(timeout 300 build/release/bin/muster-train --device cuda --precision bf16 --model "$1" --batch-size "$2" --data synthetic:50000 \
    --crop-padding 4 --flip --epochs 3 | sed -n 's|^epoch 3/3 .*  \([0-9]*\) images/s .*|\1|p')
  [ -n "$rate" ] && printf '| %s | %s | muster-train, whole epochs | %s |\n' "$1" "$2" "$rate"
}

# Training on one GPU. The rows of the table are for docs/benchmarks.md.
train() {
  cmake --build --preset release --parallel "$(nproc)" --target gpu_cuda_test muster-gpu-check muster_cuda muster muster-train || {
    echo "skipped: training on a GPU cannot be built here (nvcc of CUDA 13 and the headers of cuDNN 9 are needed)"
    return 0
  }
  local python=${MUSTER_TORCH_PYTHON:-build/venv/bin/python} batch
  [ -x "$python" ] || python=python3
  check "cuDNN takes what the networks describe" build/release/tests/gpu_cuda_test
  check "training steps on a GPU beside those of the CPU" build/release/tests/muster-gpu-check steps
  check "muster-train --device cuda beside --device cpu" env CUDA_VISIBLE_DEVICES=0 MUSTER_TEST_REAL_GPU=1 \
    MUSTER_TEST_DEVICE_PLUGIN="$PWD/build/release/lib/muster" MUSTER_BIN_DIR="$PWD/build/release/bin" \
    PYTHONPATH=tests/support python3 tests/integration/train/muster_train_device_test.py
  printf '\n== images a second, ResNet-18, bf16, whole steps with crops, flips and SGD (PyTorch: its images are ready)\n'
  printf '| model | batch | program | images/s |\n|---|---|---|---|\n'
  for batch in 128 768 4096; do
    timeout 300 build/release/tests/muster-gpu-check measure resnet18 "$batch" || failed+=("measuring at batch $batch;")
    program resnet18 "$batch" || failed+=("muster-train at batch $batch;")
    timeout 600 "$python" tests/gpu/torch_rate.py resnet18 "$batch" || [ $? = 77 ] || failed+=("PyTorch at batch $batch;")
  done
}
train

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nfailed: %s\n' "${failed[*]}"
  exit 1
fi
printf '\nall passed on %d GPU(s)\n' "$gpus"
