// SPDX-License-Identifier: Apache-2.0
// Our client and group on PyTorch's own store, as under torchrun.
#include "catch.hpp"
#include "tests/integration/comm/rank_processes.hpp"
#include "tests/integration/comm/store_suite.hpp"
#include "tests/support/shm_groups.hpp"
#include "tests/support/skip.hpp"
#include "worker_sdk/store/tcp_store.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace muster {
namespace {

/// Hosts a store, sets a key of its own, and prints what the client sets under another.
constexpr const char* kServer = R"(
import sys
import torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
print(store.port, flush=True)
store.set("from python", "hello")
print(store.get("from c++").decode(), flush=True)
sys.stdin.read()
)";

/// PyTorch in a process of its own; it ends when we close its input.
class TorchServer {
 public:
  explicit TorchServer(const char* python) {
    int input[2];
    int output[2];
    REQUIRE(pipe(input) == 0);
    REQUIRE(pipe(output) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(input[0], STDIN_FILENO);
      dup2(output[1], STDOUT_FILENO);
      for (const int fd : {input[0], input[1], output[0], output[1]}) close(fd);
      execl(python, python, "-c", kServer, nullptr);
      _exit(127);
    }
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    output_ = fdopen(output[0], "r");
  }

  ~TorchServer() {
    close(input_);
    std::fclose(output_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  TorchServer(const TorchServer&) = delete;
  TorchServer& operator=(const TorchServer&) = delete;

  std::string line() const {
    char text[256] = {};
    if (std::fgets(text, sizeof(text), output_) == nullptr) return "";
    return std::string(text).substr(0, std::string(text).find('\n'));
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  FILE* output_ = nullptr;
};

/// Empty when there is none, and then the test is skipped.
std::string torch_python() {
  const char* variable = std::getenv("MUSTER_TORCH_PYTHON");
  const std::string python = variable != nullptr ? variable : "";
  if (!python.empty() && access(python.c_str(), X_OK) == 0) return python;
  test::skip("no PyTorch at '" + python + "'; scripts/test.sh makes it, or set MUSTER_TORCH_PYTHON");
  return "";
}

TEST_CASE("the client does all its operations on PyTorch's server, and both see the same data") {
  const std::string python = torch_python();
  if (python.empty()) return;
  const TorchServer server(python.c_str());
  const int port = std::atoi(server.line().c_str());
  REQUIRE(port > 0);
  test::exercise_store(port);
  const auto store = connect_store("127.0.0.1", port);
  CHECK(store->get("from python") == "hello");
  store->set("from c++", "good day");
  CHECK(server.line() == "good day");
}

TEST_CASE("ranks join a group through PyTorch's server") {
  const std::string python = torch_python();
  if (python.empty()) return;
  const TorchServer server(python.c_str());
  const int port = std::atoi(server.line().c_str());
  REQUIRE(port > 0);
  for (const auto& result : test::run_processes(3, port, [](int rank, StoreClient&store) {
         const auto group = make_shm_process_group(&store, rank, 3);
         std::int64_t sum = rank + 1;
         group->all_reduce(&sum, 1, DataType::i64, ReduceOp::sum);
         return std::to_string(sum);
       })) {
    CHECK(result.text == "6");
  }
}

}  // namespace
}  // namespace muster
