// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/version_text.hpp"

#include "catch.hpp"

#include <nlohmann/json.hpp>

using namespace muster::launcher;

TEST_CASE("The version as JSON says what was built from which commit") {
  BuildFacts facts{"1.2.3",
                   "0123456789ab-dirty",
                   "GNU 12.2.0",
                   "RelWithDebInfo",
                   {"shm", "gloo"},
                   {{"trainer", true}, {"hwloc", false}},
                   {{"openssl", "3.0.16"}}};
  const auto json = nlohmann::json::parse(version_json(facts));
  CHECK(json.at("schema") == "muster.version");
  CHECK(json.at("version") == 1);
  CHECK(json.at("muster_version") == "1.2.3");
  CHECK(json.at("commit") == "0123456789ab-dirty");
  CHECK(json.at("compiler") == "GNU 12.2.0");
  CHECK(json.at("build_type") == "RelWithDebInfo");
  CHECK(json.at("backends") == nlohmann::json{"shm", "gloo"});
  CHECK(json.at("features") == nlohmann::json{{"trainer", true}, {"hwloc", false}});
  CHECK(json.at("libraries") == nlohmann::json{{"openssl", "3.0.16"}});
  facts.commit.clear();
  CHECK(nlohmann::json::parse(version_json(facts)).at("commit").is_null());
}
