// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/console_text.hpp"

#include "launcher/core/utc_text.hpp"

namespace muster::launcher {

void ConsoleText::show(const ConsoleRecord& record, std::string& out) {
  if (record.stream == ConsoleRecord::Stream::end) return;
  const Source source{record.rank, record.stream};
  if (open_ && *open_ != source) out += '\n';
  if (!open_ || *open_ != source) begin_line(record, out);
  open_.reset();
  if (record.stream == ConsoleRecord::Stream::lost) {
    out += record.number ? "muster: warning: " + std::to_string(*record.number) +
                               " lines are missing here: the disk did not take them\n"
                         : "muster: warning: lines are missing here: they were overwritten before they were "
                           "shown\n";
    return;
  }
  add_text(source, record.ends_line ? record.text + "\n" : record.text, out);
  if (!record.ends_line) open_ = source;
}

void ConsoleText::end(std::string& out) {
  if (open_) out += '\n';
  open_.reset();
  for (auto& [source, filter] : filters_) out += filter.end(room_);
  filters_.clear();
}

void ConsoleText::begin_line(const ConsoleRecord& record, std::string& out) const {
  if (options_.times) out += utc_text(record.time_ms) + " ";
  if (options_.ranks && !record.is_ours()) out += "[" + std::to_string(record.rank) + "]: ";
}

void ConsoleText::add_text(const Source& source, const std::string& text, std::string& out) {
  if (options_.terminal)
    out += filters_[source].feed(text, room_);
  else
    out += text;
}

}  // namespace muster::launcher
