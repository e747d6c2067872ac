// SPDX-License-Identifier: Apache-2.0
// Where the workers of a job run and how their agents are started: the part of the validated job that only a
// job of several hosts has.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace muster::launcher {

/// Who starts the agents.
enum class StartForm {
  local,  ///< this process, on this machine only: JobSpec::nodes is empty
  ssh,    ///< this process, on every host of JobSpec::nodes
  slurm,  ///< this process through srun, on the nodes of an allocation
  peer,   ///< somebody else: the same command runs on every host and this process starts the agent of its own
};

/// One node of a job that we start from one place. The order in JobSpec::nodes is that of node ranks; the
/// first is the coordinator.
struct NodePlan {
  /// The node's name in the job, unique: the host as the user wrote it ("n07"), with ":PORT" only where one
  /// host is listed with several SSH ports.
  std::string name;
  /// The user in "user@host"; empty: the SSH configuration decides.
  std::string user;
  /// What the SSH client is given after "--": the host without user and port, IPv6 addresses without
  /// brackets.
  std::string ssh_target;
  /// The SSH port; 0: the user's SSH configuration decides.
  int ssh_port = 0;
  /// Whether the node is this machine: then the agent is forked, and no SSH is needed.
  bool local = false;
  /// Number of workers that fit; 0: the user did not say.
  int slots = 0;
  /// Number of workers that run on this node. 0: as many as `workers_by` gives, counted on that host.
  int workers = 0;
  /// "gpu", "cpu" or "auto" (--nproc-per-node); empty when `workers` is known.
  std::string workers_by;
  /// Rank of the node's first worker; the ranks of a node are contiguous. -1 while the workers of an earlier
  /// node are not counted.
  int first_rank = 0;
  /// GPUs of local rank 0, 1, ... by index on that host (--include, --exclude); they become
  /// CUDA_VISIBLE_DEVICES there. Empty: the host's own setting.
  std::vector<int> gpus;
};

/// Time after which a host whose agent has not answered is given up, unless the user says otherwise.
inline constexpr std::chrono::milliseconds kLoginTimeout = std::chrono::seconds(10);

/// How the hosts of JobSpec::nodes are reached and what goes there with the job.
struct RemoteOptions {
  /// The client and its first arguments (--ssh-command).
  std::vector<std::string> ssh_command{"ssh"};
  /// The file for ssh -F; empty: the user's own.
  std::string ssh_config;
  /// The port for ssh -p, on hosts that were listed without one; 0: the user's SSH configuration decides.
  int ssh_port = 0;
  /// Whether a host that is not in known_hosts is added instead of refused (--ssh-accept-new).
  bool accept_new_host_keys = false;
  /// --login-timeout: time after which a host whose agent has not answered is given up.
  std::chrono::milliseconds login_timeout = kLoginTimeout;
  /// The executable on the other hosts; empty: our own path, then PATH.
  std::string remote_muster;
  /// What muster is told there: a command and its arguments.
  std::vector<std::string> remote_words{"agent"};
  /// Whether our executable is copied to hosts that have none.
  bool push = false;
  /// The directory in which workers start, absolute: --wdir or our own.
  std::string working_directory;
  /// Variables for every worker, with their present values: the defaults and --export.
  std::vector<std::pair<std::string, std::string>> environment;
};

/// What only the launcher needs of a job that somebody else started on every host (form peer).
struct PeerOptions {
  /// The flag that said where the nodes meet, quoted, for messages.
  std::string endpoint_given;
  /// --secret-file; empty: the key of the user, or munge under Slurm.
  std::string secret_file;
  /// --insecure-no-secret: whether anybody who reaches the port can join.
  bool no_secret = false;
};

}  // namespace muster::launcher
