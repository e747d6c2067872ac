// SPDX-License-Identifier: Apache-2.0
#include "launcher/history/job_history.hpp"

#include "launcher/files/line_file.hpp"

#include <utility>

namespace muster::launcher {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void JobHistory::begins(EventOrigin origin, const JobBeginning& beginning) {
  origin_ = std::move(origin);
  begun_ = true;
  if (file_.empty()) return;
  const auto lines = std::make_shared<LineFile>(file_);
  writer_ = std::make_unique<WriterThread>(
      [lines](const std::string& line, const std::atomic<bool>& leave) { return lines->append(line, leave); },
      kLinesMost, WriterThread::Full::drop_it);
  for (const JobEvent& event : JobCourse::begun(beginning))
    writer_->give(event_line(origin_, event, began_ms_));
  for (const auto& [at_ms, event] : early_) writer_->give(event_line(origin_, event, at_ms));
  early_.clear();
}

void JobHistory::told(const std::string& node, const agent::NodeEvent& event) {
  write(course_.told(node, event, Clock::now(), wall_clock_ms()));
}

void JobHistory::node_lost(const std::string& node, const std::string& cause, bool spared) {
  write(course_.node_lost(node, cause, spared, Clock::now()));
}

void JobHistory::node_back(const std::string& node) {
  write(JobCourse::node_back(node));
}

void JobHistory::stopped(const std::string& by, const std::string& signal, bool kill) {
  write(course_.stopped(by, signal, kill, Clock::now()));
}

std::string JobHistory::ends(const JobEnding& ending) {
  write(course_.ended(ending, Clock::now()));
  if (!writer_) return "";
  const WriterThread::Loss loss = writer_->finish(kFileAtMost);
  writer_.reset();
  if (loss.texts == 0) return "";
  return "--event-file=" + file_ + ": " + std::to_string(loss.texts) +
         (loss.texts == 1 ? " line was" : " lines were") + " lost (" + loss.cause + ")";
}

void JobHistory::write(const JobCourse::Events& events) {
  const std::int64_t now_ms = wall_clock_ms();
  for (const JobEvent& event : events) {
    if (writer_)
      writer_->give(event_line(origin_, event, now_ms));
    else if (!begun_ && !file_.empty() && early_.size() < kLinesMost)
      early_.emplace_back(now_ms, event);
  }
}

}  // namespace muster::launcher
