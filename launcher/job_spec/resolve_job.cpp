// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/resolve_job.hpp"

#include "agent/core/exit_status.hpp"
#include "launcher/cli/flag_table.hpp"
#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/job_spec/log_directory.hpp"
#include "launcher/job_spec/mpi_program.hpp"
#include "launcher/job_spec/resolve_hosts.hpp"
#include "launcher/job_spec/resolve_program.hpp"
#include "launcher/job_spec/resolve_rendezvous.hpp"

#include <signal.h>

#include <algorithm>

namespace muster::launcher {
namespace {

/// Refuses the Python plug-ins that torchrun loads, but for those that it has built in.
void refuse_plugins(const CliOptions& options) {
  const auto refuse = [](const Setting<std::string>& plugin, const char* built_in, const char* instead) {
    if (plugin.given)
      throw UsageError(plugin.given->quoted() + " names a Python plug-in, which muster cannot load; give " +
                       built_in + ", which it has, and use " + instead);
  };
  if (options.logs_specs.value != "default")
    refuse(options.logs_specs, "default", "--log-dir, --redirects and --tee");
  if (options.event_log_handler.value != "null" && options.event_log_handler.value != "console")
    refuse(options.event_log_handler, "null or console", "--event-file FILE for a record of the job");
}

/// Checks that CUDA_VISIBLE_DEVICES has an entry for each worker, which --virtual-local-rank gives it.
void check_virtual_ranks(const CliOptions& options, const System& system, int workers) {
  auto visible = system.variable("CUDA_VISIBLE_DEVICES");
  if (options.gpus.given) visible = joined(options.gpus.value, ",");
  if (!options.virtual_local_rank.value || !visible) return;
  const std::size_t entries = visible->empty() ? 0 : split(*visible, ',').size();
  if (entries < static_cast<std::size_t>(workers))
    throw UsageError(options.virtual_local_rank.given->source + ": CUDA_VISIBLE_DEVICES=" + *visible +
                     " has " + std::to_string(entries) + " entries for " + std::to_string(workers) +
                     " workers; list more GPUs or start fewer workers");
}

/// Refuses a file that cannot be written.
void check_file(const Setting<std::string>& file, const System& system) {
  if (file.value.empty()) return;
  if (const std::string why = system.write_obstacle(file.value); !why.empty())
    throw UsageError(file.given->quoted() + " cannot be written (" + why +
                     "); give a file in a directory that can");
}

/// Whether one of the nodes has several workers, as far as we know.
bool several_workers(const JobSpec& spec) {
  return std::any_of(spec.nodes.begin(), spec.nodes.end(),
                     [](const NodePlan& node) { return node.workers != 1; }) ||
         spec.agent.workers > 1;
}

/// Applies torchrun's rule: without the variable, several workers get one OpenMP thread each.
void apply_omp_rule(const System& system, ResolvedJob& job) {
  const std::string name = "OMP_NUM_THREADS";
  Environment& exported = job.spec.agent.environment;
  const bool is_exported = std::any_of(exported.begin(), exported.end(),
                                       [&name](const auto& variable) { return variable.first == name; });
  if (!several_workers(job.spec) || system.variable(name) || is_exported) return;
  exported.emplace_back(name, "1");
  const int workers = job.spec.agent.workers;
  job.details.push_back(
      "OMP_NUM_THREADS=1 for each of " + (job.spec.nodes.empty() ? std::to_string(workers) : "the") +
      " workers, so that they do not crowd each other out; set the variable to choose another number");
}

/// Chooses the signals that are passed on as notices: what stops the job is none.
void resolve_notices(const CliOptions& options, const std::vector<int>& stops, JobSpec& spec) {
  const auto& given = options.forward_signals.given;
  for (const int number : given ? options.forward_signals.value : std::vector<int>{SIGUSR1, SIGUSR2}) {
    if (std::find(stops.begin(), stops.end(), number) == stops.end())
      spec.forwarded_signals.push_back(number);
    else if (given)
      throw UsageError(given->quoted() + ": " + agent::signal_name(number) +
                       " stops the job; leave it out, or give --signals-to-handle without it");
  }
}

void resolve_signals(const CliOptions& options, JobSpec& spec) {
  const bool named = options.signals_to_handle.given.has_value();
  std::vector<int> numbers = options.signals_to_handle.value;
  if (!named) numbers = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
  for (const int number : numbers) spec.signals.push_back({number, named});
  resolve_notices(options, numbers, spec);
  spec.agent.environment.emplace_back(
      "TORCHELASTIC_SIGNALS_TO_HANDLE",
      named ? options.signals_to_handle.given->text : std::string("SIGTERM,SIGINT,SIGHUP,SIGQUIT"));
}

/// Takes the limits that the flags say; what follows from hosts and rendezvous comes after.
void resolve_limits(const CliOptions& options, rendezvous::JobLimits& limits) {
  limits.max_restarts = options.max_restarts.value;
  limits.restart_rule = options.restart_policy.value;
  limits.hang_timeout = options.hang_timeout.value;
  limits.on_hang = options.on_hang.value;
  const RdzvConf& conf = options.rdzv_conf.value;
  limits.join_timeout = conf.join_timeout.value_or(limits.join_timeout);
  limits.last_call_timeout = conf.last_call_timeout.value_or(limits.last_call_timeout);
}

void resolve_times(const CliOptions& options, const System& system, JobSpec& spec) {
  spec.deadline = options.timeout.value;
  spec.agent.shutdown_timeout = options.shutdown_timeout.value;
  spec.agent.stop_groups = options.stop_target.value == "group";
  const std::string variable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  if (const auto text = system.variable(variable); text && !options.shutdown_timeout.given)
    spec.agent.shutdown_timeout = parse_seconds({*text, variable}, false);
  const std::string report_after = "MUSTER_REPORT_AFTER";
  if (const auto text = system.variable(report_after))
    spec.agent.report_after = parse_seconds({*text, report_after}, false);
}

/// Returns the workers of the node that has most of them; nothing if some are counted where they run, or the
/// hosts that get this command may differ.
std::optional<int> workers_of_a_node(const CliOptions& options, const JobSpec& spec) {
  const std::string& wanted = options.nproc_per_node.value;
  const bool counted = wanted.find_first_not_of("0123456789") != std::string::npos;
  if (spec.form == StartForm::peer && counted) return std::nullopt;
  if (spec.nodes.empty()) return spec.agent.workers;
  int most = 0;
  for (const NodePlan& node : spec.nodes) {
    if (node.workers == 0) return std::nullopt;
    most = std::max(most, node.workers);
  }
  return most;
}

/// Refuses a local rank that no node has: it would be ignored, and what was meant would not happen.
void check_local_ranks(const CliOptions& options, const JobSpec& spec) {
  const std::optional<int> workers = workers_of_a_node(options, spec);
  const auto check = [&workers](const std::optional<GivenText>& given, int rank) {
    if (!workers || rank < *workers) return;
    throw UsageError(given->quoted() + ": there is no local rank " + std::to_string(rank) +
                     "; a node has at most " + std::to_string(*workers) + " of them, from 0 to " +
                     std::to_string(*workers - 1));
  };
  for (const auto* streams : {&options.redirects, &options.tee})
    for (const auto& [rank, bits] : streams->value.by_rank) check(streams->given, rank);
  if (options.local_ranks_filter.value)
    for (const int rank : *options.local_ranks_filter.value) check(options.local_ranks_filter.given, rank);
}

/// Refuses what a job without a terminal cannot have.
void check_detached(const CliOptions& options) {
  if (options.detach.value && options.stdin_rank.given)
    throw UsageError(options.detach.given->source + " and " + options.stdin_rank.given->quoted() +
                     " contradict each other: a detached job has no stdin; let the program read a file");
}

void resolve_output(const CliOptions& options, const System& system, JobSpec& spec) {
  agent::OutputSpec& output = spec.agent.output;
  output.redirects = options.redirects.value;
  output.tee = options.tee.value;
  output.line_prefix_template = options.log_line_prefix_template.value;
  if (output.line_prefix_template.empty())
    output.line_prefix_template = system.variable("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("");
  output.log_max_bytes = options.log_max_size.value;
  output.console_ranks = options.local_ranks_filter.value;
  check_local_ranks(options, spec);
  check_detached(options);
  output.stdout_filters = options.duplicate_stdout_filters.value;
  output.stderr_filters = options.duplicate_stderr_filters.value;
  output.raw_output = options.raw_output.value;
  output.framed = options.detach.value;
  output.rank_prefix = spec.nodes.size() > 1;
  spec.gather_logs = options.gather_logs.value;
  output.gather_logs = !spec.gather_logs.empty();
  const LogDirectory directory =
      plan_log_directory(options.log_dir.value, system.variable("TMPDIR").value_or(""), spec.agent.run_id);
  output.log_dir = directory.path;
  output.log_dir_is_temporary = directory.temporary;
  if (output.log_dir.empty() && (output.redirects.any() || output.tee.any()))
    throw UsageError(options.log_dir.given->quoted() +
                     " means no log files, but --redirects or --tee asks for some; give a directory");
  spec.report_file = options.report.value;
  spec.name = options.name.value;
  check_file(options.report, system);
  spec.event_file = options.event_file.value;
  check_file(options.event_file, system);
  spec.metrics_textfile = options.metrics_textfile.value;
  check_file(options.metrics_textfile, system);
  spec.metrics_listen = options.metrics_listen.value;
  // Metrics count the workers that were ended for want of memory.
  spec.agent.tell_worker_ends =
      !spec.event_file.empty() || !spec.metrics_textfile.empty() || spec.metrics_listen.given();
  spec.error_file_copy = system.variable("TORCHELASTIC_ERROR_FILE").value_or("");
}

void resolve_binding(const CliOptions& options, JobSpec& spec) {
  if (options.bind_to.given && options.bind_to.value != "none" && options.numa_binding.given)
    throw UsageError(options.bind_to.given->quoted() + " and " + options.numa_binding.given->quoted() +
                     " contradict each other; give one of them");
  spec.agent.bind_to = options.bind_to.value;
  spec.agent.numa_binding = options.numa_binding.value;
}

/// Says which variables were probably meant for us, and are not.
void note_unread_variables(const System& system, std::vector<std::string>& notices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : system.environment()) names.push_back(name);
  for (std::string& note : unread_variables(names)) notices.push_back(std::move(note));
}

/// Whether this machine is one of the job's hosts.
bool runs_here(const JobSpec& spec) {
  return spec.nodes.empty() ||
         std::any_of(spec.nodes.begin(), spec.nodes.end(), [](const NodePlan& node) { return node.local; });
}

/// Refuses a program that would find its peers by MPI: as nobody serves that here, each worker would be rank
/// 0 of a world of its own, and its results wrong without a word.
void check_mpi(const CliOptions& options, const System& system, const JobSpec& spec,
               const ProgramCommand& program) {
  const bool alone = options.nnodes.value.max == 1 && spec.nodes.size() < 2 && !several_workers(spec);
  if (alone || options.allow_singletons.value || program.file.empty()) return;
  const std::string library = mpi_library(system.needed_libraries(program.file));
  if (library.empty()) return;
  throw UsageError("'" + options.program.front() + "' is an MPI program (it needs " + library +
                   "), which muster run cannot connect: each worker would be rank 0 of 1; start it with "
                   "mpirun, or give --allow-singletons if each shall work alone");
}

}  // namespace

ResolvedJob resolve_job(const CliOptions& options, const System& system) {
  refuse_plugins(options);
  ResolvedJob job;
  JobSpec& spec = job.spec;
  spec.agent.host = system.host_name();
  spec.agent.role = options.role.value;
  spec.agent.virtual_local_rank = options.virtual_local_rank.value;
  resolve_limits(options, spec.agent.limits);
  resolve_hosts(options, system, job);
  resolve_rendezvous(options, system, job);
  resolve_times(options, system, spec);
  resolve_output(options, system, spec);
  const bool has_files = options.redirects.value.any() || options.tee.value.any();
  for (const auto& [given, verb] :
       {std::pair(options.gather_logs.given, "gather"), std::pair(options.log_max_size.given, "bound")})
    if (given && !has_files)
      job.notices.push_back(given->source + " has nothing to " + verb +
                            ": no log files are written; give --tee or --redirects, too");
  if (!options.misplaced.empty()) job.notices.push_back(options.misplaced);
  note_unread_variables(system, job.notices);
  resolve_signals(options, spec);
  resolve_worker_environment(options, system, job);
  if (spec.nodes.empty()) check_virtual_ranks(options, system, spec.agent.workers);
  resolve_binding(options, spec);
  apply_omp_rule(system, job);
  ProgramCommand program = resolve_program(options, system, spec.agent.working_directory, runs_here(spec));
  check_mpi(options, system, spec, program);
  spec.allow_singletons = options.allow_singletons.value;
  spec.agent.command = std::move(program.command);
  spec.agent.first_script_argument = program.first_script_argument;
  spec.stdin_policy = system.stdin_policy();
  return job;
}

}  // namespace muster::launcher
