// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/srun_command.hpp"

#include "launcher/start/core/ssh_command.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace muster::launcher {
namespace {

constexpr std::size_t kQuotedBytesMax = 300;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

constexpr auto kOptionVariables = std::to_array<std::string_view>({
    "SLURM_ARBITRARY_NODELIST",
    "SLURM_BCAST",
    "SLURM_CPUS_PER_GPU",
    "SLURM_CPUS_PER_TASK",
    "SLURM_DISTRIBUTION",
    "SLURM_EPILOG",
    "SLURM_EXACT",
    "SLURM_EXCLUSIVE",
    "SLURM_EXPORT_ENV",
    "SLURM_GRES",
    "SLURM_HINT",
    "SLURM_IMMEDIATE",
    "SLURM_KILL_BAD_EXIT",
    "SLURM_LABELIO",
    "SLURM_MPI_TYPE",
    "SLURM_MULTI_PROG",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_OPEN_MODE",
    "SLURM_OVERCOMMIT",
    "SLURM_OVERLAP",
    "SLURM_PROLOG",
    "SLURM_RELATIVE",
    "SLURM_RESV_PORTS",
    "SLURM_STDERRMODE",
    "SLURM_STDINMODE",
    "SLURM_STDOUTMODE",
    "SLURM_STEP_GRES",
    "SLURM_TASKS_PER_NODE",
    "SLURM_THREADS",
    "SLURM_THREADS_PER_CORE",
    "SLURM_TIMELIMIT",
    "SLURM_TRES_PER_TASK",
    "SLURM_UNBUFFEREDIO",
    "SLURM_WAIT",
    "SRUN_CPUS_PER_TASK",
});
/// Beginnings of the names of further options. What they ask for need not be asked for again: a node's share
/// of it is all that the job has there.
constexpr auto kOptionPrefixes = std::to_array<std::string_view>({
    "SLURM_CPU_BIND",
    "SLURM_DIST_",
    "SLURM_GPU_BIND",
    "SLURM_GPUS",
    "SLURM_MEM_BIND",
    "SLURM_NTASKS_PER_",
});

/// A text of srun, slurmstepd or slurmd (Slurm 20 to 24), and what it means; "%n" is the node. The first one
/// that occurs counts.
struct SrunText {
  std::string_view words;
  std::string_view cause;
  std::string_view advice;
};

constexpr auto kSrunTexts = std::to_array<SrunText>({
    {"DUE TO TIME LIMIT", "the time limit of the Slurm job has passed",
     "ask for more (--time of sbatch or salloc)"},
    {"DUE TO NODE FAILURE", "Slurm lost the node", "see 'scontrol show node %n'"},
    {"DUE TO PREEMPTION", "the Slurm job was preempted", "start the job again"},
    {"Node failure on", "Slurm lost the node", "see 'scontrol show node %n'"},
    {"oom_kill", "the Slurm job used more memory there than it asked for",
     "ask for more (--mem of sbatch or salloc)"},
    {"already completing or completed", "the Slurm job is over", "ask for a new allocation"},
    {"Job has expired", "the Slurm job is over", "ask for a new allocation"},
    {"CANCELLED", "Slurm cancelled the step", "somebody ran scancel, or the job is over"},
    {"are busy", "another step of this Slurm job holds the node",
     "start that step with --overlap, or end it"},
    {"temporarily disabled", "another step of this Slurm job holds the node",
     "start that step with --overlap, or end it"},
    {"Invalid job id", "Slurm does not know the job of SLURM_JOB_ID",
     "run muster inside a living allocation, or give --slurm off"},
    {"Invalid node name", "Slurm does not know this node", "compare with 'scontrol show hostnames'"},
    {"not in job", "the node is not part of the Slurm job", "compare with SLURM_JOB_NODELIST"},
    {"node configuration is not available",
     "the node is not part of the Slurm job, or cannot give what it asked for",
     "compare with SLURM_JOB_NODELIST and 'scontrol show node %n'"},
    {"redential", "munge refused a credential",
     "the clocks or munge keys of the hosts differ: tell the administrator"},
    {"ontact slurm controller", "slurmctld does not answer", "try 'scontrol ping'"},
    {"Communication connection failure", "slurmd does not answer there", "see 'scontrol show node %n'"},
    {"Socket timed out", "slurmd did not answer there in time", "see 'scontrol show node %n'"},
    {"Zero Bytes", "slurmd there broke off", "see its log, and 'scontrol show node %n'"},
    {"Task launch for", "the task could not be launched", "see 'scontrol show node %n'"},
});

std::string_view trimmed(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  return line;
}

/// Whether a line explains nothing, because srun says it in good times, too.
bool is_chatter(std::string_view line) {
  return line.empty() || line.find("lacks support for cpu binding") != std::string_view::npos ||
         line.find("Exited with exit code") != std::string_view::npos ||
         line.find(": Terminated") != std::string_view::npos ||
         line.find("forcing job termination") != std::string_view::npos;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    lines.push_back(trimmed(line));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return lines;
}

std::string quoted_line(std::string_view line) {
  if (line.size() <= kQuotedBytesMax) return std::string(line);
  return std::string(line.substr(0, kQuotedBytesMax)) + "...";
}

std::string with_node(std::string_view advice, const std::string& node) {
  const std::size_t at = advice.find("%n");
  if (at == std::string_view::npos) return std::string(advice);
  return std::string(advice.substr(0, at)) + node + std::string(advice.substr(at + 2));
}

}  // namespace

std::vector<std::string> srun_arguments(const std::string& node, const std::string& command) {
  if (node.empty() || node.front() == '-' || node.find_first_of(",[]/ \t\n") != std::string::npos)
    throw std::invalid_argument("'" + node + "' is not the name of one node of Slurm");
  return {"srun", "--quiet", "--nodelist=" + node, "--nodes=1", "--ntasks=1",
          // The step shares what it finds, with the batch script and with our other steps.
          "--overlap", "--export=ALL",
          // By default Slurm holds back what does not end with a newline.
          "--unbuffered", "--input=all", "--kill-on-bad-exit=0", "--mpi=none", "--cpu-bind=none", "--",
          "/bin/sh", "-c", command};
}

bool is_srun_option(std::string_view variable) {
  return std::find(kOptionVariables.begin(), kOptionVariables.end(), variable) != kOptionVariables.end() ||
         std::any_of(kOptionPrefixes.begin(), kOptionPrefixes.end(),
                     [variable](std::string_view prefix) { return variable.starts_with(prefix); });
}

StartFailure explain_srun(const StartEnd& end, const std::string& node, const std::string& version_here) {
  const std::vector<std::string_view> lines = lines_of(end.errors);
  const std::string by_hand = "try 'srun -w " + node + " -N1 -n1 --overlap hostname' by hand";
  StartFailure failure;
  for (const SrunText& known : kSrunTexts)
    for (const std::string_view line : lines) {
      if (line.find(known.words) == std::string_view::npos) continue;
      failure.cause = "srun: " + std::string(known.cause) + " (" + quoted_line(line) + ")";
      failure.advice = with_node(known.advice, node);
      return failure;
    }
  // The command that runs on the node is the same as with ssh, and complains in the same words.
  const bool ran = end.errors.find(kStartMark) != std::string::npos || end.exit_code == kNotFound ||
                   end.exit_code == kNotExecutable;
  if (ran || !end.version_there.empty() || end.too_much_junk)
    return explain_start(end, {"srun", node, 0, version_here});
  failure.cause = end.timed_out ? "srun: the agent did not answer in time"
                                : "srun" + end.client_end() + " before the agent answered";
  const auto said =
      std::find_if(lines.rbegin(), lines.rend(), [](std::string_view line) { return !is_chatter(line); });
  if (said != lines.rend()) failure.cause += " (" + quoted_line(*said) + ")";
  failure.advice = by_hand;
  if (end.timed_out) failure.advice += ", and if it only is slow, give it longer by --login-timeout SECONDS";
  return failure;
}

}  // namespace muster::launcher
