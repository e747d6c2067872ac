// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/job_text.hpp"

#include "agent/core/memory_end.hpp"
#include "agent/stacks/core/folded_stacks.hpp"
#include "agent/stacks/core/native_text.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <set>
#include <utility>

namespace muster::launcher {
namespace {

using Row = std::vector<std::string>;

/// Lines up the cells of rows; the last cell of each row is as long as it is.
std::vector<std::string> table_lines(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows)
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
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
         std::to_string(answer.nodes.size()) + " of " + counted(all, "node");
}

std::string node_text(const agent::NodeStatus& node) {
  const bool named = !node.node.empty() && node.node != node.host;
  std::string text = "node " + (named ? for_terminal(node.node) + " on " : std::string()) +
                     for_terminal(node.host) + ": " + for_terminal(node.doing);
  if (node.round >= 0) text += "; round " + std::to_string(node.round);
  if (node.restarts > 0) text += ", " + counted(static_cast<std::size_t>(node.restarts), "restart");
  return text;
}

bool is_held_up(const agent::WorkerStatus& worker) {
  return !worker.held_in.empty() || worker.wait == rendezvous::WaitKind::stopped ||
         worker.state.starts_with("stopped") || worker.state.starts_with("in the kernel");
}

/// What a rank does, in the words of the verdict on a hang where its agent knows; a program of the SDK says
/// more of a rank that moves.
std::string now_text(const agent::WorkerStatus& worker) {
  const bool told = worker.wait == rendezvous::WaitKind::stopped || !worker.held_in.empty();
  if (worker.state != "running" && !told) return or_dash(worker.state);
  if (!worker.does.empty() && worker.activity != rendezvous::Activity::moves)
    return for_terminal(worker.does + (worker.place.empty() ? "" : " (" + worker.place + ")"));
  if (!worker.now.empty()) return for_terminal(worker.now);
  return or_dash(worker.does.empty() ? worker.state : worker.does);
}

/// A list of devices may hold long UUIDs.
std::string gpu_text(const std::string& gpu) {
  constexpr std::size_t kGpuBytes = 12;
  return or_dash(gpu.size() <= kGpuBytes ? gpu : gpu.substr(0, kGpuBytes) + "...");
}

/// A column of the table of ranks; `known` says of which ranks there is something to be shown.
struct Column {
  const char* name = "";
  std::string (*text)(const agent::NodeStatus&, const agent::WorkerStatus&) = nullptr;
  bool (*known)(const agent::WorkerStatus&) = nullptr;
};

using Node = agent::NodeStatus;
using Worker = agent::WorkerStatus;

constexpr Column kHostColumn{"HOST", [](const Node& node, const Worker&) { return or_dash(node.host); },
                             nullptr};
constexpr Column kColumns[] = {
    {"RANK", [](const Node&, const Worker& worker) { return std::to_string(worker.rank); }, nullptr},
    kHostColumn,
    {"PID", [](const Node&, const Worker& worker) { return std::to_string(worker.pid); }, nullptr},
    {"CPU", [](const Node&, const Worker& worker) { return cpu_text(worker.cpu_ms); }, nullptr},
    {"MEMORY",
     [](const Node&, const Worker& worker) {
       return worker.memory > 0 ? agent::memory_text(worker.memory) : std::string("-");
     },
     nullptr},
    {"GPU", [](const Node&, const Worker& worker) { return gpu_text(worker.gpu); },
     [](const Worker& worker) { return !worker.gpu.empty(); }},
    {"STEP",
     [](const Node&, const Worker& worker) {
       return worker.step > 0 ? std::to_string(worker.step) : std::string("-");
     },
     [](const Worker& worker) { return worker.step > 0; }},
    {"OUTPUT",
     [](const Node&, const Worker& worker) {
       return worker.output_ms >= 0 ? duration_text(worker.output_ms) : std::string("-");
     },
     [](const Worker& worker) { return worker.output_ms >= 0; }},
    {"NOW", [](const Node&, const Worker& worker) { return now_text(worker); }, nullptr},
};

std::vector<Column> columns_for(const JobAnswer& answer) {
  std::set<std::string> hosts;
  for (const Node& node : answer.nodes)
    if (!node.workers.empty()) hosts.insert(node.host);
  const auto is_shown = [&](const Column& column) {
    if (column.text == kHostColumn.text) return hosts.size() > 1;
    if (column.known == nullptr) return true;
    return std::any_of(answer.nodes.begin(), answer.nodes.end(), [&column](const Node& node) {
      return std::any_of(node.workers.begin(), node.workers.end(), column.known);
    });
  };
  std::vector<Column> columns;
  std::copy_if(std::begin(kColumns), std::end(kColumns), std::back_inserter(columns), is_shown);
  return columns;
}

/// The names of the columns, and a line for each rank; none without ranks.
Picture rank_lines(const JobAnswer& answer) {
  const std::vector<Column> columns = columns_for(answer);
  std::vector<Row> rows(1);
  std::vector<Tone> tones{Tone::heading};
  for (const Column& column : columns) rows.front().emplace_back(column.name);
  for (const Node& node : answer.nodes)
    for (const Worker& worker : node.workers) {
      Row row;
      for (const Column& column : columns) row.push_back(column.text(node, worker));
      rows.push_back(std::move(row));
      tones.push_back(is_held_up(worker) ? Tone::alarm : Tone::plain);
    }
  Picture lines;
  if (rows.size() == 1) return lines;
  std::vector<std::string> texts = table_lines(rows);
  for (std::size_t i = 0; i < texts.size(); ++i) lines.push_back({std::move(texts[i]), tones[i]});
  return lines;
}

/// Whether the job is hung, or idle; no text if neither.
ScreenLine verdict_line(const JobAnswer& answer) {
  const agent::StandingHang hang = standing_hang(answer);
  if (hang.level != rendezvous::HangLevel::none)
    return {for_terminal(hang.text) + " (said " + duration_text(hang.said_ms) + " ago)",
            hang.level == rendezvous::HangLevel::is_hung ? Tone::alarm : Tone::warning};
  if (const auto idle = idle_since(answer))
    return {"idle since " + duration_text(idle->count()) + ": no rank moves, and none waits for others",
            Tone::plain};
  return {};
}

/// "useful: at least 71 % of 12 min 5 s; detection 1 min 2 s, recomputed at most 2 min 8 s"; what took less
/// than a second is left out. No text where nothing is known yet.
std::string time_text(const JobAnswer& answer) {
  if (!answer.shares || answer.shares->total().count() <= 0) return "";
  const TimeShares& shares = *answer.shares;
  // Rounded down: 100 % says that nothing was lost.
  const auto percent = shares.useful.count() * 100 / shares.total().count();
  std::string text = std::string("useful: ") + (shares.at_most ? "at least " : "") + std::to_string(percent) +
                     " % of " + duration_text(shares.total().count());
  std::vector<std::string> lost;
  const auto add = [&lost](const char* name, std::chrono::milliseconds time) {
    if (time >= std::chrono::seconds(1)) lost.push_back(name + duration_text(time.count()));
  };
  add("start ", shares.start);
  add("detection ", shares.detect);
  add("restart ", shares.restart);
  add(shares.at_most ? "recomputed at most " : "recomputed ", shares.recompute);
  add("end ", shares.end);
  return text + (lost.empty() ? "" : "; " + joined(lost, ", "));
}

/// What is wrong on the hosts, and which ranks are slow, as far as their nodes tell.
Picture cause_lines(const JobAnswer& answer) {
  Picture lines;
  for (const Node& node : answer.nodes)
    for (const agent::HostCause& cause : node.host_causes)
      lines.push_back({for_terminal("on " + node.host + " " + full_text(cause)), Tone::warning});
  if (const std::string slow = slow_ranks(answer); !slow.empty())
    lines.push_back({for_terminal(slow), Tone::warning});
  return lines;
}

/// A status in its parts; ranks begin with the names of their columns.
struct StatusParts {
  ScreenLine job;
  ScreenLine verdict;
  ScreenLine time;
  Picture causes;
  Picture rounds;
  Picture nodes;
  ScreenLine silent;
  Picture ranks;
};

std::string name_text(const JobCard& card) {
  return card.name.empty() ? "" : " (" + for_terminal(card.name) + ")";
}

StatusParts parts_of(const JobAnswer& answer) {
  constexpr std::size_t kRoundsShown = 3;
  StatusParts parts;
  parts.job.tone = Tone::heading;
  parts.job.text = for_terminal(answer.card.id) + name_text(answer.card) + ": " +
                   for_terminal(answer.card.program) + ", for " + duration_text(answer.age_ms) + ", " +
                   counted(answer.nodes.size() + answer.silent.size(), "node") + ", " +
                   counted(ranks_of(answer), "rank");
  parts.verdict = verdict_line(answer);
  parts.causes = cause_lines(answer);
  const std::vector<agent::EndedRound> rounds = ended_rounds(answer);
  const std::size_t earlier = rounds.size() > kRoundsShown ? rounds.size() - kRoundsShown : 0;
  if (earlier > 0) parts.rounds.push_back({"... " + counted(earlier, "earlier restart")});
  for (std::size_t i = earlier; i < rounds.size(); ++i)
    parts.rounds.push_back({"round " + std::to_string(rounds[i].round) +
                            " ended: " + for_terminal(rounds[i].cause + "; " + rounds[i].decision)});
  for (const Node& node : answer.nodes) parts.nodes.push_back({node_text(node)});
  parts.time = {time_text(answer), Tone::plain};
  parts.silent = {silent_text(answer), Tone::warning};
  parts.ranks = rank_lines(answer);
  return parts;
}

/// Adds lines, at most `most` (at least one); what is left out is counted by the last one.
void add_some(Picture& picture, const Picture& lines, std::size_t most, const std::string& one) {
  const std::size_t whole = lines.size() <= most ? lines.size() : most - 1;
  picture.insert(picture.end(), lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(whole));
  if (whole < lines.size()) picture.push_back({"... " + counted(lines.size() - whole, "more " + one)});
}

struct JobRow {
  const JobCard* card = nullptr;
  std::string state;
  std::int64_t age_ms = 0;
};

/// Makes a table of jobs, with a column NAME if one of them has a name.
std::string table_of(const std::vector<JobRow>& jobs, bool with_state) {
  const bool named =
      std::any_of(jobs.begin(), jobs.end(), [](const JobRow& job) { return !job.card->name.empty(); });
  const auto row = [&](const std::string& id, const std::string& name, const std::string& state,
                       const Row& rest) {
    Row cells{id};
    if (named) cells.push_back(name);
    if (with_state) cells.push_back(state);
    cells.insert(cells.end(), rest.begin(), rest.end());
    return cells;
  };
  std::vector<Row> rows{row("JOB", "NAME", "STATE", {"AGE", "NODES", "WORKERS", "PID", "COMMAND"})};
  for (const JobRow& job : jobs) {
    const JobCard& card = *job.card;
    rows.push_back(row(for_terminal(card.id), or_dash(card.name), job.state,
                       {duration_text(job.age_ms), std::to_string(card.nodes),
                        card.workers > 0 ? std::to_string(card.workers) : "-", std::to_string(card.pid),
                        for_terminal("muster run " + joined(card.arguments, " "))}));
  }
  return table(rows);
}

}  // namespace

std::string table(const std::vector<Row>& rows) {
  return joined(table_lines(rows), "\n") + "\n";
}

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
  std::vector<JobRow> rows;
  for (const JobCard& job : jobs) rows.push_back({&job, "", now_ms - job.started_at_ms});
  return table_of(rows, false);
}

std::string all_jobs_table(const std::vector<JobCard>& jobs, const std::vector<EndedJob>& ended,
                           std::int64_t now_ms) {
  std::vector<JobRow> rows;
  for (const JobCard& job : jobs) rows.push_back({&job, "running", now_ms - job.started_at_ms});
  for (const EndedJob& job : ended)
    rows.push_back(
        {&job.card,
         "ended (" + std::to_string(job.exit_code) + ") " + duration_text(now_ms - job.ended_at_ms) + " ago",
         job.ended_at_ms - job.card.started_at_ms});
  return table_of(rows, true);
}

std::string ended_text(const EndedJob& job, std::int64_t now_ms) {
  std::string text = for_terminal(job.card.id) + name_text(job.card) + ": " + for_terminal(job.card.program) +
                     ", ended " + duration_text(now_ms - job.ended_at_ms) + " ago, after " +
                     duration_text(job.ended_at_ms - job.card.started_at_ms) + ", with exit code " +
                     std::to_string(job.exit_code) + "\n";
  if (!job.cause.empty()) text += "cause   " + for_terminal(job.cause) + "\n";
  if (!job.report.empty()) text += "report  " + for_terminal(job.report) + "\n";
  if (job.cpu_ms > 0) text += "CPU     " + cpu_text(job.cpu_ms) + "\n";
  if (job.memory_peak > 0)
    text += "memory  " + agent::memory_text(job.memory_peak) + " at most, of its largest process\n";
  return text;
}

std::string status_text(const JobAnswer& answer) {
  const StatusParts parts = parts_of(answer);
  std::string text;
  const auto add = [&text](const ScreenLine& line) { text += line.text.empty() ? "" : line.text + "\n"; };
  add(parts.job);
  add(parts.verdict);
  add(parts.time);
  for (const Picture& lines : {parts.causes, parts.rounds, parts.nodes, Picture{parts.silent}, parts.ranks})
    for (const ScreenLine& line : lines) add(line);
  return text;
}

Picture status_picture(const JobAnswer& answer, ScreenSize size) {
  constexpr std::size_t kVerdictLines = 4;
  const auto rows = static_cast<std::size_t>(std::max(size.rows, 4));
  // The last column stays free (difference()).
  const auto columns = static_cast<std::size_t>(std::max(size.columns, 20)) - 1;
  const StatusParts parts = parts_of(answer);
  Picture picture{parts.job};
  for (std::string& line : wrapped(parts.verdict.text, columns, kVerdictLines))
    picture.push_back({std::move(line), parts.verdict.tone});
  if (!parts.time.text.empty()) picture.push_back(parts.time);
  if (!parts.causes.empty()) add_some(picture, parts.causes, std::max<std::size_t>(rows / 4, 2), "cause");
  picture.insert(picture.end(), parts.rounds.begin(), parts.rounds.end());
  add_some(picture, parts.nodes, std::max<std::size_t>(rows / 4, 2), "node");
  if (!parts.silent.text.empty()) picture.push_back(parts.silent);
  const std::size_t left = rows > picture.size() ? rows - picture.size() : 0;
  const bool no_room = left < 3 && parts.ranks.size() > left;
  if (no_room && left > 0) picture.push_back({"... " + counted(ranks_of(answer), "rank")});
  if (!no_room) add_some(picture, parts.ranks, left, "rank");
  picture.resize(std::min(picture.size(), rows));
  for (ScreenLine& line : picture) line.text = cut_to(line.text, columns);
  return picture;
}

std::string stacks_text(const JobAnswer& answer) {
  constexpr std::size_t kLinesMax = 400;
  std::vector<agent::RankPicture> pictures;
  for (const agent::NodeStatus& node : answer.nodes)
    for (const agent::WorkerStatus& worker : node.workers)
      for (const agent::ProcessPicture& process : worker.processes)
        pictures.push_back({worker.rank, &process});
  std::string text = silent_text(answer);
  if (!text.empty()) text += "\n";
  for (const std::string& line : agent::stack_lines(pictures, kLinesMax)) text += for_terminal(line) + "\n";
  constexpr std::size_t kNativeStacksMax = 64;
  for (const std::string& line : agent::native_lines(pictures, kNativeStacksMax)) text += line + "\n";
  if (pictures.empty()) text += "no worker runs that could be looked at\n";
  return text;
}

}  // namespace muster::launcher
