// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/resolve_peer.hpp"

#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/random.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <cstdio>

namespace muster::launcher {
namespace {

constexpr int kC10dPort = 29400;
constexpr std::chrono::milliseconds kStaticTimeout = std::chrono::seconds(900);

/// The endpoint where the nodes meet, and the flag that says so.
struct Meeting {
  std::string host;
  int port = 0;
  GivenText given;
};

void check_meeting(const Meeting& meeting) {
  if (meeting.host.empty() || meeting.host == "0.0.0.0" || meeting.host == "::")
    throw UsageError(meeting.given.quoted() +
                     " is no address that other nodes can reach; name the host that all nodes meet at");
  if (meeting.port == 0)
    throw UsageError(meeting.given.quoted() +
                     ": a free port of this host is one that no other host knows, but the nodes of a job " +
                     "must know the port where they meet; give one from 1 to 65535, or --nnodes 1");
}

Meeting static_meeting(const CliOptions& options) {
  if (!options.rdzv_endpoint.value.empty()) {
    const GivenText& given = *options.rdzv_endpoint.given;
    const Endpoint endpoint = parse_endpoint(given);
    if (!endpoint.port)
      throw UsageError(given.quoted() +
                       " has no port, and the static rendezvous has no default for one; give " + given.text +
                       ":29500, the same on every host");
    return {endpoint.host, *endpoint.port, given};
  }
  const auto& address = options.master_addr;
  const GivenText given = address.given.value_or(GivenText{address.value, "--master-addr"});
  Meeting meeting{bare_host(given), options.master_port.value, given};
  if (options.master_port.given && meeting.port == 0) meeting.given = *options.master_port.given;
  return meeting;
}

Meeting c10d_meeting(const CliOptions& options, ResolvedJob& job) {
  if (options.rdzv_endpoint.value.empty()) {
    job.notices.push_back("without --rdzv-endpoint the nodes meet on this machine only (localhost:" +
                          std::to_string(kC10dPort) + "); give --rdzv-endpoint HOST:PORT for several hosts");
    return {"localhost", kC10dPort, {"localhost", "--rdzv-endpoint"}};
  }
  const GivenText& given = *options.rdzv_endpoint.given;
  const Endpoint endpoint = parse_endpoint(given);
  return {endpoint.host, endpoint.port.value_or(kC10dPort), given};
}

void say_what_has_no_effect(const CliOptions& options, ResolvedJob& job) {
  for (const auto* given : {&options.node_rank.given, &options.master_addr.given, &options.master_port.given})
    if (*given)
      job.notices.push_back((*given)->quoted() +
                            " has no effect with the c10d rendezvous; use --rdzv-backend static");
}

void resolve_static(const CliOptions& options, const System& system, ResolvedJob& job,
                    const Meeting& meeting) {
  JobSpec& spec = job.spec;
  if (spec.agent.limits.elastic())
    throw UsageError(options.nnodes.given->quoted() +
                     " is elastic, which the static rendezvous is not; give " +
                     "--rdzv-backend c10d or a single number of nodes");
  const int rank = options.node_rank.value;
  if (rank >= spec.agent.limits.max_nodes)
    throw UsageError(options.node_rank.given->quoted() + " is no place among " +
                     std::to_string(spec.agent.limits.max_nodes) + " nodes (" +
                     options.nnodes.given->quoted() + "); ranks of nodes begin at 0");
  const bool elsewhere = rank == 0 && !system.local_address(meeting.host);
  if (elsewhere && !options.node_rank.given)
    throw UsageError(
        meeting.given.quoted() + ": '" + meeting.host +
        "' is not an address of this machine, but without --node-rank this node has rank 0 and hosts "
        "the rendezvous; give --node-rank 1, 2, ... on the other hosts");
  if (elsewhere)
    job.notices.push_back(options.node_rank.given->quoted() + " makes this host (" + spec.agent.host +
                          ") the one where all nodes meet, but " + meeting.given.quoted() +
                          " is not an address of it; if '" + meeting.host +
                          "' has --node-rank 0 as well, both wait for the others in vain: give each host its "
                          "own --node-rank");
  spec.agent.node.node_rank = rank;
  spec.agent.node.coordinator = rank == 0;
  const RdzvConf& conf = options.rdzv_conf.value;
  const auto timeout = conf.timeout ? parse_seconds(*conf.timeout, true) : kStaticTimeout;
  if (!conf.join_timeout) spec.agent.limits.join_timeout = timeout;
}

void resolve_c10d(const CliOptions& options, const System& system, ResolvedJob& job, const Meeting& meeting) {
  say_what_has_no_effect(options, job);
  agent::NodeSpec& node = job.spec.agent.node;
  const auto& is_host = options.rdzv_conf.value.is_host;
  node.coordinator = is_host.value_or(system.local_address(meeting.host).has_value());
  std::get<agent::PeerNode>(node.form).hosting_inferred = !is_host && node.coordinator;
}

bool is_loopback(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24U == 127;
  return host == "localhost" ||
         (::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six));
}

/// Refuses --insecure-no-secret beyond this machine: whoever reaches such a job runs code as this user.
void check_without_secret(const CliOptions& options, const Meeting& meeting) {
  const std::string advice =
      "; without a key nodes meet on one machine only: give --rdzv-endpoint localhost:" +
      std::to_string(meeting.port) +
      ", or leave the flag out and copy ~/.config/muster/key (or the file of "
      "--secret-file) to every host";
  if (!is_loopback(meeting.host))
    throw UsageError(meeting.given.quoted() +
                     " is not a loopback address, and --insecure-no-secret is given" + advice);
  if (options.interface_name.given)
    throw UsageError(options.interface_name.given->quoted() + " and --insecure-no-secret are given" + advice);
}

/// Returns digits that make a node's name unique: several nodes of one job may run on one host (torchrun
/// allows it), even in containers that have the same host name and process number.
std::string random_digits() {
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(random_number()));
  return digits;
}

}  // namespace

bool meets_at_free_port(const CliOptions& options) {
  return options.nnodes.value.min == 1 && options.rdzv_backend.value == "c10d" &&
         !options.rdzv_endpoint.value.empty() && parse_endpoint(*options.rdzv_endpoint.given).port == 0;
}

bool is_peer_form(const CliOptions& options) {
  if (options.standalone.value || options.nnodes.value.max < 2 || meets_at_free_port(options)) return false;
  if (options.host.given || options.hostfile.given) return false;
  return !options.rdzv_endpoint.value.empty() || options.rdzv_backend.given || options.node_rank.given ||
         options.master_addr.given || options.master_port.given;
}

void begin_peer(const CliOptions& options, JobSpec& spec) {
  spec.form = StartForm::peer;
  if (options.gather_logs.given)
    throw UsageError(
        options.gather_logs.given->quoted() +
        " brings log files to the host that starts all others, but here each host starts its own; "
        "leave it out: the logs are on their hosts, where --log-dir says");
  spec.agent.limits.store_proxy = options.store_proxy.value;
  agent::NodeSpec& node = spec.agent.node;
  agent::PeerNode peer;
  peer.settings = rendezvous::shared_flags(spec.agent.limits);
  peer.settings["--rdzv-backend"] = spec.rdzv_backend;
  node.form = std::move(peer);
  node.name = spec.agent.host + ":" + std::to_string(::getpid()) + "-" + random_digits();
  node.interface_name = options.interface_name.value;
  node.local_addr = options.local_addr.value;
  spec.peer.secret_file = options.secret_file.value;
  spec.peer.no_secret = options.insecure_no_secret.value;
  if (options.secret_file.given && spec.peer.no_secret)
    throw UsageError(options.secret_file.given->quoted() +
                     " and --insecure-no-secret contradict each other; leave one out");
}

void resolve_peer(const CliOptions& options, const System& system, ResolvedJob& job) {
  JobSpec& spec = job.spec;
  const bool is_static = options.rdzv_backend.value == "static";
  spec.rdzv_backend = is_static ? "static" : "c10d";
  begin_peer(options, spec);
  const Meeting meeting = is_static ? static_meeting(options) : c10d_meeting(options, job);
  check_meeting(meeting);
  if (job.spec.peer.no_secret) check_without_secret(options, meeting);
  agent::NodeSpec& node = spec.agent.node;
  node.coordinator_host = meeting.host;
  node.coordinator_port = meeting.port;
  spec.peer.endpoint_given = meeting.given.quoted();
  const RdzvConf& conf = options.rdzv_conf.value;
  std::get<agent::PeerNode>(node.form).waits_for_name =
      conf.join_timeout.has_value() || conf.timeout.has_value();
  if (is_static)
    resolve_static(options, system, job, meeting);
  else
    resolve_c10d(options, system, job, meeting);
}

}  // namespace muster::launcher
