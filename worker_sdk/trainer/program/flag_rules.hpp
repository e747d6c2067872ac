// SPDX-License-Identifier: Apache-2.0
// What flags mean together.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace muster::examples {

/// Makes every flag for a number with a fraction refuse what is none: ranges let "nan" through.
void require_finite_numbers(CLI::App& app);

/// Throws Error (invalid_argument) for "--flag=", and for "--flag --other" where --flag needs a value. Call
/// it before parsing: the parser would take the next flag for the value.
void require_values(const CLI::App& app, const std::vector<std::string>& words);

/// Throws Error (invalid_argument) that names two flags of which only one can be meant, or one that asks for
/// something which another one would have to make possible. Call it after parsing.
void refuse_contradictions(const CLI::App& app);

/// Returns a sentence for each flag that was given and changes nothing. Call it after parsing.
std::vector<std::string> flags_without_effect(const CLI::App& app);

/// Returns each flag that has to be the same on every rank, with its value, a line each. Call it after
/// parsing.
std::string flags_to_agree_on(const CLI::App& app);

}  // namespace muster::examples
