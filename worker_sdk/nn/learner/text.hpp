// SPDX-License-Identifier: Apache-2.0
// Formats numbers for people.
#pragma once

#include <string>

namespace muster::train {

/// Formats as printf() does, up to 511 bytes.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

/// A share as text: "53.2 %" for 0.532.
std::string percent(double share);

/// A time as text: "0:07", "12:05", "3:02:10".
std::string clock_time(double seconds);

}  // namespace muster::train
