// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/core/http_request.hpp"

#include "launcher/metrics/core/metrics_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace muster::launcher {
namespace {

constexpr std::string_view kPath = "/metrics";

struct Status {
  int code = 0;
  std::string_view words;
};

constexpr std::array<Status, 6> kStatuses{{{200, "OK"},
                                           {400, "Bad Request"},
                                           {403, "Forbidden"},
                                           {404, "Not Found"},
                                           {405, "Method Not Allowed"},
                                           {503, "Service Unavailable"}}};

std::string lower(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

/// Takes the next line, without its end.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

/// Whether the fields name this host's loopback, once; HTTP/1.0 needs no name.
bool names_loopback(std::string_view fields, bool needed) {
  int count = 0;
  while (!fields.empty()) {
    const std::string_view line = next_line(fields);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || lower(line.substr(0, colon)) != "host") continue;
    std::string host = lower(trimmed(line.substr(colon + 1)));
    if (const std::size_t port = host.rfind(':'); port != std::string::npos && !host.ends_with(']'))
      host.resize(port);
    if (host != "127.0.0.1" && host != "[::1]" && host != "localhost") return false;
    ++count;
  }
  return count == 1 || (count == 0 && !needed);
}

}  // namespace

int http_status(std::string_view request, bool over_tcp) {
  std::string_view rest = request;
  const std::string_view line = next_line(rest);
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return 400;
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return 400;
  if (over_tcp && !names_loopback(rest, version == "HTTP/1.1")) return 403;
  if (line.substr(0, first) != "GET") return 405;
  const std::string_view target = line.substr(first + 1, last - first - 1);
  return target.substr(0, target.find('?')) == kPath ? 200 : 404;
}

std::string http_response(int status, const std::string& body) {
  const auto* const found = std::find_if(kStatuses.begin(), kStatuses.end(),
                                         [status](const Status& one) { return one.code == status; });
  const std::string words(found == kStatuses.end() ? "" : found->words);
  const std::string text = status == 200 ? body : words + "; GET " + std::string(kPath) + " is answered\n";
  return "HTTP/1.1 " + std::to_string(status) + " " + words +
         "\r\nContent-Type: " + std::string(status == 200 ? kMetricsType : "text/plain; charset=utf-8") +
         "\r\nContent-Length: " + std::to_string(text.size()) + (status == 405 ? "\r\nAllow: GET" : "") +
         "\r\nConnection: close\r\n\r\n" + text;
}

}  // namespace muster::launcher
