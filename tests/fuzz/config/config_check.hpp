// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// Reads it as a --config file of muster-train; aborts where something does not hold. False when it is
/// refused.
bool check_config_input(std::string_view input);
