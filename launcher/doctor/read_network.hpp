// SPDX-License-Identifier: Apache-2.0
// Finds the network interface through which this host reaches others.
#pragma once

#include "launcher/doctor/core/host_facts.hpp"

#include <string>

namespace muster::launcher {

/// `towards` is a name or an address; empty: the default route. A name is looked up, which takes seconds
/// where no server answers.
NetworkFacts read_network(const std::string& towards);

}  // namespace muster::launcher
