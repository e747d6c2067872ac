// SPDX-License-Identifier: Apache-2.0
// Reads the place where the ranks of a world meet, as a program or the environment names it: init_url. Pure.
#pragma once

#include <string>

namespace muster {

/// The place where the ranks meet, as the user wrote it. Plain data.
struct InitUrl {
  enum class Kind { environment, tcp, file };
  Kind kind = Kind::environment;
  std::string host;  ///< the host of tcp
  int port = 0;
  std::string path;  ///< the absolute path of file
  int rank = -1;     ///< rank in "?rank=0&world_size=2", PyTorch's form; -1: not given
  int size = -1;
};

/// Reads "" and "env://", "tcp://HOST:PORT", "file:///PATH", the last two with "?rank=N&world_size=N" or
/// without. Pure. Throws Error (invalid_argument) that names the mistake and shows the right form.
InitUrl parse_init_url(const std::string& text);

}  // namespace muster
