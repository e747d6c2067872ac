#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the kernels of a device for one architecture, by NVRTC, which needs no GPU, no nvcc and no header of CUDA.

usage: compile_kernels.py --nvrtc LIBRARY [--version-only] | --nvrtc LIBRARY --architecture sm_90 --include DIR SOURCE OUTPUT

sm_NN gives machine code (a cubin), compute_NN gives PTX. Beside OUTPUT, OUTPUT.d lists the files that it was made from, for make.
NVRTC of CUDA 12 is used, from 12.8 on: it knows Blackwell, and drivers of CUDA 12.2 load its machine code
(https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).
"""
import argparse
import ctypes
import os
import re
import sys

# What the kernels use of the C++ library. NVRTC has no headers of it, and the host's are not made for devices.
HEADERS = {
    "array": """#pragma once
#include <cstddef>
namespace std {
template <typename T, size_t n> struct array {
  T values[n];
  constexpr T& operator[](size_t i) { return values[i]; }
  constexpr const T& operator[](size_t i) const { return values[i]; }
};
}""",
    "cmath": "#pragma once\n",
    "cstddef": "#pragma once\nnamespace std { using size_t = decltype(sizeof(0)); }\n",
    "cstdint": """#pragma once
namespace std {
using int8_t = signed char; using uint8_t = unsigned char;
using int16_t = short; using uint16_t = unsigned short;
using int32_t = int; using uint32_t = unsigned;
using int64_t = long; using uint64_t = unsigned long;
}""",
    "cstring": "#pragma once\nnamespace std { using ::memcpy; }\n",
    "limits": """#pragma once
namespace std {
template <typename T> struct numeric_limits;
template <> struct numeric_limits<float> { static __device__ float quiet_NaN() { return __int_as_float(0x7FC00000); } };
}""",
    "memory": "#pragma once\n",
    "type_traits": """#pragma once
namespace std {
template <typename T> struct type_identity { using type = T; };
template <typename A, typename B> constexpr bool is_same_v = false;
template <typename A> constexpr bool is_same_v<A, A> = true;
}""",
}


class Nvrtc:
    """NVRTC's calls, which end the program with its words where they fail."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            sys.exit(f"{name}: {self.library.nvrtcGetErrorString(result).decode()}")

    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def bytes_of(self, program, what):
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, text)
        return text.raw

    def compile(self, source, name, options, kind):
        """What the source is compiled to (kind: CUBIN, PTX), and what the compiler said of it."""
        program = ctypes.c_void_p()
        names = (ctypes.c_char_p * len(HEADERS))(*(header.encode() for header in HEADERS))
        texts = (ctypes.c_char_p * len(HEADERS))(*(text.encode() for text in HEADERS.values()))
        self.call("nvrtcCreateProgram", ctypes.byref(program), source, name.encode(), len(HEADERS), texts, names)
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        result = self.library.nvrtcCompileProgram(program, len(options), given)
        said = self.bytes_of(program, "ProgramLog").rstrip(b"\0").decode().strip()
        return (None if result != 0 else self.bytes_of(program, kind)), said


def included_by(path, folder, found):
    """Adds the files that a file includes by their place below `folder`, and those that they include."""
    with open(path, encoding="utf-8") as file:
        for name in re.findall(r'^#include "(.*)"', file.read(), re.M):
            place = os.path.join(folder, name)
            if place not in found and os.path.exists(place):
                found.append(place)
                included_by(place, folder, found)
    return found


def for_make(path):
    return re.sub(r"([ #])", r"\\\1", path).replace("$", "$$")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--nvrtc", required=True)
    parser.add_argument("--version-only", action="store_true")
    parser.add_argument("--architecture")
    parser.add_argument("--include")
    parser.add_argument("source", nargs="?")
    parser.add_argument("output", nargs="?")
    options = parser.parse_args()
    nvrtc = Nvrtc(options.nvrtc)
    if options.version_only:
        print("{}.{}".format(*nvrtc.version()))
        return
    with open(options.source, "rb") as file:
        source = file.read()
    kind = "CUBIN" if options.architecture.startswith("sm_") else "PTX"
    # Functions that say nothing are for host and device, as those of the standard library that are constexpr.
    flags = ["-std=c++20", "-default-device", f"-arch={options.architecture}", f"-I{options.include}"]
    compiled, said = nvrtc.compile(source, options.source, flags, kind)
    if said:
        print(said, file=sys.stderr)
    if compiled is None or said:
        sys.exit(f"{options.source} for {options.architecture}: NVRTC {'.'.join(map(str, nvrtc.version()))} "
                 f"{'cannot compile it' if compiled is None else 'warns, and a warning is an error here'}")
    with open(options.output + ".d", "w", encoding="utf-8") as file:
        made_from = [options.source] + included_by(options.source, options.include, [])
        file.write(f"{for_make(options.output)}: " + " \\\n  ".join(map(for_make, made_from)) + "\n")
    with open(options.output, "wb") as file:
        file.write(compiled.rstrip(b"\0") if kind == "PTX" else compiled)


if __name__ == "__main__":
    main()
