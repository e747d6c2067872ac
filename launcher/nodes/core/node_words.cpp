// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/node_words.hpp"

#include "agent/core/exit_status.hpp"

#include <cstddef>
#include <string_view>

namespace muster::launcher {
namespace {

constexpr std::size_t kLineMax = 4096;

}  // namespace

std::string without_our_beginning(const std::string& line) {
  for (const std::string_view beginning : {"muster: warning: ", "muster: error: ", "muster: info: "})
    if (line.starts_with(beginning)) return line.substr(beginning.size());
  return line;
}

std::string named(const std::string& name, const std::string& text) {
  return text.starts_with(name + ": ") ? text : name + ": " + text;
}

std::string shortened(const std::string& text) {
  return text.size() <= kLineMax ? text : text.substr(0, kLineMax) + "...";
}

std::string last_words_of(const std::string& name, const agent::LinkMessage& notice) {
  const bool lost = notice.number == agent::LinkMessage::agent_lost;
  return shortened(lost ? agent::agent_lost(" of " + name, notice.body) : named(name, notice.body));
}

}  // namespace muster::launcher
