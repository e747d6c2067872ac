// SPDX-License-Identifier: Apache-2.0
// Reads the answer of an HTTP server to one request. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace muster::agent {

/// The body of an answer with status 200 and a length in its header; nullopt as long as it is not whole, and
/// for any other answer.
std::optional<std::string_view> http_body(std::string_view answer);

}  // namespace muster::agent
