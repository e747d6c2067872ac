// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// Gives `input` to one of the agent's parsers of text from another process, which its first byte chooses: E
/// an error file, L a message between launcher and agent, S an agent spec, R a node report. Aborts if what
/// must hold for any text does not; lets through every exception but std::invalid_argument, the only way to
/// say no. Returns whether the parser took the text.
bool check_error_file_input(const std::string& input);
