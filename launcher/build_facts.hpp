// SPDX-License-Identifier: Apache-2.0
// What this executable was built from, and with.
#pragma once

#include "launcher/cli/version_text.hpp"

namespace muster::launcher {

BuildFacts build_facts();

}  // namespace muster::launcher
