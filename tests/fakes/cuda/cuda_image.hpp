// SPDX-License-Identifier: Apache-2.0
// As much of compiled kernels as the fake of the driver looks at.
#pragma once

#include <cstddef>
#include <string>

namespace muster::test {

/// The header of machine code for an architecture (90). `abi`: 8 has the architecture in another place; 0:
/// that in which NVRTC 12.9 makes it, 7, and 8 for Blackwell.
inline std::string cubin_for(int architecture, int abi = 0) {
  if (abi == 0) abi = architecture >= 100 ? 8 : 7;
  std::string image(64, '\0');
  image.replace(0, 4, "\177ELF");
  const auto set = [&](std::size_t place, int value) { image[place] = static_cast<char>(value); };
  set(4, 2);  // 64 bits
  set(5, 1);  // the lowest byte is the first
  set(6, 1);  // the version of ELF
  set(8, abi);
  set(16, 2);    // a program
  set(18, 190);  // for CUDA
  set(abi >= 8 ? 49 : 48, architecture);
  return image;
}

/// A text for the driver to translate: ptx_for("8.2", 75).
inline std::string ptx_for(const std::string& version, int target) {
  return "//\n// Of a test\n//\n\n.version " + version + "\n.target sm_" + std::to_string(target) +
         "\n.address_size 64\n";
}

}  // namespace muster::test
