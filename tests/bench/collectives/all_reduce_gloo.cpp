// SPDX-License-Identifier: Apache-2.0
// Gloo over TCP on the loopback device, ring all_reduce. Started by `muster run` as ours are: where each rank
// is in a session of its own, the kernel gives them the processor otherwise than it does in one.
// Arguments: DIRECTORY BUDGET_MS all_reduce:BYTES..., an empty directory in which the ranks meet.
#include "tests/bench/collectives/measure.hpp"

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

using muster::bench::Case;
using muster::bench::Plan;

void sum(void* out, const void* a, const void* b, std::size_t count) {
  gloo::sum<float>(out, a, b, count);
}

class Gloo : public muster::bench::Client {
 public:
  Gloo(int rank, int ranks, const std::string& directory, const Plan& plan)
      : context_(std::make_shared<gloo::rendezvous::Context>(rank, ranks)),
        data_(muster::bench::most_bytes(plan, ranks)) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(directory);
    context_->connectFullMesh(store, device);
  }

  int rank() const override { return context_->rank; }

  int size() const override { return context_->size; }

  std::byte* first() override { return data_.data(); }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  void all_reduce(float* data, std::size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(data, count);
    options.setReduceFunction(sum);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    gloo::allreduce(options);
  }

  bool call(const Case& one, int) override {
    if (one.op != "all_reduce") return false;
    all_reduce(reinterpret_cast<float*>(data_.data()), one.bytes / sizeof(float));
    return true;
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<std::byte> data_;
};

}  // namespace

int main(int argc, char** argv) {
  const Plan plan = muster::bench::plan_from(argc, argv, 2);
  const char* const rank = std::getenv("RANK");
  if (rank == nullptr) {
    std::fprintf(stderr, "start it by `muster run`, whose workers have a RANK\n");
    return 2;
  }
  Gloo client(std::atoi(rank), std::atoi(std::getenv("WORLD_SIZE")), argv[1], plan);
  run(client, "gloo", plan);
  client.barrier();
  return 0;
}
