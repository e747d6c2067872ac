// SPDX-License-Identifier: Apache-2.0
// The validated job: made once from the command line, never changed, printable as JSON (--dry-run).
#pragma once

#include "agent/core/agent_spec.hpp"
#include "launcher/core/listen_place.hpp"
#include "launcher/core/node_plan.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace muster::launcher {

struct HandledSignal {
  int number = 0;
  /// Whether the user listed the signal (--signals-to-handle or PET_SIGNALS_TO_HANDLE): then it is handled
  /// even if it was ignored when we started. False for the default list, where an ignored signal stays
  /// ignored (nohup, background jobs).
  bool named = false;
  bool operator==(const HandledSignal&) const = default;
};

enum class StdinPolicy {
  inherit,      ///< workers read what we were given
  null_device,  ///< we are not the terminal's foreground group, or have no stdin at all
};

/// Everything about one `muster run` that is decided before the first process starts. One home for each fact:
/// what an agent needs is in `agent`, which already holds the whole truth (worker count, command, environment
/// with the OMP rule, store address, log directory, timeouts); the rest is the launcher's own.
struct JobSpec {
  /// The job as this node's agent needs it; in a job of several hosts what all nodes have in common
  /// (spec_for() adds a node's own part).
  agent::AgentSpec agent;
  StartForm form = StartForm::local;
  /// The nodes of a job whose form is ssh or slurm; empty otherwise.
  std::vector<NodePlan> nodes;
  RemoteOptions remote;
  /// Options of the form peer, and used there only.
  PeerOptions peer;
  /// --gather-logs: the log files of all nodes are brought here at the end. Empty: they stay.
  std::string gather_logs;
  /// "c10d" or "static", after the rules of torchrun 2.14 (a plain single-node job becomes c10d on a free
  /// port).
  std::string rdzv_backend = "c10d";
  /// --rdzv-endpoint as given; empty when the job needs none. A job of one node has checked that it is on
  /// this machine, and does not listen there.
  std::string rdzv_endpoint;
  bool standalone = false;
  /// Signals that the launcher catches and passes on as one orderly stop. Ascending numbers, no duplicates.
  std::vector<HandledSignal> signals;
  /// --forward-signals: signals that are passed on to the workers that handle them, while the job goes on.
  /// Ascending numbers, none of `signals`.
  std::vector<int> forwarded_signals;
  /// --timeout: time after which the job is ended and the exit code is 124. Zero: none.
  std::chrono::milliseconds deadline{0};
  StdinPolicy stdin_policy = StdinPolicy::inherit;
  /// --allow-singletons: it is known that workers that use MPI are each alone in its world.
  bool allow_singletons = false;
  /// --name, by which people find the job; several jobs may have the same one. Empty: none.
  std::string name;
  /// The id of a detached job, by which people find it, and the folder of its console. Empty: it is not
  /// detached, and the launcher draws its id.
  std::string id;
  std::string console;
  /// A pidfd of the process that keeps it, borrowed; -1: there is none.
  int console_process = -1;
  /// The program, script or module, as given.
  std::string program;
  /// What stood behind `muster run`, program included, without the values of variables that look like
  /// secrets.
  std::vector<std::string> arguments;
  /// The version of this muster.
  std::string version;
  /// --report: where the exit report goes as JSON. Empty: nowhere.
  std::string report_file;
  /// --event-file: where the events of the job go, a line of JSON each. Empty: nowhere.
  std::string event_file;
  /// --metrics-listen and --metrics-textfile: where its metrics are served and written.
  ListenPlace metrics_listen;
  std::string metrics_textfile;
  /// The launcher's own TORCHELASTIC_ERROR_FILE: the root cause's error file is copied there. Empty: nowhere.
  std::string error_file_copy;
};

}  // namespace muster::launcher
