// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/text.hpp"

#include "agent/stacks/core/folded_stacks.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <functional>

namespace muster::launcher {

namespace {

using agent::NodeReport;
using agent::WorkerOutcome;
using agent::WorkerReport;

constexpr std::size_t kQuotedLines = 40;
constexpr std::size_t kLabelWidth = 11;
/// Most ranks whose last calls are quoted.
constexpr std::size_t kQuotedRanks = 3;

/// The text of a report: labelled lines below the headline.
class Page {
 public:
  explicit Page(const std::string& headline) : text_("muster: " + headline + "\n") {}

  void line(const std::string& label, const std::string& value) {
    std::string padded = label;
    padded.resize(std::max(kLabelWidth, label.size() + 1), ' ');
    text_ += "  " + padded + value + "\n";
  }

  /// Adds somebody else's lines, each marked and escaped; of many only the last.
  void quote(const std::string& label, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    const std::size_t skipped = lines.size() > kQuotedLines ? lines.size() - kQuotedLines : 0;
    line(label, skipped > 0 ? "(" + std::to_string(skipped) + " earlier lines left out)" : "");
    while (text_.ends_with(" \n")) text_.erase(text_.size() - 2, 1);
    for (std::size_t i = skipped; i < lines.size(); ++i) text_ += "    | " + for_terminal(lines[i]) + "\n";
  }

  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

std::string plural(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks);
}

/// Returns a text such as "2 h 3 min", "3 min 20 s" or "1.5 s".
std::string duration_text(std::int64_t duration_ms) {
  const std::int64_t seconds = duration_ms / 1000;
  if (seconds < 60) return std::to_string(seconds) + "." + std::to_string(duration_ms % 1000 / 100) + " s";
  if (seconds < 3600) return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  return std::to_string(seconds / 3600) + " h " + std::to_string(seconds % 3600 / 60) + " min";
}

std::vector<int> ranks_where(const ExitReport& report,
                             const std::function<bool(const WorkerReport&)>& matches) {
  std::vector<int> ranks;
  for (const NodeReport& node : report.nodes)
    for (const WorkerReport& worker : node.workers)
      if (&worker != report.root() && matches(worker)) ranks.push_back(worker.rank);
  return ranks;
}

void describe_root(Page& page, const ExitReport& report) {
  const WorkerReport& root = *report.root();
  std::string process = "pid " + std::to_string(root.pid) + ", local rank " + std::to_string(root.local_rank);
  if (report.outcome != JobOutcome::failed)
    process =
        "rank " + std::to_string(root.rank) + " on " + root.host + ": " + describe(root) + ", " + process;
  if (root.outcome != WorkerOutcome::not_started)
    page.line(report.outcome == JobOutcome::failed ? "process" : "failed", for_terminal(process));
  const bool has_error = !root.error.message.empty() || !root.error.traceback.empty();
  if (!root.error.message.empty()) page.quote("error", lines_of(root.error.message));
  // What has no stack to show says its message there, too.
  if (!root.error.traceback.empty() && root.error.traceback != root.error.message)
    page.quote("traceback", lines_of(root.error.traceback));
  if (!has_error) page.quote("last lines", root.last_lines);
  if (!root.error_file.empty()) page.line("error file", for_terminal(root.error_file));
  if (!root.stdout_log.empty()) page.line("stdout", for_terminal(root.stdout_log));
  if (!root.stderr_log.empty()) page.line("stderr", for_terminal(root.stderr_log));
}

/// Says which rank the others were waiting for when the job began to end.
void describe_hang(Page& page, const ExitReport& report) {
  const agent::HangReport& hang = report.hang;
  if (hang.text.empty() || report.cause.find(hang.text) != std::string::npos) return;
  std::string text = hang.text + " (said " + duration_text(hang.said_ms) + " before the end";
  if (hang.moved_ms >= 0) text += ", and it moved again " + duration_text(hang.moved_ms) + " before it";
  page.line("hang", for_terminal(text + ")"));
}

/// Says what was wrong on the hosts when the job began to end, which ranks were slow, and what NCCL's flight
/// recorder tells.
void describe_causes(Page& page, const ExitReport& report) {
  for (const NodeReport& node : report.nodes)
    for (const agent::HostCause& cause : node.host_causes)
      page.line("host", for_terminal(node.host + ": " + full_text(cause)));
  if (!report.slow.empty()) page.line("slow", for_terminal(report.slow));
  for (const std::string& line : report.flight_record) page.line("NCCL", for_terminal(line));
}

/// Says which rank waited for which, and what the ranks that were waited for did last. Only programs that use
/// the SDK have this.
void describe_calls(Page& page, const ExitReport& report) {
  std::size_t quoted = 0;
  for (const NodeReport& node : report.nodes) {
    for (const std::string& line : node.calls) page.line("calls", for_terminal(line));
    for (const WorkerReport& worker : node.workers) {
      if (worker.call.recent.empty() || quoted++ >= kQuotedRanks) continue;
      page.quote(
          "last calls of rank " + std::to_string(worker.rank) + " (" + for_terminal(worker.call.text) + ")",
          worker.call.recent);
    }
  }
}

/// Names the workers but the root cause that ended in such a way, in the order in which they did.
void describe_ends(Page& page, const ExitReport& report, const std::string& what,
                   const std::function<bool(const WorkerReport&)>& matches) {
  std::vector<const WorkerReport*> others;
  for (const NodeReport& node : report.nodes)
    for (const WorkerReport& worker : node.workers)
      if (&worker != report.root() && matches(worker)) others.push_back(&worker);
  std::stable_sort(others.begin(), others.end(),
                   [](const WorkerReport* a, const WorkerReport* b) { return a->arrival < b->arrival; });
  constexpr std::size_t kNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(others.size(), kNamed); ++i)
    text += (i > 0 ? "; " : "") + std::string("rank ") + std::to_string(others[i]->rank) + " (" +
            describe(*others[i]) + ")";
  if (others.size() > kNamed) text += "; and " + std::to_string(others.size() - kNamed) + " more";
  if (!text.empty()) page.line("others", for_terminal(what + text));
}

void describe_other_failures(Page& page, const ExitReport& report) {
  describe_ends(page, report, "failed by itself: ", [](const WorkerReport& worker) {
    return worker.outcome == WorkerOutcome::failed_by_itself;
  });
  describe_ends(page, report, "told to stop: ", [](const WorkerReport& worker) {
    return worker.outcome == WorkerOutcome::stopped_by_us && answered_by_own_code(worker);
  });
}

void describe_rest(Page& page, const ExitReport& report) {
  const auto killed = [](const WorkerReport& worker) {
    return worker.outcome == WorkerOutcome::stopped_by_us && worker.status.killed();
  };
  const auto stopped = ranks_where(report, [&](const WorkerReport& worker) {
    return worker.outcome == WorkerOutcome::stopped_by_us && !killed(worker) && !answered_by_own_code(worker);
  });
  const auto succeeded = ranks_where(
      report, [](const WorkerReport& worker) { return worker.outcome == WorkerOutcome::succeeded; });
  const auto not_started = ranks_where(
      report, [](const WorkerReport& worker) { return worker.outcome == WorkerOutcome::not_started; });
  if (!stopped.empty()) page.line("others", "stopped by us: " + plural(stopped));
  if (const auto ranks = ranks_where(report, killed); !ranks.empty())
    page.line("others", "stopped by us, with KILL: " + plural(ranks));
  if (!succeeded.empty()) page.line("others", "succeeded: " + plural(succeeded));
  if (!not_started.empty()) page.line("others", "not started: " + plural(not_started));
}

/// Says what the workers were in that had to be killed.
void describe_killed(Page& page, const ExitReport& report) {
  constexpr std::size_t kStackLines = 12;
  std::vector<agent::RankPicture> pictures;
  for (const NodeReport& node : report.nodes)
    for (const WorkerReport& worker : node.workers)
      for (const agent::ProcessPicture& picture : worker.before_kill)
        pictures.push_back({worker.rank, &picture});
  page.quote("before KILL", agent::stack_lines(pictures, kStackLines));
}

/// Adds one line for each host that is not named in the headline already, and one for those that said
/// nothing.
void describe_hosts(Page& page, const ExitReport& report) {
  const bool named = report.outcome == JobOutcome::launcher_error && report.hosts.size() == 1 &&
                     (report.hosts[0].lost || !report.hosts[0].spared);
  for (const HostFailure& host : report.hosts)
    if (!named)
      page.line(host.lost ? "lost" : "host", for_terminal(host.node + ": " + host.cause +
                                                          (host.advice.empty() ? "" : "; " + host.advice)));
  if (!report.unreported.empty())
    page.line("missing", "no report from " + for_terminal(joined(report.unreported)));
}

/// Returns which host a line is about, where there are several.
std::string on_host(const ExitReport& report, const NodeReport& node) {
  return report.nodes.size() > 1 ? node.host + ": " : "";
}

/// Names the first leftovers of many; the file of --report names all.
std::vector<std::string> leftover_lines(const ExitReport& report) {
  constexpr std::size_t kNamed = 5;
  constexpr const char* kWhat = "left running by a worker, ended by us";
  std::vector<std::string> lines;
  std::size_t count = 0;
  for (const NodeReport& node : report.nodes)
    for (const std::string& leftover : node.leftovers)
      if (++count <= kNamed)
        lines.push_back(for_terminal(on_host(report, node)) + kWhat + ": " + for_terminal(leftover));
  if (count > kNamed)
    lines.push_back("and " + std::to_string(count - kNamed) + " more " + kWhat + "; --report FILE names all");
  return lines;
}

/// Returns why the restarts that were left were not used.
std::string why_no_more(const ExitReport& report) {
  const bool left = report.restarts() < report.nodes[0].max_restarts;
  const bool failed = report.outcome == JobOutcome::failed || report.outcome == JobOutcome::launcher_error;
  if (!left || !failed || report.decisions.empty() || report.decisions.back().again) return "";
  const agent::RestartDecision& last = report.decisions.back();
  const bool said = report.cause_says_decision && last.is_cause;
  return said ? "" : "; " + for_terminal(last.decision);
}

/// Returns a text such as "2026-11-25 21:31:05 +0100".
std::string clock_text(std::int64_t since_1970_ms) {
  const std::time_t seconds = since_1970_ms / 1000;
  std::tm local{};
  std::array<char, 64> text{};
  if (::localtime_r(&seconds, &local) == nullptr) return "?";
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %z", &local);
  return text.data();
}

/// Says when the job ran and by which command, which a report is asked for when it is read later, or by
/// somebody else.
void describe_run(Page& page, const ExitReport& report) {
  if (report.times.started_at_ms == 0) return;
  page.line("ran", duration_text(report.times.duration_ms) + ", from " +
                       clock_text(report.times.started_at_ms) + " to " +
                       clock_text(report.times.ended_at_ms));
  page.line("command", for_terminal("muster run " + joined(report.arguments, " ") + " (version " +
                                    report.version + ")"));
}

void describe_job(Page& page, const ExitReport& report) {
  if (!report.nodes.empty() && report.nodes[0].max_restarts > 0)
    page.line("restarts", std::to_string(report.restarts()) + " of " +
                              std::to_string(report.nodes[0].max_restarts) + " used" + why_no_more(report));
  for (const std::string& note : report.notes) page.line("note", for_terminal(note));
  for (const std::string& line : leftover_lines(report)) page.line("leftover", line);
  for (const NodeReport& node : report.nodes)
    for (const std::string& note : node.notes) page.line("note", for_terminal(on_host(report, node) + note));
}

/// Returns what the user should know after a success, and no more. The agents' notes were said when they
/// happened.
std::string notes_of_success(const ExitReport& report) {
  std::string text;
  for (const std::string& note : report.notes) text += "muster: note: " + for_terminal(note) + "\n";
  for (const std::string& line : leftover_lines(report)) text += "muster: note: " + line + "\n";
  return text;
}

std::string headline(const ExitReport& report) {
  const std::string program = for_terminal(report.program);
  const std::string cause = for_terminal(report.cause);
  switch (report.outcome) {
    case JobOutcome::succeeded:
      return program + " succeeded";
    case JobOutcome::failed:
      return "error: " + program + " failed: " + cause;
    case JobOutcome::interrupted:
    case JobOutcome::deadline:
      return program + " stopped: " + cause;
    case JobOutcome::launcher_error:
      break;
  }
  if (report.not_started) return "error: " + program + " was not started: " + cause;
  if (!report.hosts.empty()) return "error: " + program + " stopped: " + cause;
  return "error: " + program + " stopped because muster failed: " + cause;
}

}  // namespace

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string to_text(const ExitReport& report) {
  return report.outcome == JobOutcome::succeeded ? notes_of_success(report) : to_page(report);
}

std::string to_page(const ExitReport& report) {
  Page page(headline(report));
  describe_hang(page, report);
  describe_causes(page, report);
  if (report.root() != nullptr) describe_root(page, report);
  describe_calls(page, report);
  describe_other_failures(page, report);
  if (report.outcome != JobOutcome::succeeded) describe_rest(page, report);
  describe_killed(page, report);
  describe_hosts(page, report);
  describe_job(page, report);
  if (!report.log_dir.empty()) page.line("logs", for_terminal(report.log_dir));
  describe_run(page, report);
  page.line("exit code", std::to_string(report.exit_code));
  if (!report.advice.empty()) page.line("next", for_terminal(report.advice));
  return std::move(page).text();
}

}  // namespace muster::launcher
