// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/init_url.hpp"

#include "muster/error.hpp"
#include "worker_sdk/env/place.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace muster {
namespace {

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "init_url='" + text + "': " + why);
}

void parse_query(const std::string& text, std::string_view query, InitUrl& url) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    const std::string name(part.substr(0, equals));
    const std::string value(equals == std::string_view::npos ? "" : part.substr(equals + 1));
    try {
      if (name == "rank") {
        url.rank = parse_variable("rank", value, 0, kMostRanks - 1);
      } else if (name == "world_size") {
        url.size = parse_variable("world_size", value, 1, kMostRanks);
      } else {
        refuse(text, "after '?' only rank=N and world_size=N are known, not '" + name + "'");
      }
    } catch (const std::invalid_argument& error) {
      refuse(text, error.what());
    }
  }
}

}  // namespace

InitUrl parse_init_url(const std::string& text) {
  InitUrl url;
  if (text.empty() || text == "env://") return url;
  const std::size_t question = text.find('?');
  const std::string place = text.substr(0, question);
  if (question != std::string::npos) parse_query(text, std::string_view(text).substr(question + 1), url);
  if (place == "env://") {
    url.kind = InitUrl::Kind::environment;
  } else if (place.starts_with("tcp://")) {
    url.kind = InitUrl::Kind::tcp;
    const HostPort endpoint = parse_endpoint("init_url tcp://", place.substr(6));
    url.host = endpoint.host;
    url.port = endpoint.port;
    if (url.port == 0) refuse(text, "name the port, since the other ranks must know it");
  } else if (place.starts_with("file://")) {
    url.kind = InitUrl::Kind::file;
    url.path = place.substr(7);
    if (!url.path.starts_with('/') || url.path.ends_with('/'))
      refuse(text, "a file's path is absolute: file:///tmp/my-job");
  } else {
    refuse(text, "known are env://, tcp://HOST:PORT and file:///PATH");
  }
  return url;
}

}  // namespace muster
