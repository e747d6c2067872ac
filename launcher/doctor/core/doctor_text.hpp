// SPDX-License-Identifier: Apache-2.0
// What `muster doctor` prints. Pure; every text is safe for a terminal.
#pragma once

#include "launcher/doctor/core/findings.hpp"

#include <string>

namespace muster::launcher {

/// Returns a block for each host with a line for each finding, what to do under it, then what differs between
/// the hosts, and the count.
std::string doctor_text(const DoctorReport& report);

}  // namespace muster::launcher
