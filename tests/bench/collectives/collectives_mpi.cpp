// SPDX-License-Identifier: Apache-2.0
// Open MPI with the algorithms it chooses; started by mpirun. Arguments: BUDGET_MS OP:BYTES...
#include "tests/bench/collectives/measure.hpp"

#include <mpi.h>

#include <cstddef>

namespace {

using muster::bench::Case;

class OpenMpi : public muster::bench::Client {
 public:
  explicit OpenMpi(const muster::bench::Plan& plan) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    first_.resize(muster::bench::most_bytes(plan, size_));
    second_.resize(first_.size());
  }

  int rank() const override { return rank_; }

  int size() const override { return size_; }

  std::byte* first() override { return first_.data(); }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  void all_reduce(float* data, std::size_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

  bool call(const Case& one, int turn) override {
    const int count = static_cast<int>(one.bytes / sizeof(float));
    void* const in = first_.data();
    void* const out = second_.data();
    if (one.op == "all_reduce") {
      all_reduce(static_cast<float*>(in), static_cast<std::size_t>(count));
    } else if (one.op == "broadcast") {
      MPI_Bcast(in, count, MPI_FLOAT, turn % size_, MPI_COMM_WORLD);
    } else if (one.op == "all_gather") {
      MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
    } else if (one.op == "reduce_scatter") {
      MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (one.op == "all_to_all") {
      MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
    } else if (one.op == "barrier") {
      barrier();
    } else if (one.op == "ping_pong") {
      ping_pong(in, out, count);
    } else {
      return false;
    }
    return true;
  }

 private:
  void ping_pong(void* in, void* out, int count) const {
    if (rank_ > 1) return;
    if (rank_ == 0) MPI_Send(in, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(out, count, MPI_FLOAT, 1 - rank_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank_ == 1) MPI_Send(in, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
  }

  int rank_ = 0;
  int size_ = 1;
  std::vector<std::byte> first_;
  std::vector<std::byte> second_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto start = muster::bench::Clock::now();
  MPI_Init(&argc, &argv);
  const double took = muster::bench::since(start);
  const muster::bench::Plan plan = muster::bench::plan_from(argc, argv, 1);
  OpenMpi client(plan);
  if (plan.cases.empty()) report_init(client, "openmpi", took);
  run(client, "openmpi", plan);
  MPI_Finalize();
  return 0;
}
