// SPDX-License-Identifier: Apache-2.0
// Ours, by muster.h, started by `muster run` or mpirun; MUSTER_BACKEND says which backend.
// Arguments: NAME GROUP MEMORY BUDGET_MS OP:BYTES...
// Where messages travel it also prints what rank 0 sends in one call: "NAME OP.messages BYTES COUNT" and
// "NAME OP.sent BYTES BYTES".
// MEMORY: "any", or "both": then NAME-allocated is measured in memory of muster_alloc() and NAME in any.
// GROUP: "world"; "hosts": as if the machine were two hosts, hierarchical; "inside", "between": the parts of
// that, one host's group and the group of the hosts' first ranks.
#include "muster/muster.h"
#include "tests/bench/collectives/measure.hpp"

#include <cstdint>

namespace {

using muster::bench::Case;

void check(muster_rc code) {
  if (code == MUSTER_OK) return;
  std::fprintf(stderr, "%s\n", muster_error_text(nullptr));
  std::exit(1);
}

class Muster : public muster::bench::Client {
 public:
  Muster(muster_group* group, void* first, void* second)
      : group_(group), first_(static_cast<std::byte*>(first)), second_(static_cast<std::byte*>(second)) {
    info_.size = sizeof(info_);
    check(muster_group_get_info(group_, &info_));
  }

  int rank() const override { return info_.rank; }

  int size() const override { return info_.group_size; }

  std::byte* first() override { return first_; }

  void barrier() override { check(muster_barrier(group_, nullptr, nullptr)); }

  void all_reduce(float* data, std::size_t count) override {
    check(muster_all_reduce(group_, data, data, count, MUSTER_F32, MUSTER_SUM, nullptr, nullptr));
  }

  bool call(const Case& one, int turn) override {
    const std::uint64_t count = one.bytes / sizeof(float);
    if (one.op == "all_reduce") {
      all_reduce(reinterpret_cast<float*>(first_), count);
    } else if (one.op == "broadcast") {
      check(muster_broadcast(group_, first_, count, MUSTER_F32, turn % size(), nullptr, nullptr));
    } else if (one.op == "all_gather") {
      check(muster_all_gather(group_, first_, second_, count, MUSTER_F32, nullptr, nullptr));
    } else if (one.op == "reduce_scatter") {
      check(muster_reduce_scatter(group_, first_, second_, count, MUSTER_F32, MUSTER_SUM, nullptr, nullptr));
    } else if (one.op == "all_to_all") {
      check(muster_all_to_all(group_, first_, second_, count, MUSTER_F32, nullptr, nullptr));
    } else if (one.op == "barrier") {
      barrier();
    } else if (one.op == "ping_pong") {
      ping_pong(count);
    } else {
      return false;
    }
    return true;
  }

 private:
  void ping_pong(std::uint64_t count) {
    if (rank() > 1) return;
    if (rank() == 0) check(muster_send(group_, first_, count, MUSTER_F32, 1, 0, nullptr, nullptr));
    check(muster_recv(group_, second_, count, MUSTER_F32, 1 - rank(), 0, nullptr, nullptr));
    if (rank() == 1) check(muster_send(group_, first_, count, MUSTER_F32, 0, 0, nullptr, nullptr));
  }

  muster_group* group_;
  muster_group_info info_{};
  std::byte* first_;
  std::byte* second_;
};

void report_sent(Muster& client, muster_group* group, const std::string& name, const Case& one) {
  muster_traffic before{};
  muster_traffic after{};
  before.size = after.size = sizeof(before);
  check(muster_group_get_traffic(group, &before));
  if (!client.call(one, 0)) return;
  check(muster_group_get_traffic(group, &after));
  if (after.wire_messages == before.wire_messages) return;
  report(client, name, {one.op + ".messages", one.bytes},
         static_cast<double>(after.wire_messages - before.wire_messages));
  report(client, name, {one.op + ".sent", one.bytes},
         static_cast<double>(after.wire_bytes - before.wire_bytes));
}

/// The rank and the number of ranks before any library has been asked.
int variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

int host_of(int rank, int size) {
  return rank * 2 / size;
}

void measure(muster_group* group, const std::string& name, const std::string& memory,
             const muster::bench::Plan& plan) {
  muster_group_info info{};
  info.size = sizeof(info);
  check(muster_group_get_info(group, &info));
  const std::size_t bytes = muster::bench::most_bytes(plan, info.group_size);
  if (memory == "both") {
    void* first = nullptr;
    void* second = nullptr;
    check(muster_alloc(group, bytes, &first));
    check(muster_alloc(group, bytes, &second));
    Muster allocated(group, first, second);
    run(allocated, name + "-allocated", plan);
  }
  std::vector<std::byte> any(bytes);
  std::vector<std::byte> other(bytes);
  Muster plain(group, any.data(), other.data());
  run(plain, name, plan);
  for (const Case& one : plan.cases) report_sent(plain, group, name, one);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const std::string name = argv[1];
  const std::string kind = argv[2];
  const muster::bench::Plan plan = muster::bench::plan_from(argc, argv, 4);
  if (kind != "world") {
    const std::string host = "host" + std::to_string(host_of(variable("RANK"), variable("WORLD_SIZE")));
    setenv("MUSTER_HOST_NAME", host.c_str(), 1);
  }
  muster_world* world = nullptr;
  const auto start = muster::bench::Clock::now();
  check(muster_init(nullptr, &world));
  const double took = muster::bench::since(start);
  muster_group* group = nullptr;
  check(muster_group_world(world, &group));
  float unused[16] = {};
  Muster client(group, unused, unused);
  if (plan.cases.empty()) report_init(client, name, took);
  const int half = client.size() / 2;
  if (kind == "inside")
    check(muster_group_split(group, host_of(client.rank(), client.size()), client.rank(), &group));
  if (kind == "between")
    check(muster_group_split(group, client.rank() % half == 0 ? 0 : -1, client.rank(), &group));
  // Only one of the hosts prints, and those who take no part wait asleep.
  const bool prints = kind != "inside" || client.rank() < half;
  if (!prints) std::freopen("/dev/null", "w", stdout);
  if (group != nullptr && !plan.cases.empty()) measure(group, name, argv[3], plan);
  check(muster_barrier_named(world, "measured", 0));
  check(muster_finalize(world, 0));
  return 0;
}
