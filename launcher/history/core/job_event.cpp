// SPDX-License-Identifier: Apache-2.0
#include "launcher/history/core/job_event.hpp"

#include "launcher/core/utc_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace muster::launcher {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

/// A value whose texts have at most `most` bytes, and whose lists as many items.
Json json_of(const JobEvent::Value& value, std::size_t most) {
  struct Writer {
    std::size_t most;

    Json operator()(std::int64_t number) const { return number; }

    Json operator()(bool flag) const { return flag; }

    Json operator()(const std::string& text) const {
      return text.size() <= most ? text : text.substr(0, most) + "...";
    }

    Json operator()(const std::vector<int>& ranks) const {
      const auto count = static_cast<std::ptrdiff_t>(std::min({ranks.size(), most, kEventRanksMax}));
      return std::vector<int>(ranks.begin(), ranks.begin() + count);
    }

    Json operator()(const std::vector<std::string>& texts) const {
      Json list = Json::array();
      for (std::size_t i = 0; i < texts.size() && i < most / 8; ++i) list.push_back((*this)(texts[i]));
      return list;
    }
  };

  return std::visit(Writer{most}, value);
}

}  // namespace

std::string event_line(const EventOrigin& origin, const JobEvent& event, std::int64_t time_ms) {
  for (std::size_t most = kEventLineMax / 4;; most /= 2) {
    Json json = {{"schema", "muster.event"}, {"version", kSchemaVersion}, {"time", utc_text(time_ms)},
                 {"job", origin.job},        {"name", origin.name},       {"kind", event.kind}};
    for (const auto& [name, value] : event.fields) json[name] = json_of(value, most);
    std::string line = json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
    if (line.size() <= kEventLineMax || most == 0) return line;
  }
}

}  // namespace muster::launcher
