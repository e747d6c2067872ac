// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/launcher/job_spec/resolve.hpp"

namespace resolve_peer_test {

using namespace muster::launcher;
using muster::agent::NodeSpec;
using muster::agent::PeerNode;

TEST_CASE("who hosts the meeting, and where it is, follows torchrun") {
  struct Row {
    const char* flags;
    std::string host;
    int port;
    bool hosts;
    bool inferred;
    int rank;
  };

  const Row rows[] = {
      {"--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node7:7", "node7", 7, true, true, -1},
      {"--nnodes=1:4 --rdzv-backend=c10d --rdzv-endpoint=10.0.0.7", "10.0.0.7", 29400, true, true, -1},
      {"--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=[::1]:7", "::1", 7, true, true, -1},
      {"--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=far:7", "far", 7, false, false, -1},
      {"--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=far:7 --rdzv-conf=is_host=1", "far", 7, true, false,
       -1},
      {"--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node7:7 --rdzv-conf=is_host=false", "node7", 7, false,
       false, -1},
      {"--nnodes=2 --rdzv-backend=c10d", "localhost", 29400, true, true, -1},
      {"--nnodes=2 --rdzv-endpoint=node7:7", "node7", 7, true, false, 0},
      {"--nnodes=2 --master-addr=node7", "node7", 29500, true, false, 0},
      {"--nnodes=2 --master-addr=far --master-port=7 --node-rank=1", "far", 7, false, false, 1},
      {"--nnodes=2 --master-addr=far --node-rank=0", "far", 29500, true, false, 0},
      {"--nnodes=2 --rdzv-backend=static", "127.0.0.1", 29500, true, false, 0},
      {"--nnodes=2 --node-rank=1", "127.0.0.1", 29500, false, false, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.flags);
    const JobSpec spec = resolve(words(row.flags)).spec;
    CHECK(spec.form == StartForm::peer);
    const NodeSpec& node = spec.agent.node;
    CHECK(node.name.starts_with("node7:"));
    CHECK(node.coordinator == row.hosts);
    CHECK(node.coordinator_host == row.host);
    CHECK(node.coordinator_port == row.port);
    CHECK(std::get<PeerNode>(node.form).hosting_inferred == row.inferred);
    CHECK(node.node_rank == row.rank);
  }
}

TEST_CASE("what needs no other node stays a job of one") {
  for (const Arguments& flags : {Arguments{"--nnodes=1:4"},
                                 {"--nnodes=1", "--rdzv-backend=c10d", "--rdzv-endpoint=node7:7"},
                                 {"--standalone", "--nnodes=1:4"},
                                 {"--node-rank=0"}}) {
    CAPTURE(flags);
    CHECK(resolve(flags).spec.form == StartForm::local);
    CHECK(std::holds_alternative<muster::agent::AloneNode>(resolve(flags).spec.agent.node.form));
  }
}

TEST_CASE("Nodes of one job on one host have different names, whatever their process numbers are") {
  const Arguments flags = {"--nnodes=2", "--rdzv-endpoint=far:7", "--rdzv-backend=c10d"};
  CHECK(resolve(flags).spec.agent.node.name != resolve(flags).spec.agent.node.name);
}

TEST_CASE("times and names follow torchrun") {
  const Arguments c10d = {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node7:7"};
  CHECK(resolve(c10d).spec.agent.run_id == "none");
  CHECK(resolve(c10d).spec.agent.limits.join_timeout == std::chrono::seconds(600));
  CHECK(resolve({"--nnodes=2", "--node-rank=1"}).spec.agent.limits.join_timeout == std::chrono::seconds(900));
  CHECK(resolve({"--nnodes=2", "--node-rank=1", "--rdzv-conf=timeout=5"}).spec.agent.limits.join_timeout ==
        std::chrono::seconds(5));
  CHECK(resolve({"--nnodes=2", "--node-rank=1", "--rdzv-conf=timeout=5,join_timeout=7"})
            .spec.agent.limits.join_timeout == std::chrono::seconds(7));
  const JobSpec elastic = resolve({"--nnodes=2:4", "--rdzv-backend=c10d", "--rdzv-endpoint=node7:7",
                                   "--rdzv-id=J", "--max-restarts=3"})
                              .spec;
  CHECK(std::get<PeerNode>(elastic.agent.node.form).settings ==
        std::map<std::string, std::string>{{"--max-restarts", "3"},
                                           {"--nnodes", "2:4"},
                                           {"--rdzv-backend", "c10d"},
                                           {"--restart-policy", "backoff"},
                                           {"--store-proxy", "off"}});
}

TEST_CASE("flags that cannot bring nodes together are refused with what to write") {
  CHECK(contains(resolve_error({"--nnodes=2"}),
                 "--nnodes=2 needs more than one node; run the same command with"));
  CHECK(resolve_error({"--nnodes=2", "--rdzv-endpoint=node7"}) ==
        "--rdzv-endpoint=node7 has no port, and the static rendezvous has no default for one; give "
        "node7:29500, the same on "
        "every host");
  CHECK(contains(resolve_error({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node7:0"}),
                 "must know the port where they meet"));
  CHECK(contains(resolve_error({"--nnodes=2", "--master-addr=node7", "--master-port=0"}), "--master-port=0"));
  for (const char* host : {"0.0.0.0:7", "[::]:7"})
    CHECK(contains(resolve_error({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint", host}),
                   "no address that other nodes can reach"));
  CHECK(contains(resolve_error({"--nnodes=2", "--master-addr=far"}),
                 "'far' is not an address of this machine, but without --node-rank"));
  CHECK(contains(resolve_error({"--nnodes=2", "--node-rank=2"}),
                 "--node-rank=2 is no place among 2 nodes (--nnodes=2)"));
  CHECK(contains(resolve_error({"--nnodes=1:2", "--node-rank=1"}), "elastic"));
  CHECK(contains(resolve_error({"--nnodes=2", "--node-rank=1", "--secret-file=k", "--insecure-no-secret"}),
                 "contradict"));
  CHECK(contains(resolve_error({"--nnodes=2", "--node-rank=1", "--gather-logs=logs"}),
                 "each host starts its own"));
  CHECK(
      contains(resolve_error({"--nnodes=2", "--rdzv-backend=etcd"}), "--rdzv-backend=etcd is not available"));
}

TEST_CASE("without a key nodes meet on a loopback address only") {
  for (const char* host : {"localhost:7", "127.0.0.2:7", "[::1]:7"})
    CHECK(
        resolve_error({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint", host, "--insecure-no-secret"})
            .empty());
  for (const char* host : {"node7:7", "127.example:7", "10.0.0.1:7", "[fe80::1]:7"}) {
    const std::string error =
        resolve_error({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint", host, "--insecure-no-secret"});
    CHECK(contains(error, "is not a loopback address, and --insecure-no-secret is given"));
    CHECK(contains(error, "copy ~/.config/muster/key"));
  }
  CHECK(
      contains(resolve_error({"--nnodes=2", "--node-rank=1", "--master-addr=node7", "--insecure-no-secret"}),
               "is not a loopback address"));
  CHECK(contains(resolve_error({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:7",
                                "--interface=eth0", "--insecure-no-secret"}),
                 "--interface=eth0 and --insecure-no-secret are given"));
}

TEST_CASE("what has no effect is said") {
  CHECK(resolve({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node7:7"}).notices.empty());
  CHECK(resolve({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node7:7", "--node-rank=1"})
            .notices.size() == 1);
  CHECK(contains(resolve({"--nnodes=2", "--rdzv-backend=c10d"}).notices.at(0), "meet on this machine only"));
}

}  // namespace resolve_peer_test
