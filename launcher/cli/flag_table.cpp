// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/flag_table.hpp"

#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/nearest_name.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace muster::launcher {
namespace {

constexpr bool kPet = true;
constexpr bool kNoPet = false;
constexpr bool kOwn = true;
constexpr bool kTorchrun = false;
constexpr bool kList = true;
constexpr int kMaxRestarts = 1 << 30;
/// PID_MAX_LIMIT of Linux.
constexpr int kMaxPid = 1 << 22;
constexpr int kMaxRanks = 1 << 20;

constexpr std::string_view kVariables = "PET_";

constexpr std::string_view kPlacement = "Workers";
constexpr std::string_view kHosts = "Hosts (docs/hosts.md)";
constexpr std::string_view kThere = "What is started there";
constexpr std::string_view kProgram = "Program";
constexpr std::string_view kRendezvous = "Rendezvous";
constexpr std::string_view kRestart = "Failure and end";
constexpr std::string_view kOutput = "Output";
constexpr std::string_view kDebug = "Reports and help";
constexpr std::string_view kPlugins = "Torchrun flags that name Python plug-ins, which muster cannot load";

/// Stores the text as it is.
template <auto member>
void text(CliOptions& options, const GivenText& given) {
  options.*member = {given.text, given};
}

template <auto member>
void on(CliOptions& options, const GivenText& given) {
  options.*member = {parse_switch(given), given};
}

template <auto member, auto parse>
void parsed(CliOptions& options, const GivenText& given) {
  options.*member = {parse(given), given};
}

template <auto member, int low, int high>
void number(CliOptions& options, const GivenText& given) {
  options.*member = {parse_whole_number(given, low, high), given};
}

template <auto member, bool positive>
void seconds(CliOptions& options, const GivenText& given) {
  options.*member = {parse_seconds(given, positive), given};
}

void start_method(CliOptions& options, const GivenText& given) {
  options.start_method = {parse_choice(given, {"spawn", "fork", "forkserver"}), given};
}

void store_admission(CliOptions& options, const GivenText& given) {
  options.store_admission = {parse_choice(given, {"user", "off"}) == "user", given};
}

void stop_target(CliOptions& options, const GivenText& given) {
  options.stop_target = {parse_choice(given, {"process", "group"}), given};
}

void log_level(CliOptions& options, const GivenText& given) {
  options.log_level = {parse_choice(given, {"debug", "info", "warning", "error"}), given};
}

template <auto member>
void not_empty(CliOptions& options, const GivenText& given) {
  if (given.text.empty()) throw UsageError(given.source + " is empty; give a value or leave it out");
  options.*member = {given.text, given};
}

void map_by(CliOptions& options, const GivenText& given) {
  options.map_by = {parse_choice(given, {"slot", "node"}), given};
}

void bind_to(CliOptions& options, const GivenText& given) {
  options.bind_to = {parse_choice(given, {"none", "core", "numa", "socket"}), given};
}

void numa_binding(CliOptions& options, const GivenText& given) {
  options.numa_binding = {parse_choice(given, {"node", "socket", "exclusive", "core-complex"}), given};
}

void restart_policy(CliOptions& options, const GivenText& given) {
  const std::vector<std::string> names(rendezvous::kRestartRuleNames.begin(),
                                       rendezvous::kRestartRuleNames.end());
  options.restart_policy = {*rendezvous::restart_rule(parse_choice(given, names)), given};
}

void on_hang(CliOptions& options, const GivenText& given) {
  const std::vector<std::string> names(rendezvous::kHangActionNames.begin(),
                                       rendezvous::kHangActionNames.end());
  options.on_hang = {*rendezvous::hang_action(parse_choice(given, names)), given};
}

void slurm(CliOptions& options, const GivenText& given) {
  options.slurm = {parse_choice(given, {"auto", "on", "off"}), given};
}

using O = CliOptions;

constexpr auto kTable = std::to_array<Flag>({
    {"nnodes", 0, "N|MIN:MAX", kPlacement, kPet, kTorchrun,
     "Number of nodes, or least and most of an elastic job [1]", parsed<&O::nnodes, parse_node_range>},
    {"nproc-per-node", 0, "N|gpu|cpu|auto", kPlacement, kPet, kTorchrun,
     "Workers: a number, one per GPU, per CPU, or per GPU if any [1]", text<&O::nproc_per_node>},
    {"gpus", 0, "GPU,...", kPlacement, kNoPet, kOwn,
     "Only these, one worker each: 0,2, GPU-UUID, MIG-UUID [all]", parsed<&O::gpus, parse_gpus>},
    {"virtual-local-rank", 0, "", kPlacement, kPet, kTorchrun,
     "Each worker sees LOCAL_RANK=0 and its own GPU only", on<&O::virtual_local_rank>},

    {"bind-to", 0, "none|core|numa|socket", kPlacement, kNoPet, kOwn,
     "Each worker gets CPUs of its own, near its GPU if any [none]", bind_to},
    {"numa-binding", 0, "MODE", kPlacement, kNoPet, kTorchrun,
     "node, socket, exclusive or core-complex: CPUs near the GPU", numa_binding},

    {"host", 'H', "LIST", kHosts, kNoPet, kOwn,
     "HOST[:SLOTS],...; user@HOST:PORT, HOST:PORT:SLOTS, n[00-15]:8", text<&O::host>, kList},
    {"hostfile", 0, "FILE", kHosts, kNoPet, kOwn, "Hosts, one a line: n0 slots=8, or a line for each slot",
     text<&O::hostfile>},
    {"include", 0, "HOST[:GPU,...]@...", kHosts, kNoPet, kOwn, "Only these hosts and GPUs: n0@n1:0,2",
     text<&O::include>},
    {"exclude", 0, "HOST[:GPU,...]@...", kHosts, kNoPet, kOwn, "All but these hosts and GPUs",
     text<&O::exclude>},
    {"np", 'n', "TOTAL", kHosts, kNoPet, kOwn,
     "Workers of all hosts together; fills slots in order [all slots]", number<&O::np, 1, kMaxRanks>},
    {"oversubscribe", 0, "", kHosts, kNoPet, kOwn, "More workers than slots are meant",
     on<&O::oversubscribe>},
    {"map-by", 0, "slot|node", kHosts, kNoPet, kOwn,
     "With --np: fill a host before the next, or spread evenly [slot]", map_by},
    {"slurm", 0, "auto|on|off", kHosts, kNoPet, kOwn, "Hosts of the Slurm allocation we run in [auto]",
     slurm},

    {"wdir", 0, "DIR", kThere, kNoPet, kOwn, "Where workers start, on every host [this directory]",
     not_empty<&O::wdir>},
    {"export", 'x', "NAME[=VALUE],...", kThere, kNoPet, kOwn,
     "More variables for workers; NAME* for all that begin so", parsed<&O::exported, parse_exports>, kList},
    {"remote-muster", 0, "PATH", kThere, kNoPet, kOwn, "muster on the hosts [our own path, then PATH]",
     not_empty<&O::remote_muster>},
    {"push", 0, "", kThere, kNoPet, kOwn, "Copy muster to hosts that lack it", on<&O::push>},
    {"ssh-command", 0, "COMMAND", kThere, kNoPet, kOwn, "The SSH client and its first arguments [ssh]",
     parsed<&O::ssh_command, parse_words>},
    {"ssh-config", 0, "FILE", kThere, kNoPet, kOwn, "Its configuration file, as ssh -F",
     not_empty<&O::ssh_config>},
    {"ssh-port", 0, "PORT", kThere, kNoPet, kOwn, "For hosts listed without a port",
     number<&O::ssh_port, 1, 65535>},
    {"ssh-accept-new", 0, "", kThere, kNoPet, kOwn, "Trust hosts that known_hosts does not hold yet",
     on<&O::ssh_accept_new>},
    {"login-timeout", 0, "SECONDS", kThere, kNoPet, kOwn,
     "From the start of ssh to the agent's answer [10; srun: 20]", seconds<&O::login_timeout, true>},

    {"module", 'm', "", kProgram, kPet, kTorchrun, "PROGRAM is a Python module, as in python -m",
     on<&O::module>},
    {"no-python", 0, "", kProgram, kPet, kTorchrun, "Run PROGRAM directly, found through PATH",
     on<&O::no_python>},
    {"run-path", 0, "", kProgram, kPet, kTorchrun, "Run the script through runpy.run_path; beats --no-python",
     on<&O::run_path>},
    {"allow-singletons", 0, "", kProgram, kNoPet, kOwn,
     "Start an MPI program although each worker will be alone", on<&O::allow_singletons>},
    {"start-method", 0, "METHOD", kProgram, kPet, kTorchrun, "No effect: every worker is a new process",
     start_method},
    {"role", 0, "NAME", kProgram, kPet, kTorchrun,
     "ROLE_NAME of the workers, and their line prefix [default]", text<&O::role>},

    {"standalone", 0, "", kRendezvous, kPet, kTorchrun,
     "One machine, free port, random id; overrides the other rdzv flags", on<&O::standalone>},
    {"rdzv-backend", 0, "static|c10d", kRendezvous, kPet, kTorchrun,
     "static: the master address and port below; c10d: a free port", text<&O::rdzv_backend>},
    {"rdzv-endpoint", 0, "HOST[:PORT]", kRendezvous, kPet, kTorchrun,
     "HOST:PORT where nodes meet; on each host the same command", text<&O::rdzv_endpoint>},
    {"rdzv-id", 0, "ID", kRendezvous, kPet, kTorchrun,
     "Name of the job [none; random on one machine or with hosts]", text<&O::rdzv_id>},
    {"rdzv-conf", 0, "KEY=VALUE,...", kRendezvous, kPet, kTorchrun,
     "join_timeout [600], last_call_timeout [30], is_host ...", parsed<&O::rdzv_conf, parse_rdzv_conf>},
    {"node-rank", 0, "N", kRendezvous, kPet, kTorchrun, "Rank of this node under static [0]",
     number<&O::node_rank, 0, kMaxNodeRank>},
    {"master-addr", 0, "ADDRESS", kRendezvous, kPet, kTorchrun,
     "Address of node 0 under static, MASTER_ADDR [127.0.0.1]", text<&O::master_addr>},
    {"master-port", 0, "PORT", kRendezvous, kPet, kTorchrun,
     "Its port, MASTER_PORT [a free one; static: 29500]", number<&O::master_port, 0, 65535>},
    {"local-addr", 0, "ADDRESS", kRendezvous, kPet, kTorchrun,
     "Address of this node that the other nodes use", text<&O::local_addr>},
    {"interface", 0, "NAME", kRendezvous, kNoPet, kOwn,
     "Network interface of node 0 for the others [that of the route]", not_empty<&O::interface_name>},
    {"store-admission", 0, "user|off", kRendezvous, kNoPet, kOwn,
     "Who may use the workers' store: this user, or anybody [user]", store_admission},
    {"store-proxy", 0, "", kRendezvous, kNoPet, kOwn,
     "Workers use a store port on loopback, none is open to the network", on<&O::store_proxy>},
    {"secret-file", 0, "FILE", kRendezvous, kNoPet, kOwn,
     "Key of the job on every host [~/.config/muster/key]", not_empty<&O::secret_file>},
    {"insecure-no-secret", 0, "", kRendezvous, kNoPet, kOwn,
     "No key: whoever reaches the port can join; loopback only", on<&O::insecure_no_secret>},

    {"max-restarts", 0, "N", kRestart, kPet, kTorchrun,
     "How often all workers are started again after a failure [0]",
     number<&O::max_restarts, 0, kMaxRestarts>},
    {"restart-policy", 0, "NAME", kRestart, kPet, kOwn,
     "backoff (0, 1, 2 ... 30 s); progress; torchrun: at once [backoff]", restart_policy},
    {"shutdown-timeout", 0, "SECONDS", kRestart, kPet, kTorchrun,
     "From the stop signal to KILL, whatever the cause [30]", seconds<&O::shutdown_timeout, false>},
    {"hang-timeout", 0, "SECONDS", kRestart, kNoPet, kOwn,
     "Say which rank hangs when none moves so long; 0: never [60]", seconds<&O::hang_timeout, false>},
    {"on-hang", 0, "NAME", kRestart, kNoPet, kOwn,
     "With a job that is hung: report, restart or abort [report]", on_hang},
    {"timeout", 0, "SECONDS", kRestart, kNoPet, kOwn, "End the job after this time, exit code 124 [none]",
     seconds<&O::timeout, true>},
    {"end-with", 0, "PID", kRestart, kNoPet, kOwn, "End the job when this process, our parent, ends [none]",
     number<&O::end_with, 1, kMaxPid>},
    {"signals-to-handle", 0, "NAME,...", kRestart, kPet, kTorchrun,
     "Signals that stop the job in order [SIGTERM,SIGINT,SIGHUP,SIGQUIT]",
     parsed<&O::signals_to_handle, parse_signals>},
    {"forward-signals", 0, "NAME,...", kRestart, kNoPet, kOwn,
     "Passed on to workers that handle them; or none [SIGUSR1,SIGUSR2]",
     parsed<&O::forward_signals, parse_forwarded_signals>},
    {"stop-target", 0, "process|group", kRestart, kNoPet, kOwn,
     "Whom of a worker we tell to stop: its process or group [process]", stop_target},
    {"monitor-interval", 0, "SECONDS", kRestart, kPet, kTorchrun,
     "No effect: a worker's end is an event, not polled for", seconds<&O::monitor_interval, true>},

    {"log-dir", 0, "DIR", kOutput, kPet, kTorchrun,
     "Logs go to DIR/<id>_<random>; /dev/null: none [temporary]", text<&O::log_dir>},
    {"redirects", 'r', "STREAMS", kOutput, kPet, kTorchrun,
     "To files: 0 none, 1 stdout, 2 stderr, 3 both; RANK:STREAMS,... [0]",
     parsed<&O::redirects, parse_streams>},
    {"tee", 't', "STREAMS", kOutput, kPet, kTorchrun, "To files and, with a prefix, to the console [0]",
     parsed<&O::tee, parse_streams>},
    {"log-line-prefix-template", 0, "TEXT", kOutput, kPet, kTorchrun,
     "${role_name} ${local_rank} ${rank} ${hostname} ${time} ${elapsed}", text<&O::log_line_prefix_template>},
    {"log-max-size", 0, "SIZE", kOutput, kNoPet, kOwn,
     "Log files begin anew at SIZE (64K, 10M); one older is kept [none]",
     parsed<&O::log_max_size, parse_size>},
    {"local-ranks-filter", 0, "RANK,...", kOutput, kPet, kTorchrun, "Only these reach the console [all]",
     parsed<&O::local_ranks_filter, parse_rank_filter>},
    {"duplicate-stdout-filters", 0, "TEXT", kOutput, kPet, kTorchrun,
     "Teed lines with one of TEXT,... go to filtered_stdout.log too",
     parsed<&O::duplicate_stdout_filters, parse_filters>},
    {"duplicate-stderr-filters", 0, "TEXT", kOutput, kPet, kTorchrun, "The same for stderr",
     parsed<&O::duplicate_stderr_filters, parse_filters>},
    {"raw-output", 0, "", kOutput, kNoPet, kOwn, "Do not filter what workers write to a terminal",
     on<&O::raw_output>},
    {"gather-logs", 0, "DIR", kOutput, kNoPet, kOwn, "Bring the log files of all hosts here at the end",
     not_empty<&O::gather_logs>},
    {"stdin", 0, "RANK", kOutput, kNoPet, kOwn, "This rank reads our stdin [several hosts: none]",
     number<&O::stdin_rank, 0, kMaxRanks - 1>},

    {"name", 0, "NAME", kDebug, kNoPet, kOwn, "Name of the job for muster ps, status, logs, kill ... [none]",
     parsed<&O::name, parse_job_name>},
    {"detach", 0, "", kDebug, kNoPet, kOwn, "Return when the workers run; the job goes on (muster attach)",
     on<&O::detach>},
    {"dry-run", 0, "", kDebug, kNoPet, kOwn, "Print the validated job as JSON and start nothing",
     on<&O::dry_run>},
    {"report", 0, "FILE", kDebug, kNoPet, kOwn, "Write the exit report as JSON", not_empty<&O::report>},
    {"event-file", 0, "FILE", kDebug, kNoPet, kOwn, "Append what happens to the job, a line of JSON each",
     not_empty<&O::event_file>},
    {"metrics-listen", 0, "PLACE", kDebug, kNoPet, kOwn,
     "Serve metrics at 127.0.0.1:PORT, [::1]:PORT or unix:PATH [nowhere]",
     parsed<&O::metrics_listen, parse_listen_place>},
    {"metrics-textfile", 0, "FILE", kDebug, kNoPet, kOwn, "Write them to a file each 10 s [none]",
     not_empty<&O::metrics_textfile>},
    {"log-level", 0, "LEVEL", kDebug, kNoPet, kOwn,
     "debug, info, warning or error, of our own messages [warning]", log_level},
    {"print-completion", 0, "SHELL", kDebug, kNoPet, kTorchrun,
     "Print a completion script: bash, zsh or fish", text<&O::print_completion>},

    {"logs-specs", 0, "NAME", kPlugins, kNoPet, kTorchrun, "The built-in one only [default]",
     text<&O::logs_specs>},
    {"event-log-handler", 0, "NAME", kPlugins, kPet, kTorchrun,
     "null, or console: our own messages as by --log-level info [null]", text<&O::event_log_handler>},
});

}  // namespace

std::span<const Flag> flag_table() {
  return kTable;
}

std::string variable_of(const Flag& flag) {
  std::string variable(kVariables);
  for (const char c : flag.name) {
    if (c == '-')
      variable += '_';
    else
      variable += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return variable;
}

std::vector<std::string> unread_variables(const std::vector<std::string>& names) {
  std::vector<std::string> read;
  std::map<std::string, std::string> without_variable;
  for (const Flag& flag : kTable) {
    if (flag.from_environment)
      read.push_back(variable_of(flag).substr(kVariables.size()));
    else
      without_variable.emplace(variable_of(flag), flag.spelled());
  }
  std::vector<std::string> notes;
  for (const std::string& name : names) {
    if (!name.starts_with(kVariables)) continue;
    const std::string rest = name.substr(kVariables.size());
    if (std::find(read.begin(), read.end(), rest) != read.end()) continue;
    const auto flag = without_variable.find(name);
    const std::string meant = did_you_mean(rest, read, kVariables);
    if (flag != without_variable.end())
      notes.push_back("the variable " + name + " is not read; give " + flag->second + " itself");
    else if (!meant.empty())
      notes.push_back("the variable " + name + " is not read; " + meant);
  }
  return notes;
}

}  // namespace muster::launcher
