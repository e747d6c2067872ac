#!/usr/bin/env bash
# Installs the packages that a set needs; does nothing, quickly, when they are all there.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/install_deps.sh [launcher|build|unit|test|bench|package|distribution|all] [--dry-run]

  launcher      compiler, CMake and libraries for muster and the SDK alone (cmake -DMUSTER_BUILD_TRAINER=OFF
                -DMUSTER_BUILD_TESTS=OFF)
  build         launcher, and oneDNN for muster-train: enough for scripts/quickstart.sh (default)
  unit          build, and what the tests labelled unit and sim use
  test          unit, and what else scripts/test.sh uses
  bench         build, and the peers that scripts/bench.sh measures against
  package       launcher, and what else scripts/package.sh uses
  distribution  what scripts/test_distribution.sh and scripts/package.sh deb use outside the roots that they make, and nothing else
  all           everything
  --dry-run     print what is missing and install nothing

Debian 12, Ubuntu 24.04 or newer. On other systems the missing tools are named and the exit code is 1.
TEXT
}

set_name=build
dry_run=false
for argument in "$@"; do
  case "$argument" in
    launcher | build | unit | test | bench | package | distribution | all) set_name=$argument ;;
    --dry-run) dry_run=true ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      echo "install_deps.sh: unknown argument '$argument'" >&2
      usage >&2
      exit 2
      ;;
  esac
done

codename=
if [ -r /etc/os-release ]; then
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
fi

# Debian 12's libboost-dev is 1.74, which has none of the Asio features used here; the two cannot be installed together.
boost=libboost-dev
# What OpenSSL's archive needs to be linked; Debian 12's needs nothing.
openssl=(libssl-dev libzstd-dev zlib1g-dev)
if [ "$codename" = bookworm ]; then
  boost=libboost1.81-dev
  openssl=(libssl-dev)
fi
# The sanitizers' trees are compiled with it; newer distributions have newer ones only.
clang=16
if [ "$codename" = trixie ]; then
  clang=19
fi

launcher_packages=(
  g++ cmake ninja-build ccache git python3-minimal
  "$boost" nlohmann-json3-dev libspdlog-dev libcli11-dev "${openssl[@]}" libhwloc-dev
)
# Debian's oneDNN CMake package asks for OpenCL, though nothing of ours uses it.
trainer_packages=(libdnnl-dev ocl-icd-opencl-dev opencl-c-headers opencl-clhpp-headers)
unit_packages=(catch2 python3 procps universal-ctags)
test_packages=(
  "${unit_packages[@]}" python3-venv pkgconf libgloo-dev openmpi-bin libopenmpi-dev
  iproute2 nftables openssh-server openssh-client
  "clang-$clang" "libclang-rt-$clang-dev" lld clang-tidy clang-format shellcheck
)
# Wanted, not required: the tests that use one are skipped where the distribution does not have it.
test_optional=(python3-torch numactl slurmctld slurmd slurm-client munge libdw1 zsh fish)
distribution_packages=(debootstrap debian-archive-keyring util-linux git python3 python3-venv python3-pip)
bench_packages=(libgloo-dev openmpi-bin libopenmpi-dev redis-server libhiredis-dev iproute2 nftables openssh-server openssh-client)

packages=("${launcher_packages[@]}")
[ "$set_name" = launcher ] || packages+=("${trainer_packages[@]}")
optional=()
case "$set_name" in
  unit) packages+=("${unit_packages[@]}") ;;
  test)
    packages+=("${test_packages[@]}")
    optional=("${test_optional[@]}")
    ;;
  bench) packages+=("${bench_packages[@]}" python3 python3-venv) ;;
  package) packages=("${launcher_packages[@]}" python3 python3-venv) ;;
  distribution) packages=("${distribution_packages[@]}") ;;
  all)
    packages+=("${test_packages[@]}" "${bench_packages[@]}" "${distribution_packages[@]}")
    optional=("${test_optional[@]}")
    ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  absent=()
  for tool in g++ cmake ninja git python3; do
    command -v "$tool" >/dev/null || absent+=("$tool")
  done
  {
    echo "install_deps.sh: this system has no apt-get, so nothing was installed."
    [ ${#absent[@]} -eq 0 ] || echo "Missing tools: ${absent[*]}"
    echo "Needed, under Debian's names: ${packages[*]} ${optional[*]}"
    echo "(Boost >= 1.81, CMake >= 3.25, g++ >= 12, oneDNN >= 2.6; then run cmake --preset release yourself)"
  } >&2
  exit 1
fi

# One name per line: the packages themselves and what they provide.
installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}, ${Provides}\n' |
  sed -n 's/^installed //p' | tr ',' '\n' | sed 's/^ *//; s/ .*//')

is_installed() {
  grep --quiet --line-regexp --fixed-strings "$1" <<<"$installed"
}

missing=()
for package in "${packages[@]}" "${optional[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if $dry_run; then
  printf '%s\n' "${missing[@]}"
  exit 0
fi

as_root=()
if [ "$(id --user)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    {
      echo "install_deps.sh: not root and no sudo. Ask an administrator to run:"
      echo "  apt-get install ${missing[*]}"
    } >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "Installing: ${missing[*]}"
# Without the package lists apt knows no candidate; they are fetched only then, because that takes seconds.
if ! apt-cache show "${missing[@]}" >/dev/null 2>&1; then
  "${as_root[@]}" apt-get update
fi
wanted=()
for package in "${missing[@]}"; do
  if [[ " ${optional[*]} " == *" $package "* ]] && ! apt-cache show "$package" >/dev/null 2>&1; then
    echo "not available here, tests that need it are skipped: $package"
  else
    wanted+=("$package")
  fi
done
if [ ${#wanted[@]} -gt 0 ]; then
  install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${wanted[@]}")
  # Lists that are too old name files which the mirror no longer has.
  "${install[@]}" || { "${as_root[@]}" apt-get update && "${install[@]}"; }
fi
