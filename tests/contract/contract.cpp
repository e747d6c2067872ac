// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/contract.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/contract/rank.hpp"
#include "tests/integration/comm/rank_processes.hpp"

#include <chrono>
#include <exception>
#include <thread>

namespace muster::contract {
namespace {

constexpr std::byte kFresh{0xEE};

ProcessGroupOptions group_options() {
  ProcessGroupOptions options;
  // Longer than anything takes on a busy machine under a sanitizer, shorter than the test's own limit.
  options.timeout = std::chrono::seconds(50);
  return options;
}

}  // namespace

std::unique_ptr<Buffer> Rank::buffer(std::size_t bytes, std::size_t shift) const {
  return buffer(Bytes(bytes, kFresh), shift);
}

std::unique_ptr<Buffer> Rank::buffer(const Bytes& bytes, std::size_t shift) const {
  auto made = memory_.make(bytes.size(), shift);
  made->write(bytes);
  return made;
}

bool Rank::supports(DataType type, ReduceOp op) const {
  return is_defined(op, type) && (!options_.supports || options_.supports(type, op));
}

bool Rank::takes_turn(std::size_t combination) const {
  return (!options_.quick && size() <= 3) || combination % 4 == ranks() % 4;
}

void Rank::expect(bool right, const std::string& what) const {
  if (!right) throw Wrong(what);
}

void Rank::expect_bytes(Buffer& buffer, const Bytes& bytes, const std::string& what) const {
  const Bytes found = buffer.read();
  if (found != bytes) {
    std::size_t place = 0;
    while (place < std::min(found.size(), bytes.size()) && found[place] == bytes[place]) ++place;
    throw Wrong(what + ": wrong from byte " + std::to_string(place) + " of " + std::to_string(bytes.size()));
  }
  if (!buffer.is_intact()) throw Wrong(what + ": bytes around the buffer were changed");
}

std::vector<std::size_t> counts_of(const Options& options) {
  if (options.quick) return {0, 1, 7, 20'001};
  return {0, 1, 3, 10, 11, 1'023, 8'192, 8'193, 70'001, 131'072, 300'001};
}

std::string run_cases(ProcessGroup& group, const Options& options) {
  const auto memory = options.make_memory();
  Rank rank(group, options, *memory);
  for (const auto cases :
       {reduction_cases(), movement_cases(), message_cases(), order_cases(), failure_cases()}) {
    // What takes two ranks.
    if (group.size() == 1 && cases.data() == message_cases().data()) break;
    for (const Case& each : cases) {
      if (std::string(each.name).find(options.only) == std::string::npos) continue;
      try {
        each.run(rank);
        // So that a rank which is done does not leave others alone with a failure.
        group.barrier();
      } catch (const std::exception& error) {
        return std::string(each.name) + ": " + error.what();
      }
    }
  }
  return "";
}

void check_in_processes(const MakeGroup& make, const Options& options) {
  for (const int size : options.worlds) {
    const test::StoreProcess store;
    const auto results = test::run_processes(size, store.port(), [&](int rank, StoreClient& keys) {
      const auto group = make(keys, rank, size, group_options());
      std::string wrong = run_cases(*group, options);
      return wrong.empty() ? "right" : wrong;
    });
    for (int rank = 0; rank < size; ++rank) {
      INFO("rank " << rank << " of " << size);
      CHECK(results[static_cast<std::size_t>(rank)].text == "right");
    }
  }
}

void check_in_threads(const MakeGroups& make, const Options& options) {
  for (const int size : options.worlds) {
    auto groups = make(size, group_options());
    std::vector<std::string> wrong(groups.size(), "did not end");
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < groups.size(); ++rank)
      threads.emplace_back([&, rank] {
        wrong[rank] = run_cases(*groups[rank], options);
        groups[rank].reset();
      });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t rank = 0; rank < wrong.size(); ++rank) {
      INFO("rank " << rank << " of " << size);
      CHECK(wrong[rank] == "");
    }
  }
}

}  // namespace muster::contract
