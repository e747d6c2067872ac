// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/resolve_rendezvous.hpp"

#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/hosts/host_pattern.hpp"
#include "launcher/job_spec/resolve_hosts.hpp"
#include "launcher/job_spec/resolve_peer.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/log/terminal_text.hpp"
#include "rendezvous/protocol/limits.hpp"

namespace muster::launcher {
namespace {

constexpr int kStaticPort = 29500;
constexpr const char* kOneNode = "; this job has one node";

std::string local_or_refuse(const System& system, const GivenText& given, const std::string& host) {
  if (const auto address = system.local_address(host)) return *address;
  throw UsageError(given.quoted() + ": '" + host + "' is not an address of this machine" + kOneNode +
                   ", so give one of its own addresses or leave the flag out");
}

std::string named_host(const GivenText& given) {
  const std::string host = bare_host(given);
  if (host.empty()) throw UsageError(given.source + " is empty; give a local address or leave it out");
  return host;
}

void check_one_node(const CliOptions& options) {
  const auto& nodes = options.nnodes;
  if (nodes.value.min > 1)
    throw UsageError(
        nodes.given->quoted() + " needs more than one node; run the same command with " +
        "--rdzv-backend c10d --rdzv-endpoint HOST:PORT on every host, or start all of them from here "
        "with -H");
  if (options.node_rank.value > 0)
    throw UsageError(options.node_rank.given->quoted() + " is a rank of a second node" + kOneNode +
                     ", so give --nnodes too");
}

void check_backend(const Setting<std::string>& backend) {
  const std::string& name = backend.value;
  if (name == "static" || name == "c10d") return;
  const std::string quoted = backend.given->quoted();
  if (name == "etcd" || name == "etcd-v2")
    throw UsageError(quoted + " is not available in this version; use c10d or static");
  throw UsageError(quoted + " is not a rendezvous backend that muster knows; use c10d or static");
}

/// Lets the store listen on a free port, at an address that the user has named, else on loopback.
void place_on_free_port(const CliOptions& options, const System& system, rendezvous::StoreSpec& store) {
  for (const auto* address : {&options.master_addr, &options.local_addr}) {
    if (!address->given) continue;
    store.host = local_or_refuse(system, *address->given, named_host(*address->given));
    return;
  }
}

void resolve_static(const CliOptions& options, const System& system, JobSpec& spec) {
  if (spec.agent.limits.elastic())
    throw UsageError(options.nnodes.given->quoted() +
                     " is elastic, which the static rendezvous is not; give " +
                     "--rdzv-backend c10d or a single number of nodes");
  spec.rdzv_backend = "static";
  spec.agent.store.port = options.master_port.given ? options.master_port.value : kStaticPort;
  if (options.rdzv_endpoint.value.empty()) {
    place_on_free_port(options, system, spec.agent.store);
    return;
  }
  const GivenText& given = *options.rdzv_endpoint.given;
  const Endpoint endpoint = parse_endpoint(given);
  spec.agent.store.host = local_or_refuse(system, given, endpoint.host);
  if (endpoint.port) spec.agent.store.port = *endpoint.port;
}

void resolve_c10d(const CliOptions& options, const System& system, ResolvedJob& job) {
  job.spec.rdzv_backend = "c10d";
  if (!options.rdzv_endpoint.value.empty()) {
    const GivenText& given = *options.rdzv_endpoint.given;
    local_or_refuse(system, given, parse_endpoint(given).host);
  }
  place_on_free_port(options, system, job.spec.agent.store);
  if (options.master_port.given)
    job.notices.push_back(
        options.master_port.given->quoted() +
        " has no effect with the c10d rendezvous, which picks a free port; use --rdzv-backend static");
  if (meets_at_free_port(options) && options.nnodes.value.max > 1) {
    job.spec.agent.limits.max_nodes = 1;
    job.notices.push_back("the job has this node only: no other one can know the port of " +
                          options.rdzv_endpoint.given->quoted() + "; give a port from 1 to 65535 for more");
  }
}

/// Whether the rendezvous is static. torchrun turns the default static rendezvous of a single node into c10d
/// on a free port. A user who says "static" or gives a node rank keeps the fixed port.
bool is_static(const CliOptions& options) {
  if (options.rdzv_backend.value != "static") return false;
  if (options.rdzv_backend.given || options.master_port.given) return true;
  if (options.nnodes.value.max > 1) return false;
  return options.node_rank.given || !options.rdzv_endpoint.value.empty();
}

void check_id(const CliOptions& options, const std::string& run_id) {
  if (run_id.size() > rendezvous::kMaxNameBytes)
    throw UsageError(options.rdzv_id.given->source + " has " + std::to_string(run_id.size()) +
                     " bytes; give a name of at most " + std::to_string(rendezvous::kMaxNameBytes));
  for (std::string_view rest = run_id; !rest.empty();) {
    const Utf8Front front = utf8_front(rest);
    const auto byte = static_cast<unsigned char>(rest[0]);
    const bool upper_control = byte == 0xc2 && front.length == 2 && byte_at(rest, 1) < 0xa0;
    if (front.kind != Utf8Front::Kind::good || byte < 0x20 || byte == 0x7f || upper_control)
      throw UsageError(options.rdzv_id.given->quoted() +
                       " holds a control character or is no UTF-8 text; give a printable name");
    rest.remove_prefix(front.length);
  }
}

void say_ignored_keys(const CliOptions& options, ResolvedJob& job) {
  const auto& keys = options.rdzv_conf.value.without_effect;
  if (!keys.empty())
    job.details.push_back(options.rdzv_conf.given->source + ": " + joined(keys) +
                          (keys.size() > 1 ? " have" : " has") +
                          " no effect here, where agents keep a connection and poll no store");
}

void resolve_one_node(const CliOptions& options, const System& system, ResolvedJob& job) {
  JobSpec& spec = job.spec;
  check_one_node(options);
  spec.agent.limits.min_nodes = options.nnodes.value.min;
  spec.agent.limits.max_nodes = options.nnodes.value.max;
  if (spec.standalone) {
    spec.agent.run_id = system.new_job_id();
    return;
  }
  check_backend(options.rdzv_backend);
  spec.rdzv_endpoint = options.rdzv_endpoint.value;
  if (is_static(options))
    resolve_static(options, system, spec);
  else
    resolve_c10d(options, system, job);
  const bool implied =
      !options.rdzv_backend.given && spec.rdzv_backend == "c10d" && spec.rdzv_endpoint.empty();
  spec.agent.run_id = options.rdzv_id.value;
  if (implied && !options.rdzv_id.given) spec.agent.run_id = system.new_job_id();
}

constexpr const char* kNodeList = "SLURM_STEP_NODELIST";

/// Checks --nnodes, which may say less than Slurm, but nothing else.
void resolve_node_count(const CliOptions& options, const SlurmPlace& step, JobSpec& spec) {
  rendezvous::JobLimits& limits = spec.agent.limits;
  limits.min_nodes = limits.max_nodes = step.nodes;
  if (!options.nnodes.given) return;
  const NodeRange wanted = options.nnodes.value;
  if (step.nodes < wanted.min || step.nodes > wanted.max)
    throw UsageError(options.nnodes.given->quoted() + ", but step " + step.job_id + "." + step.step_id +
                     " has " + std::to_string(step.nodes) + " nodes (" + kNodeList + "=" + step.node_list +
                     "); let both say the same, or leave --nnodes out");
  limits.min_nodes = wanted.min;
}

/// Makes the tasks of a step, one on each node, the peers of a job: they meet on the first node, at a port
/// made of job and step, in the order of the step's nodes. Fills spec.peer and spec.agent.node. Throws
/// UsageError.
void resolve_step(const CliOptions& options, const SlurmPlace& step, JobSpec& spec) {
  check_one_task_per_node(step);
  resolve_node_count(options, step, spec);
  spec.rdzv_backend = "c10d";
  begin_peer(options, spec);
  if (!options.rdzv_id.given) spec.agent.run_id = step_run_id(step);
  const std::vector<std::string> names = expand_node_list({step.node_list, kNodeList});
  spec.peer.endpoint_given = std::string(kNodeList) + "=" + step.node_list;
  agent::NodeSpec& node = spec.agent.node;
  node.coordinator_host = names.front();
  node.coordinator_port = step_port(step.job_id, step.step_id);
  node.coordinator = step.node_index == 0;
  node.node_rank = spec.agent.limits.elastic() ? -1 : step.node_index;
}

void resolve_one_of_many(const CliOptions& options, const System& system, ResolvedJob& job) {
  JobSpec& spec = job.spec;
  check_backend(options.rdzv_backend);
  spec.agent.limits.min_nodes = options.nnodes.value.min;
  spec.agent.limits.max_nodes = options.nnodes.value.max;
  spec.rdzv_endpoint = options.rdzv_endpoint.value;
  spec.agent.run_id = options.rdzv_id.value;
  if (is_peer_form(options))
    resolve_peer(options, system, job);
  else
    resolve_step(options, slurm_place_of(system), spec);
}

/// Refuses flags for the form that somebody starts on every host, which have no meaning where we start all.
void refuse_peer_flags(const CliOptions& options, const JobSpec& spec) {
  const auto refuse = [&](const std::optional<GivenText>& given, const std::string& advice) {
    if (given)
      throw UsageError(given->quoted() + " is for the same command on every host, but here " +
                       (spec.form == StartForm::slurm ? "srun" : "ssh") + " starts all nodes; " + advice);
  };
  if (options.standalone.value) refuse(options.standalone.given, "leave it out, or the hosts");
  refuse(options.node_rank.given, "leave it out: the order of the hosts is that of the ranks");
  refuse(options.rdzv_endpoint.given, "leave it out (--master-port fixes a port, --interface the network)");
  refuse(options.secret_file.given, "leave it out: each such job draws a key of its own");
  refuse(options.insecure_no_secret.given, "leave it out: no key has to be set up");
  if (options.master_addr.given && options.local_addr.given &&
      options.master_addr.value != options.local_addr.value)
    throw UsageError(options.master_addr.given->quoted() + " and " + options.local_addr.given->quoted() +
                     " both name the address of the first host; give one of them");
}

void resolve_all_nodes(const CliOptions& options, const System& system, JobSpec& spec) {
  refuse_peer_flags(options, spec);
  check_backend(options.rdzv_backend);
  spec.agent.run_id = options.rdzv_id.given ? options.rdzv_id.value : system.new_job_id();
  agent::NodeSpec& node = spec.agent.node;
  node.interface_name = options.interface_name.value;
  spec.agent.limits.store_proxy = options.store_proxy.value;
  for (const auto* address : {&options.master_addr, &options.local_addr})
    if (address->given) node.local_addr = named_host(*address->given);
  agent::StartedNode started;
  if (options.master_port.given) started.listen_port = options.master_port.value;
  node.form = std::move(started);
}

}  // namespace

void resolve_rendezvous(const CliOptions& options, const System& system, ResolvedJob& job) {
  JobSpec& spec = job.spec;
  spec.agent.store.same_user_only = options.store_admission.value;
  spec.standalone = options.standalone.value;
  if (!spec.nodes.empty())
    resolve_all_nodes(options, system, spec);
  else if (spec.form == StartForm::peer)
    resolve_one_of_many(options, system, job);
  else
    resolve_one_node(options, system, job);
  check_id(options, spec.agent.run_id);
  say_ignored_keys(options, job);
}

}  // namespace muster::launcher
