// SPDX-License-Identifier: Apache-2.0
#include "agent/core/link_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

namespace muster::agent {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeHello, version, host, pid, addresses, cpus, gpus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkEndpoint, host, port)

namespace {

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename Value>
Value parsed(const std::string& text, const char* what) {
  try {
    return Json::parse(text).get<Value>();
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string(what) + ": " + error.what());
  }
}

/// The name becomes part of a path on another machine.
bool is_safe_name(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != std::string_view::npos) return false;
  std::size_t begin = 0;
  while (begin <= name.size()) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace

std::string link_greeting(std::string_view version) {
  return std::string(kLinkGreetingStart) + std::string(version) + "\n";
}

std::string to_json(const NodeHello& hello) {
  return dump(hello);
}

NodeHello node_hello_from_json(const std::string& text) {
  return parsed<NodeHello>(text, "a node's hello");
}

std::string to_json(const LinkEndpoint& endpoint) {
  return dump(endpoint);
}

LinkEndpoint link_endpoint_from_json(const std::string& text) {
  return parsed<LinkEndpoint>(text, "the coordinator's address");
}

// "<offset> <last> <name>\0<bytes>"
std::string to_body(const FilePiece& piece) {
  std::string body = std::to_string(piece.offset) + (piece.last ? " 1 " : " 0 ") + piece.name;
  body += '\0';
  body += piece.bytes;
  return body;
}

FilePiece file_piece_from(std::string_view body) {
  FilePiece piece;
  const std::size_t end = body.find('\0');
  const std::size_t space = body.find(' ');
  const std::string_view head = body.substr(0, std::min(end, body.size()));
  const auto [stop, error] = std::from_chars(head.data(), head.data() + head.size(), piece.offset);
  if (end == std::string_view::npos || error != std::errc() || piece.offset < 0 ||
      stop != head.data() + std::min(space, head.size()) || head.size() < space + 3 || head[space + 2] != ' ')
    throw std::invalid_argument("a piece of a log file has no head");
  piece.last = head[space + 1] == '1';
  piece.name = std::string(head.substr(space + 3));
  if (!is_safe_name(piece.name))
    throw std::invalid_argument("a log file's name leaves the log directory: " + piece.name);
  piece.bytes = std::string(body.substr(end + 1));
  return piece;
}

}  // namespace muster::agent
