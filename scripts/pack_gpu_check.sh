#!/usr/bin/env bash
# Packs what scripts/check_gpu.sh --prebuilt needs on a machine with GPUs that has neither a compiler nor a network: programs and plug-ins
# without their debug information, the libraries that are neither NVIDIA's nor the C library's, and the checks. Needs what a build needs, but no GPU.
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/pack_gpu_check.sh [--output DIR]

Builds what the checks need and writes DIR/muster-gpu-check.tar.xz (build/gpu-check), at most 20 MB. There:
  python3 -m tarfile -e muster-gpu-check.tar.xz . && muster-gpu-check/scripts/check_gpu.sh --prebuilt muster-gpu-check --seconds 600
TEXT
}

output=build/gpu-check
case "${1:-}" in
  "") ;;
  --output)
    [ $# -eq 2 ] || {
      usage >&2
      exit 2
    }
    output=$(cd "$called_from" && realpath -m -- "$2")
    ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac

most_bytes=20000000
name=muster-gpu-check
tree=build/release
programs=(bin/muster bin/muster-train tests/nccl_tests tests/device_tests tests/muster-gpu-check)
plugins=(lib/muster/libmuster_cuda.so lib/muster/libmuster_nccl.so)
sources=(
  scripts/check_gpu.sh tests/gpu/run_checks.py tests/gpu/call_plan.py tests/gpu/check_list.py tests/gpu/commands.py tests/gpu/environment.py
  tests/gpu/gpu_report.py tests/gpu/preflight.py tests/gpu/compare_ranks.py tests/gpu/torch_rate.py
  tests/integration/train/muster_train_device_test.py tests/support/interop.py tests/interop/networks/models.py
)

# libraries_of FILE...: name and path of each library that is neither NVIDIA's, nor the C library's, nor one that PyTorch needs, too.
libraries_of() {
  ldd "$@" | sed -n 's/^\t\(\S*\) => \(\/\S*\) .*/\1 \2/p' | sort --unique |
    grep --extended-regexp --invert-match '^(lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+)\.so|ld-linux|lib(cuda|cudart|cudnn|cublas|nccl))'
}

copy_libraries() {
  local library path place
  libraries_of "$@" | while read -r library path; do
    place=lib
    # For Gloo alone. NCCL would load them, too, and must find those that belong to the machine's network cards.
    [[ $library != libibverbs* && $library != libnl-* ]] || place=lib/spare
    mkdir -p "$kit/$place"
    cp --dereference "$path" "$kit/$place/$library"
  done
}

# newest_symbols LIBRARY FILE...: the newest version of its symbols that the files need, which is the oldest of GLIBC or GLIBCXX with which
# all of them can be loaded.
newest_symbols() {
  local library=$1
  shift
  { objdump --dynamic-syms "$@" | grep --only-matching "${library}_[0-9.]*[0-9]" || true; } | sort --version-sort --unique | tail -n 1 |
    sed "s/${library}_//"
}

scripts/check_gpu.sh --build || {
  echo "pack_gpu_check.sh: nothing is packed: all parts of the checks must be built, see above" >&2
  exit 1
}

mkdir -p "$output"
scratch=$(mktemp -d build/gpu-check.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
kit=$scratch/$name
[ ! -e "$tree/lib/muster/libmuster_gloo.so" ] || plugins+=(lib/muster/libmuster_gloo.so)
files=()
for file in "${programs[@]}" "${plugins[@]}"; do
  mkdir -p "$kit/$(dirname "$file")"
  strip --strip-unneeded -o "$kit/$file" "$tree/$file"
  files+=("$tree/$file")
done
copy_libraries "${files[@]}"
# Those of lib/spare are loaded only by Gloo, and do not keep the others from starting.
mapfile -t packed < <(find "$kit" -path "$kit/lib/spare" -prune -o -type f -print)
for file in "${sources[@]}"; do
  mkdir -p "$kit/$(dirname "$file")"
  cp "$file" "$kit/$file"
done

clean=true
[ -z "$(git status --porcelain)" ] || clean=false
printf '{"commit": "%s", "clean": %s, "glibc": "%s", "glibcxx": "%s"}\n' \
  "$(git rev-parse HEAD)" "$clean" "$(newest_symbols GLIBC "${packed[@]}")" "$(newest_symbols GLIBCXX "${packed[@]}")" >"$kit/kit.json"
cat "$kit/kit.json"

archive=$output/$name.tar.xz
XZ_OPT=-T0 tar --owner=0 --group=0 -C "$scratch" -cJf "$scratch/kit.tar.xz" "$name"
bytes=$(stat --format=%s "$scratch/kit.tar.xz")
if [ "$bytes" -gt "$most_bytes" ]; then
  echo "pack_gpu_check.sh: $bytes bytes, at most $most_bytes: nothing is written. The largest files:" >&2
  find "$kit" -type f -size +1M -exec ls -s {} + | sort --numeric-sort --reverse | head -n 8 >&2
  exit 1
fi
mv "$scratch/kit.tar.xz" "$archive"
echo "$archive: $((bytes / 1000)) kB, unpacked $(du --summarize --bytes "$kit" | cut -f1 | numfmt --to=si)"
