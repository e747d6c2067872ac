// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "muster/error.hpp"
#include "worker_sdk/comm/plugin/loader.hpp"
#include "worker_sdk/comm/plugin/release.hpp"

#include <cstdlib>
#include <string>

namespace muster::plugin {
namespace {

std::string refused(const std::string& name) {
  try {
    load_plugin(name);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unsupported);
    return error.what();
  }
  return "";
}

std::string table(std::uint32_t number) {
  return " (interface " + std::to_string(number) + ")";
}

TEST_CASE("A plug-in of another version is refused, with its file and both versions") {
  const std::string folder = MUSTER_TEST_OTHER_PLUGINS;
  setenv("MUSTER_PLUGIN_PATH", folder.c_str(), 1);
  const std::string us =
      ", and this is Muster " + std::string(kRelease) + table(kTableVersion) +
      "; install the same version of both, or set MUSTER_PLUGIN_PATH to the folder of its own plug-ins";
  CHECK(refused("other") == "the backend 'other' cannot be loaded: " + folder +
                                "/libmuster_other.so is of Muster 7.8.9" + table(kTableVersion + 1) + us);
  CHECK(refused("early") == "the backend 'early' cannot be loaded: " + folder +
                                "/libmuster_early.so is of an early Muster" + table(kTableVersion - 1) + us);
}

}  // namespace
}  // namespace muster::plugin
