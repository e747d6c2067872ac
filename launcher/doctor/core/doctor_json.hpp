// SPDX-License-Identifier: Apache-2.0
// The report of `muster doctor` as JSON: schema "muster.doctor", version 1 (docs/operations.md).
#pragma once

#include "launcher/doctor/core/findings.hpp"

#include <string>

namespace muster::launcher {

/// On several lines. Invalid UTF-8 is replaced.
std::string to_json(const DoctorReport& report);

/// Reads the facts of the one host that a `muster doctor --json` elsewhere has printed; what its login shell
/// printed before is passed over. Throws std::invalid_argument if there are none; fields that are missing get
/// their defaults.
HostFacts facts_from_json(const std::string& printed);

}  // namespace muster::launcher
