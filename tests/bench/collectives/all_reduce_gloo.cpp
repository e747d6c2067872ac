// SPDX-License-Identifier: Apache-2.0
// Gloo over TCP on the loopback device, ring all_reduce. Arguments: RANKS BUDGET_MS all_reduce:BYTES...
#include "tests/bench/collectives/measure.hpp"

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>

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
  const int ranks = std::atoi(argv[1]);
  std::string directory = (std::filesystem::temp_directory_path() / "all_reduce_gloo.XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) return 1;
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Gloo client(rank, ranks, directory, plan);
    run(client, "gloo", plan);
    client.barrier();
    std::fflush(stdout);
    _exit(0);
  }
  int failures = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    wait(&status);
    failures += status == 0 ? 0 : 1;
  }
  std::filesystem::remove_all(directory);
  return failures == 0 ? 0 : 1;
}
