// SPDX-License-Identifier: Apache-2.0
// Files of a test's own.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace muster::test {

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// A folder that goes with the test, and with it all that is in it. Nobody else can look into it.
class Folder {
 public:
  Folder() {
    path_ = (std::filesystem::temp_directory_path() / "muster-test-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder");
  }

  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  /// Makes or replaces a file; returns its path.
  std::string write(const std::string& name, const std::string& bytes, mode_t mode = 0600) const {
    std::string path = *this / name;
    write_file(path, bytes);
    if (::chmod(path.c_str(), mode) != 0) throw std::runtime_error("chmod of " + path);
    return path;
  }

 private:
  std::string path_;
};

/// A path at which there is nothing: in a fresh folder that nobody else can write to. A path such as
/// "/nonexistent" may be there on somebody's machine.
inline const std::string& absent() {
  static const Folder folder;
  static const std::string path = folder / "absent";
  return path;
}

}  // namespace muster::test
