// SPDX-License-Identifier: Apache-2.0
// Which of NVIDIA's libraries the plug-ins would load here, for people who look why a GPU is not used.
#pragma once

#include <string>
#include <vector>

namespace muster::plugin {

/// What is known of one library.
struct FoundLibrary {
  std::string name;  ///< "driver", "cuDNN", "NCCL"
  std::string
      version;  ///< "9.19.0"; of the driver the newest CUDA that it knows: "12.2"; "" where there is none
  std::string cuda;            ///< the CUDA that cuDNN was made for: "13.0"; "" where that is not known
  std::string path;            ///< the file
  std::string reason_against;  ///< why there is none, as Missing says it; "" where there is one
};

/// Loads them as open_library() finds them, and asks for their versions; they stay loaded. Needs neither
/// CUDA's headers nor a GPU.
FoundLibrary find_driver();
FoundLibrary find_cudnn();
FoundLibrary find_nccl();

/// The three, in this order.
std::vector<FoundLibrary> find_libraries();

}  // namespace muster::plugin
