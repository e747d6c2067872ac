// SPDX-License-Identifier: Apache-2.0
#include "launcher/build_facts.hpp"

#include "launcher/cli/value_syntax.hpp"
#include "muster_commit.hpp"

#include <features.h>

namespace muster::launcher {

BuildFacts build_facts() {
  BuildFacts facts;
  facts.version = MUSTER_VERSION;
  facts.commit = MUSTER_COMMIT;
  facts.compiler = MUSTER_COMPILER;
  facts.build_type = MUSTER_BUILD_TYPE;
  facts.backends = split(MUSTER_BACKENDS, ',');
  facts.features = {{"hwloc", MUSTER_HWLOC != 0},
                    {"trainer", MUSTER_TRAINER != 0},
                    {"trainer_on_gpus", MUSTER_ON_GPUS != 0}};
  facts.libraries = {{"boost", MUSTER_BOOST},
                     {"glibc", std::to_string(__GLIBC__) + "." + std::to_string(__GLIBC_MINOR__)},
                     {"nlohmann_json", MUSTER_JSON},
                     {"openssl", MUSTER_OPENSSL},
                     {"spdlog", MUSTER_SPDLOG}};
  return facts;
}

}  // namespace muster::launcher
