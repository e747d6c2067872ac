// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/dry_run.hpp"
#include "tests/unit/launcher/job_spec/resolve.hpp"

#include <signal.h>

namespace resolve_job_test {

using namespace muster::launcher;

TEST_CASE("A plain job is c10d on loopback, a free port and a random id") {
  const JobSpec spec = resolve({"train.py", "--epochs", "3"}).spec;
  CHECK(spec.rdzv_backend == "c10d");
  CHECK(spec.agent.run_id == "random-id");
  CHECK(spec.agent.store.host == "127.0.0.1");
  CHECK(spec.agent.store.port == 0);
  CHECK(spec.agent.store.same_user_only);
  CHECK(spec.agent.workers == 1);
  CHECK(spec.agent.host == "node7");
  CHECK(spec.agent.command == Arguments{"python3", "-u", "train.py", "--epochs", "3"});
  CHECK(spec.agent.first_script_argument == 3);
  CHECK(spec.agent.output.log_dir == "/tmp/muster_random-id_XXXXXX");
  CHECK(spec.agent.output.log_dir_is_temporary);
  CHECK_FALSE(spec.agent.output.redirects.any());
  CHECK_FALSE(spec.agent.output.tee.any());
  CHECK(spec.deadline.count() == 0);
  CHECK(spec.agent.shutdown_timeout.count() == 30000);
}

TEST_CASE("The store's address and port follow torchrun 2.14") {
  struct Row {
    const char* flags;
    std::string backend, id, host;
    int port;
  };

  const Row rows[] = {
      {"--standalone", "c10d", "random-id", "127.0.0.1", 0},
      {"--standalone --rdzv-id=x --master-port=5 --rdzv-backend=etcd", "c10d", "random-id", "127.0.0.1", 0},
      {"--master-port 1234", "static", "none", "127.0.0.1", 1234},
      {"--rdzv-backend static", "static", "none", "127.0.0.1", 29500},
      {"--node-rank 0", "static", "none", "127.0.0.1", 29500},
      {"--master-addr 10.0.0.7", "c10d", "random-id", "10.0.0.7", 0},
      {"--master-addr node7 --master-port 5", "static", "none", "10.0.0.7", 5},
      {"--master-addr [::1]", "c10d", "random-id", "::1", 0},
      {"--local-addr 10.0.0.7", "c10d", "random-id", "10.0.0.7", 0},
      {"--rdzv-endpoint localhost:7", "static", "none", "127.0.0.1", 7},
      {"--rdzv-backend=c10d --rdzv-endpoint=node7:29400", "c10d", "none", "127.0.0.1", 0},
      {"--rdzv-backend=c10d --rdzv-id=job1", "c10d", "job1", "127.0.0.1", 0},
      {"--rdzv-id=job1", "c10d", "job1", "127.0.0.1", 0},
      {"--nnodes=1:4", "c10d", "random-id", "127.0.0.1", 0},
  };
  for (const Row& row : rows) {
    Arguments arguments = words(row.flags);
    CAPTURE(arguments);
    arguments.push_back("train.py");
    const JobSpec spec = resolve(arguments).spec;
    CHECK(spec.rdzv_backend == row.backend);
    CHECK(spec.agent.run_id == row.id);
    CHECK(spec.agent.store.host == row.host);
    CHECK(spec.agent.store.port == row.port);
  }
  CHECK(resolve({"--nnodes=1:4", "true"}).spec.agent.limits.max_nodes == 4);
  CHECK(resolve({"--rdzv-backend=c10d", "--master-port=5", "true"}).notices.size() == 1);
}

TEST_CASE("What one machine cannot do is refused in one line that names flag and value") {
  CHECK(contains(resolve_error({"--nnodes=2", "true"}), "--nnodes=2 needs more than one node"));
  CHECK(contains(resolve_error({"--nnodes=2:4", "true"}), "--nnodes=2:4"));
  CHECK(contains(resolve_error({"--node-rank=1", "true"}), "--node-rank=1"));
  CHECK(contains(resolve_error({"--rdzv-backend=etcd", "true"}), "--rdzv-backend=etcd is not available"));
  CHECK(contains(resolve_error({"--rdzv-backend=etcd-v2", "true"}), "not available in this version"));
  CHECK(contains(resolve_error({"--rdzv-backend=zeus", "true"}), "--rdzv-backend=zeus"));
  CHECK(contains(resolve_error({"--master-addr=10.0.0.8", "true"}),
                 "'10.0.0.8' is not an address of this machine"));
  CHECK(contains(resolve_error({"--master-addr=0.0.0.0", "true"}), "not an address of this machine"));
  CHECK(contains(resolve_error({"--local-addr=10.0.0.8", "true"}), "--local-addr=10.0.0.8"));
  CHECK(contains(resolve_error({"--rdzv-backend=c10d", "--rdzv-endpoint=far:1", "true"}),
                 "--rdzv-endpoint=far:1"));
  CHECK(
      contains(resolve_error({"--rdzv-endpoint=far:1", "true"}), "'far' is not an address of this machine"));
  CHECK(contains(resolve_error({"--rdzv-backend=static", "--nnodes=1:2", "true"}), "elastic"));
  CHECK(contains(resolve_error({"--numa-binding=node", "--bind-to=core", "true"}), "contradict each other"));
  CHECK(contains(resolve_error({"--logs-specs=mine", "true"}), "--logs-specs=mine"));
  CHECK(contains(resolve_error({"--logs-specs=mine", "true"}), "give default, which it has"));
  CHECK(resolve_error({"--logs-specs=default", "true"}).empty());
  CHECK(contains(
      resolve_error({"--event-log-handler=mine", "true"}),
      "--event-log-handler=mine names a Python plug-in, which muster cannot load; give null or console"));
  for (const char* built_in : {"null", "console"})
    CHECK(resolve_error({std::string("--event-log-handler=") + built_in, "true"}).empty());
  FakeSystem system;
  system.variables["PET_NNODES"] = "3";
  CHECK(contains(resolve_error({"true"}, system), "PET_NNODES=3 needs more than one node"));
}

TEST_CASE("Worker counts: numbers and words") {
  FakeSystem gpus;
  gpus.gpus = {4, ""};
  CHECK(resolve({"--nproc-per-node=3", "true"}).spec.agent.workers == 3);
  CHECK(resolve({"--nproc-per-node=cpu", "true"}).spec.agent.workers == 6);
  CHECK(resolve({"--nproc-per-node=auto", "true"}).spec.agent.workers == 6);
  CHECK(resolve({"--nproc-per-node=auto", "true"}, gpus).spec.agent.workers == 4);
  CHECK(resolve({"--nproc-per-node=gpu", "true"}, gpus).spec.agent.workers == 4);
  CHECK(
      contains(resolve_error({"--nproc-per-node=gpu", "true"}), "no GPU is visible: NVML cannot be loaded"));
  for (const char* bad : {"0", "-1", "tpu", "xpu", "", "1.5", "65537"}) {
    CAPTURE(bad);
    CHECK(contains(resolve_error({std::string("--nproc-per-node=") + bad, "true"}), "--nproc-per-node="));
  }
}

TEST_CASE("GPUs that are named are shown to the workers, one each unless said otherwise") {
  const std::vector<std::pair<std::string, int>> rows = {{"", 3},
                                                         {"--nproc-per-node=gpu", 3},
                                                         {"--nproc-per-node=auto", 3},
                                                         {"--nproc-per-node=2", 2},
                                                         {"--np=4", 4}};
  for (const auto& [word, workers] : rows) {
    CAPTURE(word);
    std::vector<std::string> words = {"--gpus", "2,0,MIG-5a", "true"};
    if (!word.empty()) words.insert(words.begin(), word);
    const JobSpec spec = resolve(words).spec;
    CHECK(spec.agent.workers == workers);
    CHECK(value_of(spec.agent.environment, "CUDA_VISIBLE_DEVICES") == "2,0,MIG-5a");
  }
  FakeSystem system;
  system.variables["CUDA_VISIBLE_DEVICES"] = "1";
  CHECK(resolve_error({"--gpus=0,1", "--virtual-local-rank", "true"}, system).empty());
  CHECK(contains(resolve_error({"--gpus=0", "--nproc-per-node=2", "--virtual-local-rank", "true"}),
                 "has 1 entries for 2 workers"));
  CHECK(contains(resolve_error({"--gpus=0", "-H", "a,b", "true"}),
                 "--gpus=0 names GPUs of one host; of listed hosts name them by --include"));
  for (const char* bad : {"", "0,", "x", "-1", "1.5", "GPU-", "all"}) {
    CAPTURE(bad);
    CHECK(contains(resolve_error({std::string("--gpus=") + bad, "true"}), "names no GPU"));
  }
  CHECK(contains(resolve_error({"--gpus=0,1,0", "true"}), "--gpus=0,1,0 names GPU 0 twice"));
}

TEST_CASE("Several workers get one OpenMP thread each unless the user said otherwise") {
  const ResolvedJob two = resolve({"--nproc-per-node=2", "true"});
  CHECK(value_of(two.spec.agent.environment, "OMP_NUM_THREADS") == "1");
  CHECK(two.notices.empty());
  REQUIRE(two.details.size() == 1);
  CHECK(two.details[0].starts_with("OMP_NUM_THREADS=1 for each of 2 workers"));
  const ResolvedJob exported = resolve({"--nproc-per-node=2", "--export", "OMP_NUM_THREADS=3", "true"});
  CHECK(value_of(exported.spec.agent.environment, "OMP_NUM_THREADS") == "3");
  CHECK_FALSE(value_of(resolve({"true"}).spec.agent.environment, "OMP_NUM_THREADS"));
  FakeSystem system;
  system.variables["OMP_NUM_THREADS"] = "8";
  const ResolvedJob kept = resolve({"--nproc-per-node=2", "true"}, system);
  CHECK_FALSE(value_of(kept.spec.agent.environment, "OMP_NUM_THREADS"));
  CHECK(kept.details.empty());
}

TEST_CASE("Signals remember whether the user named them") {
  const ResolvedJob usual = resolve({"true"});
  CHECK(usual.spec.signals ==
        std::vector<HandledSignal>{{SIGHUP, false}, {SIGINT, false}, {SIGQUIT, false}, {SIGTERM, false}});
  CHECK(value_of(usual.spec.agent.environment, "TORCHELASTIC_SIGNALS_TO_HANDLE") ==
        "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  const ResolvedJob named = resolve({"--signals-to-handle=SIGUSR1", "true"});
  CHECK(named.spec.signals == std::vector<HandledSignal>{{SIGUSR1, true}});
  CHECK(value_of(named.spec.agent.environment, "TORCHELASTIC_SIGNALS_TO_HANDLE") == "SIGUSR1");
}

TEST_CASE("Times come from flags, then variables, then defaults") {
  FakeSystem system;
  system.variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = "7";
  CHECK(resolve({"true"}, system).spec.agent.shutdown_timeout.count() == 7000);
  CHECK(resolve({"--shutdown-timeout=3", "true"}, system).spec.agent.shutdown_timeout.count() == 3000);
  const JobSpec spec =
      resolve({"--timeout=9", "--rdzv-conf=join_timeout=5,last_call_timeout=0", "--max-restarts=2", "true"})
          .spec;
  CHECK(spec.deadline.count() == 9000);
  CHECK(spec.agent.limits.join_timeout.count() == 5000);
  CHECK(spec.agent.limits.last_call_timeout.count() == 0);
  CHECK(spec.agent.limits.max_restarts == 2);
  CHECK(spec.agent.limits.restart_rule == muster::rendezvous::RestartRule::backoff);
  CHECK(resolve({"--restart-policy=torchrun", "true"}).spec.agent.limits.restart_rule ==
        muster::rendezvous::RestartRule::torchrun);
  CHECK(spec.agent.limits.hang_timeout == std::chrono::seconds(60));
  CHECK(resolve({"--hang-timeout=0", "true"}).spec.agent.limits.hang_timeout.count() == 0);
  CHECK(spec.agent.limits.on_hang == muster::rendezvous::HangAction::report);
  CHECK(resolve({"--on-hang=restart", "true"}).spec.agent.limits.on_hang ==
        muster::rendezvous::HangAction::restart);
  CHECK_FALSE(spec.agent.report_after);
  system.variables["MUSTER_REPORT_AFTER"] = "2.5";
  CHECK(resolve({"true"}, system).spec.agent.report_after == std::chrono::milliseconds(2500));
  system.variables["MUSTER_REPORT_AFTER"] = "soon";
  CHECK(contains(resolve_error({"true"}, system), "MUSTER_REPORT_AFTER=soon"));
  system.variables.erase("MUSTER_REPORT_AFTER");
  system.variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = "soon";
  CHECK(contains(resolve_error({"true"}, system), "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=soon"));
}

TEST_CASE("Output flags and their variables") {
  FakeSystem system;
  system.variables["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] = "v${rank}";
  system.variables["TORCHELASTIC_ERROR_FILE"] = "/outer/error.json";
  system.variables["TMPDIR"] = "/scratch/";
  const JobSpec spec = resolve({"--tee=3", "--local-ranks-filter=0", "true"}, system).spec;
  CHECK(spec.agent.output.line_prefix_template == "v${rank}");
  CHECK(spec.error_file_copy == "/outer/error.json");
  CHECK(spec.agent.output.log_dir == "/scratch/muster_random-id_XXXXXX");
  CHECK(spec.agent.output.console_ranks->contains(0));
  CHECK(spec.agent.output.tee.any());
  CHECK(resolve({"--log-line-prefix-template=f", "true"}, system).spec.agent.output.line_prefix_template ==
        "f");
  const ResolvedJob bounded = resolve({"--log-max-size=64K", "true"});
  CHECK(bounded.spec.agent.output.log_max_bytes == 65536);
  CHECK(bounded.notices ==
        std::vector<std::string>{"--log-max-size has nothing to bound: no log files are written; "
                                 "give --tee or --redirects, too"});
  CHECK(resolve({"--log-max-size=64K", "--tee=3", "true"}).notices.empty());
  const JobSpec kept = resolve({"--log-dir=logs", "--rdzv-id=../a b", "true"}, system).spec;
  CHECK(kept.agent.output.log_dir == "logs/_.._a_b_XXXXXX");
  CHECK_FALSE(kept.agent.output.log_dir_is_temporary);
  CHECK(resolve({"--log-dir=/dev/null", "true"}).spec.agent.output.log_dir.empty());
  CHECK(contains(resolve_error({"--log-dir=/dev/null", "--tee=3", "true"}), "--log-dir=/dev/null"));
  system.files_writable = false;
  CHECK(contains(resolve_error({"--report=/x/y", "true"}, system),
                 "--report=/x/y cannot be written (Read-only file system)"));
}

TEST_CASE("A local rank that no node has is refused where streams are chosen") {
  for (const char* flag : {"--redirects", "--tee", "--local-ranks-filter"}) {
    CAPTURE(flag);
    const bool filter = std::string(flag) == "--local-ranks-filter";
    const auto choose = [filter](const std::string& rank) {
      return "0" + std::string(filter ? "," : ":3,") + rank + (filter ? "" : ":1");
    };
    CHECK(contains(resolve_error({flag, choose("2"), "--nproc-per-node=2", "true"}),
                   std::string(flag) + "=" + choose("2") +
                       ": there is no local rank 2; a node has at most 2 of them, from 0 to 1"));
    CHECK(resolve_error({flag, choose("1"), "--nproc-per-node=2", "true"}).empty());
    // Of several hosts the largest counts; where each counts its own GPUs, nobody knows.
    CHECK(resolve_error({flag, choose("3"), "-H", "node7:1,n1:4", "true"}).empty());
    CHECK(contains(resolve_error({flag, choose("4"), "-H", "node7:1,n1:4", "true"}), "no local rank 4"));
    CHECK(resolve_error({flag, choose("4"), "-H", "node7,n1", "--nproc-per-node=gpu", "true"}).empty());
    const Arguments meeting = {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node7:7", "true"};
    Arguments peer = {flag, choose("6"), "--nproc-per-node=cpu"};
    peer.insert(peer.end(), meeting.begin(), meeting.end());
    CHECK(resolve_error(peer).empty());
    peer[2] = "--nproc-per-node=6";
    CHECK(contains(resolve_error(peer), "no local rank 6"));
  }
}

TEST_CASE("Keys of --rdzv-conf without effect are named once, for those who ask") {
  const ResolvedJob job = resolve({"--rdzv-conf=close_timeout=3,join_timeout=5,read_timeout=1", "true"});
  CHECK(job.notices.empty());
  REQUIRE(job.details.size() == 1);
  CHECK(contains(job.details[0], "--rdzv-conf: close_timeout, read_timeout have no effect"));
  CHECK(resolve({"--rdzv-conf=join_timeout=5", "true"}).details.empty());
}

TEST_CASE("An endpoint at any free port is a job of this node, where one is enough") {
  for (const char* nodes : {"1", "1:1", "1:4"}) {
    CAPTURE(nodes);
    const ResolvedJob job =
        resolve({"--nnodes", nodes, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "true"});
    CHECK(job.spec.form == StartForm::local);
    CHECK(job.spec.rdzv_backend == "c10d");
    CHECK(job.spec.agent.limits.min_nodes == 1);
    CHECK(job.spec.agent.limits.max_nodes == 1);
    CHECK(job.spec.agent.store.port == 0);
    CHECK(job.notices.size() == (std::string(nodes) == "1:4" ? 1 : 0));
  }
  for (const char* nodes : {"2", "2:4"})
    CHECK(contains(
        resolve_error({"--nnodes", nodes, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "true"}),
        "a free port of this host is one that no other host knows"));
}

TEST_CASE("An id that the nodes could not tell each other is refused") {
  for (const char* id : {"x\ny", "\x7f", "\x1b[2J", "\xc2\x9b", "\xff", "a\xc3"}) {
    CAPTURE(id);
    CHECK(contains(resolve_error({"--rdzv-id", id, "true"}), "--rdzv-id="));
  }
  CHECK(resolve_error({"--rdzv-id",
                       "j\xc3\xb6"
                       "b 7/a",
                       "true"})
            .empty());
  CHECK(resolve_error({"--standalone", "--rdzv-id", "x\ny", "true"}).empty());
}

TEST_CASE("Virtual local ranks need an entry of CUDA_VISIBLE_DEVICES for each worker") {
  FakeSystem system;
  const Arguments arguments = {"--virtual-local-rank", "--nproc-per-node=2", "true"};
  CHECK(resolve(arguments, system).spec.agent.virtual_local_rank);
  system.variables["CUDA_VISIBLE_DEVICES"] = "3,5";
  CHECK(resolve_error(arguments, system).empty());
  system.variables["CUDA_VISIBLE_DEVICES"] = "3";
  CHECK(contains(resolve_error(arguments, system), "CUDA_VISIBLE_DEVICES=3 has 1 entries for 2 workers"));
}

TEST_CASE("The agent's part of a dry run reads back as the agent's spec") {
  const JobSpec spec = resolve({"--tee=0:3,11:1", "--nproc-per-node=12", "--local-ranks-filter=0,1",
                                "--duplicate-stdout-filters=a,b", "train.py", "$$", "\xff"})
                           .spec;
  const std::string text = to_json(spec, {});
  CHECK(contains(text, "\"schema\": \"muster.job\""));
  CHECK(contains(text, "\"version\": 2"));
  const std::string agent = muster::agent::to_json(spec.agent);
  CHECK(muster::agent::to_json(muster::agent::agent_spec_from_json(agent)) == agent);
}

}  // namespace resolve_job_test
