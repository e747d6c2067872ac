// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/resolve_hosts.hpp"

#include "launcher/job_spec/dry_run.hpp"
#include "tests/support/folder.hpp"
#include "tests/unit/launcher/job_spec/resolve.hpp"

namespace resolve_hosts_test {

using namespace muster::launcher;

namespace {

/// "n0:0-3 *n7:4" for each node; a star for this machine.
std::string shown(const JobSpec& spec) {
  std::string text;
  for (const NodePlan& node : spec.nodes) {
    text += (text.empty() ? "" : " ") + std::string(node.local ? "*" : "") + node.name + ":" +
            std::to_string(node.first_rank);
    if (node.workers != 1) text += "-" + std::to_string(node.first_rank + node.workers - 1);
  }
  return text;
}

FakeSystem allocation(const std::map<std::string, std::string>& more = {}) {
  FakeSystem system;
  system.variables["SLURM_JOB_ID"] = "12";
  system.variables["SLURM_JOB_NODELIST"] = "n[1-3]";
  system.variables["SLURM_JOB_NUM_NODES"] = "3";
  for (const auto& [name, value] : more) system.variables[name] = value;
  return system;
}

}  // namespace

TEST_CASE("Listed hosts become the nodes of a job that we start") {
  const JobSpec spec = resolve({"-H", "n0:2,node7:1,ann@n1:2222:2"}).spec;
  CHECK(spec.form == StartForm::ssh);
  CHECK(shown(spec) == "n0:0-1 *node7:2 n1:3-4");
  CHECK(spec.nodes[2].user == "ann");
  CHECK(spec.nodes[2].ssh_port == 2222);
  CHECK(spec.agent.limits.min_nodes == 3);
  CHECK(spec.agent.limits.max_nodes == 3);
  CHECK(spec.agent.run_id == "random-id");
  CHECK(spec.agent.output.rank_prefix);
  CHECK(spec.remote.working_directory == "/here");
  CHECK(value_of(spec.remote.environment, "PATH") == "/usr/bin:/bin");
  CHECK(resolve({"-H", "n0,n1", "--rdzv-id=j"}).spec.agent.run_id == "j");
}

TEST_CASE("A hostfile is read, and refused with its name") {
  FakeSystem system;
  system.texts["hosts.txt"] = "n0 slots=2\n# no\nn1 slots=4 max-slots=8\n";
  CHECK(shown(resolve({"--hostfile", "hosts.txt"}, system).spec) == "n0:0-1 n1:2-5");
  CHECK(shown(resolve({"--hostfile", "hosts.txt", "--include", "n1:1,3"}, system).spec) == "n1:0-1");
  CHECK(resolve({"--hostfile", "hosts.txt", "--include", "n1:1,3"}, system).spec.nodes[0].gpus ==
        std::vector<int>{1, 3});
  CHECK(shown(resolve({"--hostfile", "hosts.txt", "--exclude", "n0"}, system).spec) == "n1:0-3");
  CHECK(resolve_error({"--hostfile", "no.txt"}, system) ==
        "--hostfile=no.txt cannot be read (No such file or directory); check the path");
  CHECK(contains(resolve_error({"--hostfile", "hosts.txt", "-H", "n0"}, system),
                 "contradict each other; give one of"));
  system.texts["hosts.txt"] = "n0 slots=2\nn1 slots=x\n";
  CHECK(contains(resolve_error({"--hostfile", "hosts.txt"}, system),
                 "hosts.txt:2:10: 'x' is not a number of slots"));
}

TEST_CASE("How many workers a host gets") {
  CHECK(shown(resolve({"-H", "n0,n1"}).spec) == "n0:0 n1:1");
  CHECK(shown(resolve({"-H", "n0,n1", "--nproc-per-node=3"}).spec) == "n0:0-2 n1:3-5");
  CHECK(shown(resolve({"-H", "n0:4,n1:4", "-n", "6"}).spec) == "n0:0-3 n1:4-5");
  CHECK(shown(resolve({"-H", "n0:4,n1:4", "-np", "6", "--map-by=node"}).spec) == "n0:0-2 n1:3-5");
  CHECK(shown(resolve({"-H", "n0:1,n1:1", "-n", "4", "--oversubscribe"}).spec) == "n0:0-1 n1:2-3");
  CHECK(contains(resolve_error({"-H", "n0:1,n1:1", "-n", "4"}),
                 "--np=4: the hosts have 2 slots (n0 has 1, n1 has 1)"));
  CHECK(contains(resolve_error({"-H", "n0:1", "--nproc-per-node=2"}),
                 "host 'n0' (--host, position 1) has 1 slot"));
  CHECK(contains(resolve_error({"-H", "n0", "--nproc-per-node=many"}), "is not a number of workers"));
  const JobSpec counted = resolve({"-H", "n0,n1", "--nproc-per-node=gpu"}).spec;
  CHECK(counted.nodes[0].workers == 0);
  CHECK(counted.nodes[1].workers_by == "gpu");
  CHECK(resolve({"-n", "3"}).spec.agent.workers == 3);
  CHECK(contains(resolve_error({"-n", "3", "--nproc-per-node=2"}), "contradict each other"));
  CHECK(contains(resolve_error({"-n", "3", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=far:1"}),
                 "give --nproc-per-node"));
}

TEST_CASE("This machine alone needs no network, however it is named") {
  for (const char* host : {"node7:3", "localhost:3", "ann@node7::3", "10.0.0.7:3"}) {
    CAPTURE(host);
    const JobSpec spec = resolve({"-H", host}).spec;
    CHECK(spec.form == StartForm::local);
    CHECK(spec.nodes.empty());
    CHECK(spec.agent.workers == 3);
    CHECK(std::holds_alternative<muster::agent::AloneNode>(spec.agent.node.form));
  }
  const JobSpec some = resolve({"-H", "node7:4", "--include", "node7:1,3"}).spec;
  CHECK(some.agent.workers == 2);
  CHECK(value_of(some.agent.environment, "CUDA_VISIBLE_DEVICES") == "1,3");
  // A port or another user is a way in of its own: a container, an account.
  CHECK(shown(resolve({"-H", "node7:2222:2"}).spec) == "node7:0-1");
  CHECK(shown(resolve({"-H", "bob@node7"}).spec) == "node7:0");
  CHECK(contains(resolve_error({"-H", "localhost,n1,node7"}),
                 "hosts 'localhost' and 'node7' are both this machine"));
}

TEST_CASE("Flags of the other form contradict a host list") {
  const std::pair<const char*, const char*> rows[] = {
      {"--node-rank=1", "the order of the hosts is that of the ranks"},
      {"--rdzv-endpoint=n0:1", "ssh starts all nodes"},
      {"--standalone", "leave it out, or the hosts"},
      {"--secret-file=/key", "draws a key of its own"},
      {"--insecure-no-secret", "no key has to be set up"},
      {"--nnodes=3", "but 2 hosts have workers"},
      {"--nnodes=1", "but 2 hosts have workers"},
      {"--rdzv-backend=etcd", "is not available"},
  };
  for (const auto& [flag, says] : rows) {
    CAPTURE(flag);
    CHECK(contains(resolve_error({"-H", "n0,n1", flag}), says));
  }
  CHECK(resolve_error({"-H", "n0,n1", "--nnodes=2", "--rdzv-backend=c10d"}).empty());
  CHECK(
      contains(resolve_error({"-H", "n0,n1", "--master-addr=a", "--local-addr=b"}), "both name the address"));
  const JobSpec elastic = resolve({"-H", "n0,n1,n2", "--nnodes=2:4"}).spec;
  CHECK(elastic.agent.limits.min_nodes == 2);
  CHECK(elastic.agent.limits.max_nodes == 3);
  CHECK(resolve({"-H", "n0,n1", "--local-addr=[fe80::1]"}).spec.agent.node.local_addr == "fe80::1");
  const JobSpec fixed = resolve({"-H", "n0,n1", "--master-port=7"}).spec;
  CHECK(std::get<muster::agent::StartedNode>(fixed.agent.node.form).listen_port == 7);
  CHECK(
      contains(resolve_error({"--include", "n0"}), "chooses among listed hosts; give --host or --hostfile"));
  CHECK(contains(resolve_error({"--exclude", "n0"}), "--exclude=n0"));
}

TEST_CASE("The program may exist on the hosts only") {
  CHECK(resolve({"-H", "n0,n1", "--no-python", "train.py"}).spec.agent.command == Arguments{"train.py"});
  FakeSystem bare;
  bare.files.clear();
  const auto command = [&](Arguments arguments) {
    return resolve_job(parse_run_options(arguments, [](const std::string&) { return std::nullopt; }), bare)
        .spec.agent.command;
  };
  CHECK(command({"-H", "n0", "far.py", "-x"}) == Arguments{"python3", "-u", "far.py", "-x"});
  CHECK(command({"-H", "n0", "/opt/prog"}) == Arguments{"/opt/prog"});
  CHECK(command({"-H", "n0", "prog"}) == Arguments{"prog"});
  CHECK_THROWS_AS(command({"-H", "n0,node7", "/opt/prog"}), LaunchError);  // it runs here, too
}

TEST_CASE("Workers start in the right directory and inherit the right variables") {
  FakeSystem system;
  system.files["/data"] = FileKind::directory;
  system.files["/here/run"] = FileKind::directory;
  system.files["/data/train.py"] = FileKind::readable;
  system.variables["NCCL_DEBUG"] = "INFO";
  system.variables["WANDB_PROJECT"] = "p";
  system.variables["HF_TOKEN"] = "secret";
  CHECK(resolve({"train.py"}, system).spec.agent.working_directory.empty());
  CHECK(resolve({"--wdir=/data", "train.py"}, system).spec.agent.working_directory == "/data");
  CHECK(resolve({"--wdir=run"}, system).spec.agent.working_directory == "/here/run");
  FakeSystem nowhere = system;
  nowhere.directory.clear();
  CHECK(contains(resolve_error({}, nowhere), "does not exist any more, so workers cannot start in it"));
  CHECK(contains(resolve_error({"--wdir=run"}, nowhere), "name one with --wdir /DIRECTORY"));
  CHECK(contains(resolve_error({"-H", "n0"}, nowhere), "--wdir"));
  CHECK(resolve({"--wdir=/data", "/bin/true"}, nowhere).spec.agent.working_directory == "/data");
  CHECK(resolve({"--wdir=/far", "-H", "n0"}, system).spec.remote.working_directory == "/far");
  CHECK(contains(resolve_error({"--wdir=/far", "-H", "n0,node7"}, system),
                 "--wdir=/far is not a directory on this"));
  CHECK(contains(resolve_error({"--wdir=/far"}, system), "--wdir=/far is not a directory on this machine"));
  const ResolvedJob job = resolve({"-H", "n0", "--export", "WANDB_*,A=1,NONE"}, system);
  CHECK(value_of(job.spec.remote.environment, "NCCL_DEBUG") == "INFO");
  CHECK(value_of(job.spec.remote.environment, "WANDB_PROJECT") == "p");
  CHECK_FALSE(value_of(job.spec.remote.environment, "HF_TOKEN"));
  CHECK(value_of(job.spec.agent.environment, "A") == "1");
  REQUIRE(job.notices.size() == 1);
  CHECK(job.notices[0] == "--export: no variable NONE is set here; nothing is exported for it");
  CHECK(value_of(resolve({"-x", "A=1"}, system).spec.agent.environment, "A") == "1");
}

TEST_CASE("The rank that reads our stdin is one of the job") {
  CHECK(resolve({"-H", "n0:2,n1:2", "--stdin=3"}).spec.agent.stdin_rank == 3);
  CHECK(resolve({"-H", "n0,n1"}).spec.agent.stdin_rank == -1);
  CHECK(contains(resolve_error({"-H", "n0:2,n1:2", "--stdin=4"}),
                 "--stdin=4 is no rank of the job, which has 4 workers"));
  CHECK(resolve({"-H", "n0,n1", "--nproc-per-node=gpu", "--stdin=9"}).spec.agent.stdin_rank ==
        9);  // not known here
}

TEST_CASE("Flags about hosts without any are said to have no effect") {
  const auto notices = resolve({"--ssh-port=2222", "--store-proxy"}).notices;
  REQUIRE(notices.size() == 2);
  CHECK(notices[0] == "--ssh-port has no effect: no hosts were listed with --host or --hostfile");
  CHECK(notices[1] == "--store-proxy has no effect: a job of one node needs no network");
  CHECK(resolve({"--store-proxy", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=far:1"})
            .notices.empty());
  CHECK(resolve({"-H", "n0,n1", "--ssh-port=2222", "--store-proxy"}).notices.empty());
}

TEST_CASE("SSH's own flags") {
  const RemoteOptions remote =
      resolve({"-H", "n0,n1", "--ssh-command=ssh -v", "--ssh-config=c", "--ssh-port=2222", "--ssh-accept-new",
               "--remote-muster=/opt/muster", "--push", "--login-timeout=30"})
          .spec.remote;
  CHECK(remote.ssh_command == Arguments{"ssh", "-v"});
  CHECK(remote.ssh_config == "c");
  CHECK(remote.ssh_port == 2222);
  CHECK(remote.accept_new_host_keys);
  CHECK(remote.remote_muster == "/opt/muster");
  CHECK(remote.push);
  CHECK(remote.login_timeout == std::chrono::seconds(30));
  CHECK(resolve({"-H", "n0,n1"}).spec.remote.login_timeout == std::chrono::seconds(10));
}

TEST_CASE("Inside an allocation of Slurm its nodes, tasks and GPUs are found") {
  const JobSpec plain = resolve({}, allocation()).spec;
  CHECK(plain.form == StartForm::slurm);
  CHECK(plain.remote.login_timeout == std::chrono::seconds(20));
  CHECK(shown(plain) == "n1:0 n2:1 n3:2");
  const auto tasks = allocation({{"SLURM_NTASKS", "5"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}});
  CHECK(shown(resolve({}, tasks).spec) == "n1:0-1 n2:2-3 n3:4");
  CHECK(shown(resolve({"-n", "3"}, tasks).spec) == "n1:0-1 n2:2");
  CHECK(shown(resolve({"--nproc-per-node=4"}, tasks).spec) == "n1:0-3 n2:4-7 n3:8-11");
  const auto made_up =
      allocation({{"SLURM_TASKS_PER_NODE", "32(x3)"}});  // Slurm counts CPUs where no task was asked for
  CHECK(shown(resolve({}, made_up).spec) == "n1:0 n2:1 n3:2");
  const auto gpus =
      allocation({{"SLURM_GPUS_ON_NODE", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_TASKS_PER_NODE", "1(x3)"}});
  CHECK(shown(resolve({}, gpus).spec) == "n1:0-1 n2:2-3 n3:4-5");
  CHECK(shown(resolve({"--exclude=n2"}, gpus).spec) == "n1:0-1 n3:2-3");
  auto without_srun = allocation();
  without_srun.files.erase("/usr/bin/srun");
  CHECK(contains(resolve_error({}, without_srun),
                 "the 3 nodes of Slurm's job 12 are started by srun, which is not in PATH"));
  CHECK(contains(resolve_error({}, without_srun), "--slurm off"));
  CHECK(resolve({"--slurm=off"}, without_srun).spec.form == StartForm::local);
  CHECK(resolve({"--slurm=off"}, allocation()).spec.form == StartForm::local);
  CHECK(resolve({"--standalone"}, allocation()).spec.form == StartForm::local);
  CHECK(resolve({"--nnodes=1"}, allocation()).spec.form == StartForm::local);
  CHECK(resolve({"--nnodes=3"}, allocation()).spec.form == StartForm::slurm);
  CHECK(contains(resolve_error({"--nnodes=2"}, allocation()), "--nnodes=2, but 3 hosts have workers"));
  CHECK(resolve({"-H", "n1,n2"}, allocation()).spec.form == StartForm::ssh);
  CHECK(resolve({"-H", "n1,n2", "--slurm=on"}, allocation()).spec.form == StartForm::slurm);
  CHECK(contains(resolve_error({"--slurm=on"}), "--slurm=on: this is no job of Slurm"));
  CHECK(contains(resolve_error({}, allocation({{"SLURM_JOB_NODELIST", "n[1-"}})),
                 "SLURM_JOB_NODELIST, position 2"));
  const auto here = allocation(
      {{"SLURM_JOB_NODELIST", "node7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_GPUS_ON_NODE", "4"}});
  CHECK(resolve({}, here).spec.form == StartForm::local);
  CHECK(resolve({}, here).spec.agent.workers == 4);
}

TEST_CASE("The dry run shows rank, host, local rank and GPU") {
  FakeSystem system;
  system.texts["hosts"] = "n0 slots=4\nnode7 slots=2\n";
  const JobSpec spec =
      resolve({"--hostfile", "hosts", "--include", "n0:1,3@node7", "--rdzv-id", "job", "--ssh-port", "2222"},
              system)
          .spec;
  const std::string json = to_json(spec, system.allowance());
  CHECK(json.substr(0, json.find("  \"agent\": {")) ==
        muster::test::bytes_of_file(MUSTER_DRY_RUN_GOLDEN));  // the launcher's own part
  CHECK(placement_table(spec) ==
        "RANKS         HOST   WORKERS  LOCAL GPUS\n"
        "0-1           n0     2        1,3\n"
        "2-3           node7  2        0-1  (this machine)\n");
  CHECK(
      allowance_text(system.allowance()) ==
      "this machine gives us 6 of 64 processors (quota of cgroup '/box'), 4.0 GiB of memory (limit of cgroup "
      "'/pod')");
  CHECK(allowance_text({}).empty());
  CHECK(placement_table(resolve({}).spec).empty());
  CHECK(contains(placement_table(resolve({"-H", "n0,n1", "--nproc-per-node=gpu"}).spec),
                 "?             n1    one for each gpu"));
  const std::string local = to_json(resolve({"--nproc-per-node=2"}).spec, {});
  CHECK(contains(local, R"("host": "node7")"));
  CHECK(contains(local, R"("local_rank": 1)"));
}

}  // namespace resolve_hosts_test
