// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// Gives `input` to one of the launcher's parsers of text from outside, which its first byte chooses, and
/// aborts if what must hold for any text does not.
void check_cli_input(const std::string& input);
