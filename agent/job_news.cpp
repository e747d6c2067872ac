// SPDX-License-Identifier: Apache-2.0
#include "agent/job_news.hpp"

#include "rendezvous/log/log.hpp"

#include <string>
#include <utility>

namespace muster::agent {

void JobNews::status(const rendezvous::Status& status) {
  if (!traits_.networked)
    log_info(status.text);
  else if (!traits_.distant_launcher)
    dial_.say(status.text);
  else if (traits_.speaks_for_job)
    link_.tell(LinkMessage::Kind::status, 0, status.text);
}

void JobNews::round_ended(const rendezvous::RoundEnd& end, bool again) {
  events_.ended(end, again);
  if (again) say("round " + std::to_string(end.round) + " ended: " + end.text + "; " + end.decision);
}

void JobNews::notice(const rendezvous::JobNotice& notice, std::vector<HangStack> stacks) {
  events_.notice(notice);
  if (notice.hang == rendezvous::HangLevel::none) return say(notice.text);
  HangReport report{notice.hang, notice.text};
  report.stacks = std::move(stacks);
  hang(report);
}

void JobNews::say(std::string text) {
  if (!traits_.speaks_for_job) return;
  if (traits_.distant_launcher)
    link_.tell(LinkMessage::Kind::log, 0, std::move(text));
  else
    log_warning(text);
}

void JobNews::hang(const HangReport& hang) {
  if (traits_.distant_launcher) return link_.tell(LinkMessage::Kind::hang, 0, to_json(hang));
  if (!traits_.speaks_for_job) return;
  log_warning(hang.text);
  for (const std::string& line : hang_stack_lines(hang.stacks)) log_warning("  " + line);
}

}  // namespace muster::agent
