// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// Gives `input` to one of the parsers of host lists, hostfiles, filters and node lists, which its first byte
/// chooses, places workers on what comes out, and aborts if what must hold for any text does not.
void check_hosts_input(const std::string& input);
