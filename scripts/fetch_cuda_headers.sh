#!/usr/bin/env bash
# Puts headers of NCCL and of CUDA, NCCL's library and CUDA 12's compiler of kernels (NVRTC) into build/cuda, from NVIDIA's packages on PyPI
# (290 MB are fetched, 340 MB kept): both plug-ins and the fakes of their tests are compiled with them. A folder that
# is complete is kept. Where it cannot be made, that is said and is no failure: the plug-ins are then not built, unless CUDA
# and NCCL are installed. With the argument 2.19: the oldest headers that suffice, of NCCL and of CUDA apart, into build/cuda-2.19, for
# scripts/test_builds.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The runtime's headers include those of the compiler (crt/), which are a package of their own since CUDA 13, and one of CCCL (nv/target).
packages=(nvidia-nccl-cu13==2.28.9 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 nvidia-cuda-nvrtc-cu12==12.9.86)
target=build/cuda
case "${1:-}" in
  '') ;;
  2.19)
    packages=(nvidia-nccl-cu12==2.19.3 nvidia-cuda-runtime-cu12==12.1.105 nvidia-cuda-nvcc-cu12==12.1.105)
    target=build/cuda-2.19
    ;;
  *)
    echo "usage: scripts/fetch_cuda_headers.sh [2.19]" >&2
    exit 2
    ;;
esac

if [ "$(cat $target/packages 2>/dev/null)" = "${packages[*]}" ] && [ -e $target/lib ]; then
  echo "${packages[*]}"
  exit 0
fi
python=
for candidate in build/venv/bin/python build/wheel/tools/venv/bin/python /usr/bin/python3 python3; do
  if "$candidate" -m pip --version >/dev/null 2>&1; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "no python3 with pip: without installed headers of NCCL and CUDA the plug-ins for GPUs are not built"
  exit 0
fi
mkdir -p build
scratch=$(mktemp -d build/cuda.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
if ! "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$scratch" "${packages[@]}"; then
  echo "PyPI cannot be reached: without installed headers of NCCL and CUDA the plug-ins for GPUs are not built"
  exit 0
fi
for wheel in "$scratch"/*.whl; do
  "$python" -m zipfile -e "$wheel" "$scratch"
done
rm -rf "$scratch"/nvidia/cu13/include/cccl  # the rest of CCCL: 30 MB that nothing here includes
mkdir -p "$scratch/cuda/include" "$scratch/cuda/lib"
if [ $target = build/cuda-2.19 ]; then
  mv "$scratch"/nvidia/nccl/include "$scratch/cuda/nccl"
fi
for folder in "$scratch"/nvidia/*/include; do
  cp -r "$folder/." "$scratch/cuda/include"
done
if [ $target = build/cuda ]; then  # with libraries, which tests ask for their version
  mv "$scratch"/nvidia/nccl/lib/libnccl.so.2 "$scratch"/nvidia/cuda_nvrtc/lib/libnvrtc{,-builtins}.so.12* "$scratch/cuda/lib"
fi
echo "${packages[*]}" >"$scratch/cuda/packages"
rm -rf "$target"
mv "$scratch/cuda" "$target"
echo "${packages[*]}"
