// SPDX-License-Identifier: Apache-2.0
// The little of HTTP that a scrape needs. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::launcher {

/// Most bytes of a request.
inline constexpr std::size_t kHttpRequestMax = 8192;

/// Returns the status with which a request, up to its empty line, is answered: 200 for `GET /metrics`, else
/// 400, 403, 404 or 405. `over_tcp`: its Host must name this host's loopback, or a page that a browser shows
/// could have a name of its own point here.
int http_status(std::string_view request, bool over_tcp);

/// Returns a whole response; `body` is that of status 200, others say what they are.
std::string http_response(int status, const std::string& body);

}  // namespace muster::launcher
