// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/plugin/release.hpp"

#include <dlfcn.h>
#include <link.h>

namespace muster::plugin {

std::string say_both_releases(void* handle, std::uint32_t its_table, std::uint32_t our_table) {
  const link_map* object = nullptr;
  const bool is_known = dlinfo(handle, RTLD_DI_LINKMAP, &object) == 0 && object != nullptr;
  const char* const release = static_cast<const char*>(dlsym(handle, kReleaseSymbol));
  const auto table = [](std::uint32_t number) { return " (interface " + std::to_string(number) + ")"; };
  return (is_known ? std::string(object->l_name) : "it") + " is of " +
         (release != nullptr ? "Muster " + std::string(release) : "an early Muster") + table(its_table) +
         ", and this is Muster " + kRelease + table(our_table);
}

}  // namespace muster::plugin
