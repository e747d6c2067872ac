// SPDX-License-Identifier: Apache-2.0
#include "launcher/console_view.hpp"

#include <unistd.h>

namespace muster::launcher {
namespace {

ConsoleText::Options options_for(const JobCard& card, const ConsoleView::Form& form) {
  ConsoleText::Options options;
  options.ranks = card.workers != 1;
  options.times = form.times;
  options.terminal = ::isatty(form.to) == 1;
  return options;
}

}  // namespace

ConsoleView::ConsoleView(const JobCard& card, RecordFilter filter, Form form)
    : filter_(std::move(filter)), json_(form.json), lines_(options_for(card, form)) {}

void ConsoleView::add(const std::vector<ConsoleRecord>& records) {
  for (const ConsoleRecord& record : records) {
    if (record.stream == ConsoleRecord::Stream::end) {
      has_ended_ = true;
      exit_code_ = record.number;
    }
    if (!filter_.wants(record)) continue;
    if (json_)
      text_ += to_json(record);
    else
      lines_.show(record, text_);
  }
}

void ConsoleView::finish() {
  if (!json_) lines_.end(text_);
}

}  // namespace muster::launcher
