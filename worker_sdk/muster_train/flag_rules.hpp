// SPDX-License-Identifier: Apache-2.0
// What flags are refused, alone and together.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace muster::examples {

/// Makes every flag for a number refuse what is none, and every flag without a value refuse a value that is
/// neither true, 1, yes, on nor false, 0, no, off: the parser lets "nan", "0x10" and --flip=1.5 through.
void require_plain_values(CLI::App& app);

/// Throws Error (invalid_argument) for "--flag=", and for "--flag --other" where --flag needs a value. Call
/// it before parsing: the parser would take the next flag for the value.
void require_values(const CLI::App& app, const std::vector<std::string>& words);

/// Throws Error (invalid_argument) that names two flags of which only one can be meant, or one that asks for
/// something which another one would have to make possible. Call it after parsing.
void refuse_contradictions(const CLI::App& app);

/// Throws Error (invalid_argument) for what --parallel dp cannot do. Call it after parsing.
void refuse_with_replicas(const CLI::App& app);

/// Returns a sentence for each flag that was given and changes nothing. Call it after parsing.
std::vector<std::string> flags_without_effect(const CLI::App& app);

/// Returns each flag that has to be the same on every rank, with its value, a line each. Call it after
/// parsing.
std::string flags_to_agree_on(const CLI::App& app);

}  // namespace muster::examples
