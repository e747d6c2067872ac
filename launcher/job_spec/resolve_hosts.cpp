// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/resolve_hosts.hpp"

#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/hosts/host_list.hpp"
#include "launcher/hosts/host_pattern.hpp"
#include "launcher/hosts/placement.hpp"
#include "launcher/job_spec/resolve_peer.hpp"
#include "launcher/slurm/slurm_place.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <chrono>

namespace muster::launcher {
namespace {

constexpr int kMaxWorkersPerNode = 65536;
/// The login timeout under Slurm: srun asks the controller first, which serves others, too.
constexpr std::chrono::seconds kSlurmLoginTimeout{20};

GivenText given_or(const Setting<std::string>& setting, const std::string& flag) {
  return setting.given.value_or(GivenText{setting.value, flag});
}

UsageError contradiction(const GivenText& one, const GivenText& other, const std::string& advice) {
  return UsageError(one.quoted() + " and " + other.quoted() + " contradict each other; " + advice);
}

bool is_word(const std::string& text) {
  return text == "gpu" || text == "cpu" || text == "auto";
}

int number_of_workers(const GivenText& given) {
  if (given.text == "xpu")
    throw UsageError(given.quoted() + " is not available in this version; give a number");
  if (given.text.find_first_not_of("+-0123456789 ") != std::string::npos)
    throw UsageError(given.quoted() + " is not a number of workers; give a number, 'gpu', 'cpu' or 'auto'");
  return parse_whole_number(given, 1, kMaxWorkersPerNode);
}

/// Returns the workers that --nproc-per-node means on this machine.
int workers_here(const CliOptions& options, const System& system) {
  const GivenText given = given_or(options.nproc_per_node, "--nproc-per-node");
  const bool by_gpu = !options.nproc_per_node.given || given.text == "gpu" || given.text == "auto";
  if (options.gpus.given && by_gpu) return static_cast<int>(options.gpus.value.size());
  if (given.text == "cpu") return system.allowance().processors;
  if (given.text == "gpu" || given.text == "auto") {
    const GpuCount gpus = system.gpu_count();
    if (gpus.count > 0) return gpus.count;
    if (given.text == "auto") return system.allowance().processors;
    throw UsageError(given.quoted() + ": no GPU is visible: " + gpus.reason +
                     "; or give a number, 'cpu' or 'auto'");
  }
  return number_of_workers(given);
}

/// Returns the workers of this node, as on a node of torchrun: --nproc-per-node, or --np for a job of this
/// machine only.
int workers_of_this_node(const CliOptions& options, const System& system, StartForm form) {
  if (!options.np.given) return workers_here(options, system);
  if (form == StartForm::peer)
    throw UsageError(
        options.np.given->quoted() +
        " counts the workers of all hosts, which this command does not start; give --nproc-per-node");
  if (options.nproc_per_node.given && workers_here(options, system) != options.np.value)
    throw contradiction(*options.nproc_per_node.given, *options.np.given, "on one machine give one of them");
  return options.np.value;
}

/// Returns the workers on this node of a step when no flag says so: one for each of its GPUs, else one.
int workers_of_step(const SlurmPlace& step) {
  return step.gpus_per_node > 0 ? step.gpus_per_node : 1;
}

SlurmPlace slurm_place(const CliOptions& options, const System& system) {
  if (options.slurm.value == "off") return {};
  return slurm_place_of(system);
}

/// Whether flags of torchrun say how nodes meet, or that there is one only: then Slurm is not asked who they
/// are.
bool says_how_nodes_meet(const CliOptions& options) {
  const bool one_node = options.nnodes.given && options.nnodes.value.max == 1;
  return options.standalone.value || one_node || options.node_rank.given || options.rdzv_endpoint.given ||
         options.master_addr.given || options.master_port.given;
}

bool slurm_decides(const CliOptions& options, const SlurmPlace& place) {
  const bool wanted = options.slurm.value == "on";
  if (wanted && place.kind == SlurmPlace::Kind::none)
    throw UsageError(
        options.slurm.given->quoted() +
        ": this is no job of Slurm (SLURM_JOB_ID is not set); run it under salloc, sbatch or srun");
  if (place.kind == SlurmPlace::Kind::none) return false;
  return wanted || !says_how_nodes_meet(options);
}

/// Returns the nodes of an allocation, with as many workers as each has when no flag says so: its tasks if
/// the user asked for several on a node, else its GPUs.
std::vector<Host> slurm_hosts(const SlurmPlace& place) {
  const std::vector<std::string> names = expand_node_list({place.node_list, "SLURM_JOB_NODELIST"});
  const std::vector<int>& tasks = place.tasks_per_node;
  const bool by_task = place.tasks_given && tasks.size() == names.size() &&
                       std::any_of(tasks.begin(), tasks.end(), [](int n) { return n > 1; });
  std::vector<Host> hosts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Host host;
    host.name = names[i];
    host.place = "SLURM_JOB_NODELIST, node " + std::to_string(i + 1);
    host.slots = by_task ? tasks[i] : place.gpus_per_node;
    hosts.push_back(std::move(host));
  }
  return hosts;
}

/// Forgets Slurm's numbers if --nproc-per-node is given, which is a plain wish there: it may be fewer than
/// the tasks or GPUs, and it may be more.
void forget_slots_of_slurm(const CliOptions& options, std::vector<Host>& hosts) {
  if (!options.nproc_per_node.given) return;
  for (Host& host : hosts) host.slots = 0;
}

std::vector<Host> listed_hosts(const CliOptions& options, const System& system) {
  if (options.host.given && options.hostfile.given)
    throw contradiction(*options.host.given, *options.hostfile.given,
                        "give one of them (--include chooses hosts of a hostfile)");
  if (options.host.given) return parse_host_list(*options.host.given);
  const GivenText& given = *options.hostfile.given;
  std::string reason;
  const auto content = system.file_text(given.text, kMaxHostText, reason);
  if (!content) throw UsageError(given.quoted() + " cannot be read (" + reason + "); check the path");
  return parse_hostfile(*content, given.text);
}

std::vector<Host> filtered(const CliOptions& options, std::vector<Host> hosts) {
  if (options.include.given && options.exclude.given)
    throw contradiction(*options.include.given, *options.exclude.given, "give one of them");
  if (options.include.given) return include_hosts(hosts, *options.include.given);
  if (options.exclude.given) return exclude_hosts(hosts, *options.exclude.given);
  return hosts;
}

PlacementWishes wishes_of(const CliOptions& options) {
  PlacementWishes wishes;
  wishes.total_given = options.np.given;
  wishes.total = options.np.value;
  wishes.per_node_given = options.nproc_per_node.given;
  const GivenText per_node = given_or(options.nproc_per_node, "--nproc-per-node");
  if (is_word(per_node.text))
    wishes.per_node_word = per_node.text;
  else
    wishes.per_node = number_of_workers(per_node);
  wishes.oversubscribe = options.oversubscribe.value;
  wishes.map_by = options.map_by.value == "node" ? MapBy::node : MapBy::slot;
  return wishes;
}

/// Marks the node that is this machine, unless a port or another user was asked for: that is SSH, even to
/// this machine.
void mark_local(const System& system, std::vector<NodePlan>& nodes) {
  const NodePlan* before = nullptr;
  for (NodePlan& node : nodes) {
    if (node.ssh_port != 0 || (!node.user.empty() && node.user != system.user_name())) continue;
    if (!system.is_this_machine(node.ssh_target)) continue;
    node.local = true;
    if (before != nullptr)
      throw UsageError("hosts '" + before->name + "' and '" + node.name +
                       "' are both this machine; list it once, with all its slots");
    before = &node;
  }
}

/// Checks --nnodes beside a host list: torchrun's words must fit what is listed.
void check_node_count(const CliOptions& options, JobSpec& spec) {
  const int listed = static_cast<int>(spec.nodes.size());
  rendezvous::JobLimits& limits = spec.agent.limits;
  limits.min_nodes = limits.max_nodes = listed;
  if (!options.nnodes.given) return;
  const NodeRange wanted = options.nnodes.value;
  if (listed < wanted.min || listed > wanted.max)
    throw UsageError(options.nnodes.given->quoted() + ", but " + std::to_string(listed) +
                     (listed == 1 ? " host has" : " hosts have") +
                     " workers; list as many hosts as --nnodes says, or leave it out");
  limits.min_nodes = wanted.min;
}

/// Makes a job whose host list names this machine alone the same as a job without a list.
void make_local(JobSpec& spec) {
  const NodePlan node = spec.nodes.front();
  spec.form = StartForm::local;
  spec.nodes.clear();
  spec.agent.workers = node.workers;
  if (!node.gpus.empty()) spec.agent.environment.emplace_back("CUDA_VISIBLE_DEVICES", joined(node.gpus, ","));
}

void resolve_remote(const CliOptions& options, StartForm form, RemoteOptions& remote) {
  remote.ssh_command = options.ssh_command.value;
  remote.ssh_config = options.ssh_config.value;
  remote.ssh_port = options.ssh_port.value;
  remote.accept_new_host_keys = options.ssh_accept_new.value;
  remote.login_timeout = options.login_timeout.value;
  if (form == StartForm::slurm && !options.login_timeout.given) remote.login_timeout = kSlurmLoginTimeout;
  remote.remote_muster = options.remote_muster.value;
  remote.push = options.push.value;
}

/// Refuses to start without srun: each node would be said to lack muster.
void require_srun(const System& system, const JobSpec& spec) {
  const std::string path = system.variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (const std::string& directory : split(path, ':'))
    if (system.file_kind(directory + "/srun") == FileKind::executable) return;
  throw UsageError(
      "the " + std::to_string(spec.nodes.size()) + " nodes of Slurm's job " +
      system.variable("SLURM_JOB_ID").value_or("") +
      " are started by srun, which is not in PATH; load Slurm's programs, list the hosts with --host for "
      "SSH, or give --slurm off to use this host alone");
}

void resolve_started(const CliOptions& options, const System& system, const SlurmPlace* place,
                     JobSpec& spec) {
  std::vector<Host> hosts;
  if (options.host.given || options.hostfile.given) {
    hosts = listed_hosts(options, system);
  } else {
    hosts = slurm_hosts(*place);
    forget_slots_of_slurm(options, hosts);
  }
  spec.form = place != nullptr ? StartForm::slurm : StartForm::ssh;
  spec.nodes = place_workers(filtered(options, std::move(hosts)), wishes_of(options));
  mark_local(system, spec.nodes);
  check_node_count(options, spec);
  resolve_remote(options, spec.form, spec.remote);
  const bool elsewhere = spec.nodes.size() > 1 || !spec.nodes.front().local;
  if (elsewhere && spec.form == StartForm::slurm) require_srun(system, spec);
  if (elsewhere) return;
  const std::string word = spec.nodes.front().workers_by;
  make_local(spec);
  if (!word.empty()) spec.agent.workers = workers_here(options, system);
}

/// Shows the workers the GPUs that were named, which are those of one host.
void show_gpus(const CliOptions& options, bool listed, JobSpec& spec) {
  if (!options.gpus.given) return;
  if (listed || !spec.nodes.empty())
    throw UsageError(options.gpus.given->quoted() +
                     " names GPUs of one host; of listed hosts name them by --include HOST:0,2@HOST:1");
  spec.agent.environment.emplace_back("CUDA_VISIBLE_DEVICES", joined(options.gpus.value, ","));
}

/// Refuses flags that choose among hosts nobody listed.
void refuse_filters(const CliOptions& options) {
  for (const auto* filter : {&options.include, &options.exclude})
    if (filter->given)
      throw UsageError(filter->given->quoted() +
                       " chooses among listed hosts; give --host or --hostfile, too");
}

/// Notes flags about hosts where there are none: they are harmless, and perhaps a host list was forgotten.
void note_without_hosts(const CliOptions& options, ResolvedJob& job) {
  const auto note = [&job](const std::optional<GivenText>& given, const std::string& why) {
    if (given) job.notices.push_back(given->source + " has no effect: " + why);
  };
  const std::string no_hosts = "no hosts were listed with --host or --hostfile";
  for (const auto* given :
       {&options.remote_muster.given, &options.push.given, &options.ssh_command.given,
        &options.ssh_config.given, &options.ssh_port.given, &options.ssh_accept_new.given,
        &options.login_timeout.given, &options.map_by.given, &options.oversubscribe.given})
    note(*given, no_hosts);
  if (job.spec.form == StartForm::peer) return;
  for (const auto* given : {&options.interface_name.given, &options.store_proxy.given,
                            &options.secret_file.given, &options.insecure_no_secret.given})
    note(*given, "a job of one node needs no network");
}

int known_workers(const JobSpec& spec) {
  int total = 0;
  for (const NodePlan& node : spec.nodes) {
    if (node.workers == 0) return 0;
    total += node.workers;
  }
  return spec.nodes.empty() && spec.form == StartForm::local ? spec.agent.workers : total;
}

void find_hosts(const CliOptions& options, const System& system, ResolvedJob& job) {
  JobSpec& spec = job.spec;
  const bool listed = options.host.given || options.hostfile.given;
  if (listed) {
    // srun reaches listed hosts only if that is asked for: an allocation does not forbid SSH.
    const SlurmPlace place = options.slurm.value == "on" ? slurm_place(options, system) : SlurmPlace{};
    const bool by_srun = options.slurm.value == "on" && slurm_decides(options, place);
    resolve_started(options, system, by_srun ? &place : nullptr, spec);
    return;
  }
  const SlurmPlace place = slurm_place(options, system);
  const bool by_slurm = slurm_decides(options, place);
  if (by_slurm && place.kind == SlurmPlace::Kind::allocation) {
    resolve_started(options, system, &place, spec);
    return;
  }
  refuse_filters(options);
  if (by_slurm && place.kind == SlurmPlace::Kind::step && place.tasks() > 1) {
    spec.form = StartForm::peer;
    const bool said = options.nproc_per_node.given || options.np.given || options.gpus.given;
    spec.agent.workers = said ? workers_of_this_node(options, system, spec.form) : workers_of_step(place);
    return;
  }
  spec.form = is_peer_form(options) ? StartForm::peer : StartForm::local;
  note_without_hosts(options, job);
  spec.agent.workers = workers_of_this_node(options, system, spec.form);
}

}  // namespace

void resolve_hosts(const CliOptions& options, const System& system, ResolvedJob& job) {
  find_hosts(options, system, job);
  show_gpus(options, options.host.given || options.hostfile.given, job.spec);
}

void resolve_worker_environment(const CliOptions& options, const System& system, ResolvedJob& job) {
  JobSpec& spec = job.spec;
  const bool elsewhere = !spec.nodes.empty();
  std::string directory = options.wdir.value;
  const bool is_absolute = directory.starts_with('/');
  const std::string here = is_absolute ? "" : system.current_directory();
  if (!is_absolute && here.empty())
    throw UsageError(
        "the directory where muster run was started does not exist any more, so workers cannot start " +
        std::string("in it; change to one that does, or name one with --wdir /DIRECTORY"));
  if (!directory.empty() && !is_absolute) directory = here + "/" + directory;
  if (elsewhere && directory.empty()) directory = here;
  spec.agent.working_directory = directory;
  spec.remote.working_directory = directory;
  const bool here_too = !elsewhere || std::any_of(spec.nodes.begin(), spec.nodes.end(),
                                                  [](const NodePlan& node) { return node.local; });
  if (options.wdir.given && here_too && system.file_kind(directory) != FileKind::directory)
    throw UsageError(options.wdir.given->quoted() + " is not a directory on this machine; check the path");
  std::vector<ExportedName> names;
  for (const ExportItem& item : options.exported.value) {
    if (item.value)
      spec.agent.environment.emplace_back(item.name, *item.value);
    else
      names.push_back({item.name, item.is_prefix});
  }
  ExportedEnvironment exported = exported_environment(system.environment(), names);
  for (const std::string& name : exported.missing)
    job.notices.push_back("--export: no variable " + name + " is set here; nothing is exported for it");
  if (elsewhere) spec.remote.environment = std::move(exported.variables);
  const int workers = known_workers(spec);
  if (options.stdin_rank.given && workers > 0 && options.stdin_rank.value >= workers)
    throw UsageError(options.stdin_rank.given->quoted() + " is no rank of the job, which has " +
                     std::to_string(workers) + (workers == 1 ? " worker" : " workers") +
                     "; give a rank from 0 to " + std::to_string(workers - 1));
  if (options.stdin_rank.given && spec.form == StartForm::peer)
    throw UsageError(options.stdin_rank.given->quoted() +
                     " needs a job whose hosts are all started from here (--host, --hostfile); where muster "
                     "run is started on each node, redirect the input of the program itself");
  spec.agent.stdin_rank = options.stdin_rank.value;
}

SlurmPlace slurm_place_of(const System& system) {
  return read_slurm_place([&system](const std::string& name) { return system.variable(name); });
}

}  // namespace muster::launcher
