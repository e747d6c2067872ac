// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/version.hpp"

#include "worker_sdk/comm/plugin/release.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/gpu/plugin/device.hpp"

#include <nlohmann/json.hpp>

namespace muster::examples {
namespace {

nlohmann::ordered_json known(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

std::string line_of(const plugin::FoundLibrary& library) {
  if (!library.reason_against.empty()) return library.name + ": none; " + library.reason_against + "\n";
  const bool is_driver = library.name == "driver";
  return library.name + ": " + (is_driver ? "for CUDA " : "") + library.version +
         (library.cuda.empty() ? "" : " for CUDA " + library.cuda) + " (" + library.path + ")\n";
}

}  // namespace

VersionFacts read_version_facts() {
  const nn::gpu::DeviceUsability device = nn::gpu::probe_device("cuda", 0);
  return {plugin::kRelease, nn::instruction_set(), plugin::find_libraries(),
          device.reason_against.empty() ? device.name : "", device.reason_against};
}

std::string version_text(const VersionFacts& facts) {
  std::string text = "muster-train " + facts.version + " (" + facts.instructions + ")\n";
  for (const plugin::FoundLibrary& library : facts.libraries) text += line_of(library);
  return text + "GPU: " + (facts.gpu.empty() ? "none; " + facts.reason_against : facts.gpu) + "\n";
}

std::string version_json(const VersionFacts& facts) {
  nlohmann::ordered_json libraries = nlohmann::ordered_json::array();
  for (const plugin::FoundLibrary& library : facts.libraries)
    libraries.push_back({{"name", library.name},
                         {"version", known(library.version)},
                         {"cuda", known(library.cuda)},
                         {"path", known(library.path)},
                         {"reason_against", known(library.reason_against)}});
  const nlohmann::ordered_json document = {{"schema", "muster.train-version"},
                                           {"version", 1},
                                           {"muster_version", facts.version},
                                           {"instructions", facts.instructions},
                                           {"libraries", libraries},
                                           {"gpu", known(facts.gpu)},
                                           {"reason_against", known(facts.reason_against)}};
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster::examples
