// SPDX-License-Identifier: Apache-2.0
// Finds the rank and job of this process in the variables that a launcher left. Pure.
#pragma once

#include "rendezvous/base/host_port.hpp"
#include "worker_sdk/env/variable_reader.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace muster {

/// The launcher that told a process its rank.
enum class Launcher { bare, muster, torchrun, mpirun, slurm, explicit_ranks };

/// The name of a launcher, for messages: "mpirun".
std::string name_of(Launcher launcher);

/// The facts that the variables tell about this process. -1: the launcher does not tell.
struct Place {
  Launcher launcher = Launcher::bare;
  int rank = 0;
  int size = 1;
  int local_rank = -1;
  int local_size = -1;
  int node_rank = -1;
  int nodes = -1;
  int restart_count = 0;
  std::string run_id = "none";
  /// The address of the store; "" and 0 when no variable tells it.
  std::string store_host;
  int store_port = 0;
  /// Whether rank 0 is to serve the store at that address, since no launcher does.
  bool serves_store = false;
  /// A name that all ranks of this job and step derive alike, and no others on the host; "" if there is none.
  std::string step;
};

/// Finds the place. Sources in this order: `rank` and `size` if they are not -1, MUSTER_*, torchrun's
/// variables, Open MPI's, Slurm's inside a step of several tasks; else a world of one. A store address in
/// MUSTER_STORE takes precedence over all others. Throws Error (invalid_argument) that names the variable or
/// option that is missing or wrong.
Place find_place(const Lookup& lookup, int rank = -1, int size = -1);

/// Splits "host:port" or "[v6]:port". Throws Error (invalid_argument) that begins with `what`.
HostPort parse_endpoint(const std::string& what, const std::string& text);

/// The processors of its host that this thread may use: its mask (allowance.hpp), and after a blank the quota
/// of its control group with the name of that group, if the quota is less.
std::string processor_claim();

/// The number of processors for the process `own`, from the claims of all processes of one host: its own
/// processors, each divided by the number of processes that may run on it. So ranks that are bound to
/// different processors have them whole, and ranks that are not bound share. A quota is divided by the
/// processes that have the same one. At least 1.
int processor_share(std::span<const std::string> claims, std::size_t own);

}  // namespace muster
