// SPDX-License-Identifier: Apache-2.0
// What the tests of checkpoints share.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/trainer/checkpoint/checkpoint.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace muster::test {

/// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-checkpoint-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }

  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// The text of the Error that `call` throws; empty when it throws none.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A state whose every number follows from its step.
struct SampleState {
  explicit SampleState(std::int64_t step, std::int64_t elements = 8)
      : weights(static_cast<std::size_t>(elements), static_cast<float>(step)),
        momentum(static_cast<std::size_t>(elements), static_cast<float>(-step)) {
    state.model = "small-cnn";
    state.tensors = {{"conv1.weight", checkpoint::Type::f32, {elements / 2, 2}, weights.data()}};
    state.state = {{"momentum/conv1.weight", checkpoint::Type::f32, {elements / 2, 2}, momentum.data()}};
    state.scalars.set("step", step);
    state.scalars.set("loss", 0.1 * static_cast<double>(step));
    state.scalars.set("seed", std::string("18446744073709551615"));
  }

  SampleState(const SampleState&) = delete;
  SampleState& operator=(const SampleState&) = delete;

  std::vector<float> weights;
  std::vector<float> momentum;
  checkpoint::TrainingState state;
};

/// Whether all parts of a checkpoint are of one step.
inline bool is_whole(const checkpoint::Checkpoint& found, std::int64_t elements = 8) {
  const auto step = static_cast<float>(found.manifest.scalars.integer("step"));
  std::vector<float> values(static_cast<std::size_t>(elements));
  found.model.read_floats(found.model.tensors().at(0), values);
  if (values != std::vector<float>(values.size(), step)) return false;
  found.state.read_floats(found.state.tensors().at(0), values);
  return values == std::vector<float>(values.size(), -step);
}

}  // namespace muster::test
