// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// Gives `input` to a parser of files that came from elsewhere, which its first byte chooses: S a safetensors
/// file, M the manifest of a checkpoint. Aborts if what must hold for any text does not; lets through every
/// exception but Error (invalid_argument), the only way to say no. Returns whether the parser took the text.
bool check_checkpoint_input(const std::string& input);
