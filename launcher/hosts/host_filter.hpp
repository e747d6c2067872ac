// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's --include and --exclude: "n0@n1:0,2" is all of n0, and GPUs 0 and 2 of n1.
#pragma once

#include "launcher/hosts/host_list.hpp"

#include <vector>

namespace muster::launcher {

/// Keeps the hosts and GPUs that `given` names, in the order of `hosts`. Host names may hold ranges, GPUs
/// too
/// ("0-3"). Throws UsageError with the place: a host that is not listed, a GPU beyond its slots, twice the
/// same.
std::vector<Host> include_hosts(const std::vector<Host>& hosts, const GivenText& given);

/// Drops them; a host without a GPU left goes.
std::vector<Host> exclude_hosts(const std::vector<Host>& hosts, const GivenText& given);

}  // namespace muster::launcher
