// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/group.hpp"
#include "worker_sdk/comm/plugin/plugin_side.hpp"

#include <cstdlib>

namespace muster::nccl {
namespace {

std::string probe(int local_rank) {
  const Library& api = library();
  return bus_id_of(api, choose_device(api, local_rank, -1));
}

std::unique_ptr<plugin::Group> create(const muster_plugin_group_options& options, const plugin::Host& host) {
  const char* const interface = options.interface_name;
  // NCCL reads the variable when it first connects; a value that the user has set for NCCL itself stays.
  if (interface != nullptr && *interface != '\0')
    (void)setenv("NCCL_SOCKET_IFNAME", interface, 0);  // NOLINT(concurrency-mt-unsafe)
  try {
    library();
  } catch (const Error& failure) {
    cannot_join(host, options.rank, options.size, failure);
    throw;
  }
  return std::make_unique<Group>(library(), options, host);
}

constexpr plugin::Maker kMaker{
    .name = "nccl",
    .is_device = true,
    .words = {"no host memory for a call of the nccl backend", "the nccl backend failed: "},
    .probe = probe,
    .create = create};
constexpr muster_plugin kTable = plugin::table_of<kMaker>();

}  // namespace
}  // namespace muster::nccl

const muster_plugin* muster_plugin_entry() {
  return &muster::nccl::kTable;
}
