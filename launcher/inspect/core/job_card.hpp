// SPDX-License-Identifier: Apache-2.0
// What a running job leaves for other shells to find: who it is, and which process is its launcher. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::launcher {

struct JobCard {
  /// The name of the job's folder, unique among the jobs of its user on this host: "train-7f3a9c".
  std::string id;
  /// --name, which several jobs may share; empty: none.
  std::string name;
  /// --rdzv-id, which several jobs may share.
  std::string run_id;
  /// The program, script or module as given, and what stood behind `muster run` (without secrets).
  std::string program;
  std::vector<std::string> arguments;
  /// Of the muster that runs the job.
  std::string version;
  std::string host;
  /// The launcher, with the start time, boot and pid namespace that tell whether a process of this number is
  /// still the same one.
  int pid = 0;
  std::uint64_t start_time = 0;
  std::string boot;
  std::uint64_t pid_namespace = 0;
  /// Milliseconds since 1970.
  std::int64_t started_at_ms = 0;
  /// Number of nodes of this launcher, and of their workers (0: each node counts its own).
  int nodes = 1;
  int workers = 0;
  /// The folder of the console of a detached job; empty: it is not detached.
  std::string console;
  /// The log directory of a job of which streams go to files there; empty: none do.
  std::string logs;
};

/// Most bytes of a card.
inline constexpr std::size_t kCardBytesMax = std::size_t{1} << 20;

/// Write a card as JSON text of at most kCardBytesMax bytes, for which arguments at the end may be left out,
/// and read it. Reading throws std::invalid_argument.
std::string to_json(const JobCard& card);
JobCard job_card_from_json(const std::string& text);

/// Returns an id for a job that runs `program`: letters, digits, '-', '_' and '.' of its file name without
/// its ending, and a part of `random`.
std::string job_id(const std::string& program, std::uint64_t random);

/// How well a text names a job, the best last: not at all, by the beginning of its id or --name, by its
/// --rdzv-id, by its --name, by its id.
enum class NamedBy { nothing, beginning, run_id, name, id };
NamedBy named_by(const JobCard& card, const std::string& text);

/// What the kernel says here: its present boot, our pid namespace, and the start time of the process that has
/// the launcher's number (0: there is none, or it is a zombie).
struct LauncherLook {
  std::string boot;
  std::uint64_t pid_namespace = 0;
  std::uint64_t start_time = 0;
};

/// Whether the launcher of a card lives, or, `unknown`, is in another pid namespace than ours (a container
/// that shares our /tmp).
enum class LauncherLife { gone, there, unknown };
LauncherLife launcher_life(const JobCard& card, const LauncherLook& look);

}  // namespace muster::launcher
