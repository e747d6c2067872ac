#!/usr/bin/env bash
# Puts headers and libraries of NCCL and of the CUDA runtime into build/cuda, from NVIDIA's packages on PyPI
# (200 MB are fetched, 220 MB kept): the NCCL plug-in and the fakes of its tests are compiled against them. A folder that
# is complete is kept. Where it cannot be made, that is said and is no failure: the plug-in is then not built, unless CUDA
# and NCCL are installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The runtime's headers include those of the compiler (crt/), which are a package of their own since CUDA 13, and one of CCCL (nv/target).
packages=(nvidia-nccl-cu13==2.28.9 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85)
target=build/cuda

if [ "$(cat $target/packages 2>/dev/null)" = "${packages[*]}" ] && [ -e $target/lib/libcudart.so.13 ]; then
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
  echo "no python3 with pip: without installed headers of NCCL and CUDA the NCCL plug-in is not built"
  exit 0
fi
mkdir -p build
scratch=$(mktemp -d build/cuda.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
if ! "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$scratch" "${packages[@]}"; then
  echo "PyPI cannot be reached: without installed headers of NCCL and CUDA the NCCL plug-in is not built"
  exit 0
fi
for wheel in "$scratch"/*.whl; do
  "$python" -m zipfile -e "$wheel" "$scratch"
done
rm -rf "$scratch"/nvidia/cu13/include/cccl  # the rest of CCCL: 30 MB that nothing here includes
mkdir -p "$scratch/cuda/lib"
cp -r "$scratch"/nvidia/cu13/include "$scratch/cuda/include"
cp -r "$scratch"/nvidia/nccl/include/. "$scratch/cuda/include"
mv "$scratch"/nvidia/nccl/lib/libnccl.so.2 "$scratch"/nvidia/cu13/lib/libcudart.so.13 "$scratch/cuda/lib"
echo "${packages[*]}" >"$scratch/cuda/packages"
rm -rf "$target"
mv "$scratch/cuda" "$target"
echo "${packages[*]}"
