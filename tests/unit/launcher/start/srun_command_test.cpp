// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/srun_command.hpp"

#include "catch.hpp"

#include <algorithm>
#include <stdexcept>

using namespace muster::launcher;

TEST_CASE("one srun starts one agent on one node") {
  const std::vector<std::string> words = srun_arguments("n07", "exec muster agent");
  CHECK(words.front() == "srun");
  const auto has = [&words](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  for (const char* word :
       {"--nodelist=n07", "--nodes=1", "--ntasks=1", "--overlap", "--unbuffered", "--kill-on-bad-exit=0"})
    CHECK(has(word));
  CHECK(std::vector<std::string>(words.end() - 3, words.end()) ==
        std::vector<std::string>{"/bin/sh", "-c", "exec muster agent"});
}

TEST_CASE("a node name cannot be an option or a list") {
  for (const char* node : {"", "-w", "--uid=0", "a,b", "n[0-1]", "a b", "a/b", "a\nb"})
    CHECK_THROWS_AS(srun_arguments(node, "muster"), std::invalid_argument);
}

TEST_CASE("what the allocation asked for is not asked for again") {
  for (const char* name :
       {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK", "SLURM_GPUS_PER_TASK",
        "SLURM_LABELIO", "SLURM_CPU_BIND", "SLURM_CPU_BIND_TYPE", "SLURM_DISTRIBUTION", "SLURM_EXPORT_ENV"})
    CHECK(is_srun_option(name));
  for (const char* name : {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_CONF", "SLURM_CLUSTERS", "PATH"})
    CHECK_FALSE(is_srun_option(name));
}

TEST_CASE("complaints become one cause and the next step") {
  const auto explain = [](const std::string& errors, int code = 1) {
    StartEnd end;
    end.errors = errors;
    end.exit_code = code;
    return explain_srun(end, "n07", "0.1.0");
  };
  const std::string chatter = "srun: cluster configuration lacks support for cpu binding\n";
  const auto whole = [](const StartFailure& failure) { return failure.cause + "; " + failure.advice; };
  // Texts of Slurm 22.05.
  CHECK(whole(explain(
            chatter +
            "srun: Cancelled pending job step with signal 15\n"
            "srun: error: Unable to create step for job 3: Job/step already completing or completed\n")) ==
        "srun: the Slurm job is over (srun: error: Unable to create step for job 3: Job/step already "
        "completing or completed); "
        "ask for a new allocation");
  CHECK(whole(explain(
            "srun: Job 3 step creation temporarily disabled, retrying (Requested nodes are busy)\n")) ==
        "srun: another step of this Slurm job holds the node (srun: Job 3 step creation temporarily "
        "disabled, retrying "
        "(Requested nodes are busy)); start that step with --overlap, or end it");
  CHECK(explain(
            "slurmstepd: error: *** STEP 3.1 ON n07 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n")
            .cause.starts_with("srun: the time limit of the Slurm job has passed ("));
  CHECK(explain("slurmstepd: error: *** STEP 3.1 ON n07 CANCELLED AT 2026-01-01T00:00:00 ***\n")
            .cause.starts_with("srun: Slurm cancelled the step ("));
  CHECK(explain(
            "srun: error: Task launch for StepId=3.1 failed on node n07: Communication connection failure\n")
            .advice == "see 'scontrol show node n07'");
  CHECK(
      explain("srun: error: Unable to create step for job 3: Requested node configuration is not available\n")
          .cause.starts_with("srun: the node is not part of the Slurm job"));
  CHECK(
      whole(explain(
          chatter + "srun: error: something new\nsrun: error: n07: task 0: Exited with exit code 9\n", 9)) ==
      "srun ended with exit code 9 before the agent answered (srun: error: something new); try 'srun -w n07 "
      "-N1 -n1 "
      "--overlap hostname' by hand");
  CHECK(explain(chatter, 9).cause == "srun ended with exit code 9 before the agent answered");
  CHECK(explain(chatter + "muster-start: missing /opt/muster\n", 127).cause ==
        "muster was not found there (neither /opt/muster nor in PATH)");
  CHECK(explain(std::string(5000, 'x')).cause.size() < 500);
  StartEnd late;
  late.timed_out = true;
  CHECK(explain_srun(late, "n07", "0.1.0").cause == "srun: the agent did not answer in time");
  StartEnd other;
  other.version_there = "0.0.9";
  CHECK(explain_srun(other, "n07", "0.1.0").cause == "muster 0.0.9 is installed there, here it is 0.1.0");
}
