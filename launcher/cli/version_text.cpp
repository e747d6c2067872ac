// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/version_text.hpp"

#include <nlohmann/json.hpp>

namespace muster::launcher {

std::string version_json(const BuildFacts& facts) {
  constexpr int kSchemaVersion = 1;
  nlohmann::ordered_json json = {
      {"schema", "muster.version"}, {"version", kSchemaVersion},  {"muster_version", facts.version},
      {"commit", nullptr},          {"compiler", facts.compiler}, {"build_type", facts.build_type},
      {"backends", facts.backends}, {"features", facts.features}, {"libraries", facts.libraries}};
  if (!facts.commit.empty()) json["commit"] = facts.commit;
  return json.dump(2) + "\n";
}

}  // namespace muster::launcher
