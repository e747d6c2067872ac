// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/job_text.hpp"

#include "agent/core/memory_end.hpp"
#include "agent/stacks/core/folded_stacks.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace muster::launcher {
namespace {

using Row = std::vector<std::string>;

/// Lines up the cells of rows; the last cell of each row is as long as it is.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows)
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string counted(std::size_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : for_terminal(text);
}

std::string cpu_text(std::int64_t cpu_ms) {
  char text[32];
  const std::int64_t seconds = cpu_ms / 1000;
  if (seconds < 60)
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(cpu_ms) / 1000);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", static_cast<long long>(seconds / 60),
                  static_cast<long long>(seconds % 60));
  return text;
}

std::size_t ranks_of(const JobAnswer& answer) {
  std::size_t count = 0;
  for (const agent::NodeStatus& node : answer.nodes) count += node.workers.size();
  return count;
}

std::string silent_text(const JobAnswer& answer) {
  if (answer.silent.empty()) return "";
  constexpr std::size_t kNamesMax = 8;
  const std::size_t all = answer.nodes.size() + answer.silent.size();
  return "no answer for " + std::to_string(agent::kNodeAnswersWithin.count()) + " s from " +
         for_terminal(joined(answer.silent, ", ", kNamesMax)) + ": partial, " +
         std::to_string(answer.nodes.size()) + " of " + counted(all, "node") + "\n";
}

std::string node_text(const agent::NodeStatus& node) {
  const bool named = !node.node.empty() && node.node != node.host;
  std::string text = "node " + (named ? for_terminal(node.node) + " on " : std::string()) +
                     for_terminal(node.host) + ": " + for_terminal(node.doing);
  if (node.round >= 0) text += "; round " + std::to_string(node.round);
  if (node.restarts > 0) text += ", " + counted(static_cast<std::size_t>(node.restarts), "restart");
  return text + "\n";
}

}  // namespace

std::string duration_text(std::int64_t milliseconds) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  const std::int64_t seconds = std::max<std::int64_t>(0, milliseconds) / 1000;
  const auto two = [seconds](std::int64_t large, const char* name, std::int64_t small, const char* below) {
    return std::to_string(seconds / large) + name + std::to_string(seconds % large / small) + below;
  };
  if (seconds < kMinute) return std::to_string(seconds) + " s";
  if (seconds < kHour) return two(kMinute, " min ", 1, " s");
  if (seconds < kDay) return two(kHour, " h ", kMinute, " min");
  return two(kDay, " d ", kHour, " h");
}

std::string jobs_table(const std::vector<JobCard>& jobs, std::int64_t now_ms) {
  std::vector<Row> rows{{"JOB", "AGE", "NODES", "WORKERS", "PID", "COMMAND"}};
  for (const JobCard& job : jobs)
    rows.push_back({for_terminal(job.id), duration_text(now_ms - job.started_at_ms),
                    std::to_string(job.nodes), job.workers > 0 ? std::to_string(job.workers) : "-",
                    std::to_string(job.pid), for_terminal("muster run " + joined(job.arguments, " "))});
  return table(rows);
}

std::string status_text(const JobAnswer& answer) {
  std::string text = for_terminal(answer.card.id) + ": " + for_terminal(answer.card.program) + ", for " +
                     duration_text(answer.age_ms) + ", " +
                     counted(answer.nodes.size() + answer.silent.size(), "node") + ", " +
                     counted(ranks_of(answer), "rank") + "\n";
  for (const agent::NodeStatus& node : answer.nodes) text += node_text(node);
  text += silent_text(answer);
  std::vector<Row> rows{{"RANK", "HOST", "PID", "CPU", "MEMORY", "STEP", "STATE", "NOW"}};
  for (const agent::NodeStatus& node : answer.nodes)
    for (const agent::WorkerStatus& worker : node.workers)
      rows.push_back({std::to_string(worker.rank), or_dash(node.host), std::to_string(worker.pid),
                      cpu_text(worker.cpu_ms), worker.memory > 0 ? agent::memory_text(worker.memory) : "-",
                      worker.step > 0 ? std::to_string(worker.step) : "-", or_dash(worker.state),
                      or_dash(worker.now)});
  return text + (rows.size() > 1 ? table(rows) : "");
}

std::string stacks_text(const JobAnswer& answer) {
  constexpr std::size_t kLinesMax = 400;
  std::vector<agent::RankPicture> pictures;
  for (const agent::NodeStatus& node : answer.nodes)
    for (const agent::WorkerStatus& worker : node.workers)
      for (const agent::ProcessPicture& process : worker.processes)
        pictures.push_back({worker.rank, &process});
  std::string text = silent_text(answer);
  for (const std::string& line : agent::stack_lines(pictures, kLinesMax)) text += for_terminal(line) + "\n";
  if (pictures.empty()) text += "no worker runs that could be looked at\n";
  return text;
}

}  // namespace muster::launcher
