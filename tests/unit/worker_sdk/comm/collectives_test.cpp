// SPDX-License-Identifier: Apache-2.0
// The shared-memory algorithms as N worlds in N threads of one process: what ThreadSanitizer can see.
#include "catch.hpp"
#include "tests/unit/worker_sdk/comm/expected.hpp"
#include "tests/unit/worker_sdk/comm/thread_world.hpp"

#include <sys/mman.h>

#include <array>
#include <atomic>

namespace muster {
namespace {

using test::run_world;

constexpr std::array kOps = {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max};
#ifdef MUSTER_SANITIZED
constexpr std::array kWorlds = {1, 2, 3};  // where every access costs, the contract's threads see the rest
#else
constexpr std::array kWorlds = {1, 2, 3, 4, 8};
#endif

void check_all_well(const std::vector<test::Outcome>& outcomes) {
  for (const auto& outcome : outcomes) {
    INFO(outcome.text);
    CHECK_FALSE(outcome.code.has_value());
  }
}

/// One all_reduce of each operation, checked bit for bit; mismatches are counted, since Catch2 is not
/// thread-safe.
template <typename T>
void reduce_and_count(ProcessGroup& group, T* data, std::size_t count, std::atomic<int>& wrong) {
  std::uint32_t salt = 0;
  for (const ReduceOp op : kOps) {
    const auto values = test::values_of<T>(group.rank(), count, ++salt);
    std::copy(values.begin(), values.end(), data);
    group.all_reduce(data, count, test::type_of<T>(), op);
    if (!test::same_bits(data, test::reduced<T>(group.size(), count, op, salt))) ++wrong;
  }
}

template <typename T>
void check_type(int ranks) {
  // Around one slot, one chunk and several; no multiples of the world size.
  const std::size_t slot = shm::kSlotBytes / sizeof(T);
  const std::size_t chunk = shm::kChunkBytes / sizeof(T);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}, slot,
                                  slot + 1, chunk - 3, chunk, 2 * chunk + 17}) {
    INFO("ranks " << ranks << ", count " << count << ", bytes each " << sizeof(T));
    std::atomic<int> wrong{0};
    check_all_well(run_world(ranks, [&](ProcessGroup& group) {
      std::vector<T> any(count + 1);
      reduce_and_count(group, any.data(), count, wrong);
      reduce_and_count(group, static_cast<T*>(group.allocate(count * sizeof(T))), count, wrong);
    }));
    CHECK(wrong == 0);
  }
}

TEST_CASE("all_reduce gives the known answer for every type, operation, size and world") {
  // What depends on the world does not depend on the type.
  for (const int ranks : kWorlds) check_type<float>(ranks);
  check_type<std::uint8_t>(3);
  check_type<std::int32_t>(3);
  check_type<std::int64_t>(3);
  check_type<double>(3);
}

/// Memory whose last byte lies before a page that cannot be touched, and whose first byte after one.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    base_ = static_cast<std::byte*>(
        mmap(nullptr, bytes_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + kPage, bytes_, PROT_READ | PROT_WRITE);
  }

  ~GuardedMemory() { munmap(base_, bytes_ + 2 * kPage); }

  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* first() const { return base_ + kPage; }

  std::byte* ending_with(std::size_t bytes) const { return base_ + kPage + bytes_ - bytes; }

 private:
  static constexpr std::size_t kPage = 4096;
  std::size_t bytes_;
  std::byte* base_;
};

TEST_CASE("no byte beyond a buffer is touched") {
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{1023}, std::size_t{8193}, std::size_t{150'001}}) {
    std::atomic<int> wrong{0};
    check_all_well(run_world(3, [&](ProcessGroup& group) {
      const std::size_t bytes = count * sizeof(float);
      const GuardedMemory memory(bytes);
      for (std::byte* place : {memory.first(), memory.ending_with(bytes)}) {
        auto* const data = reinterpret_cast<float*>(place);
        reduce_and_count(group, data, count, wrong);
        group.broadcast(data, bytes, 1);
      }
    }));
    CHECK(wrong == 0);
  }
}

TEST_CASE("all_reduce takes memory at any address") {
  for (const std::size_t count : {std::size_t{5}, std::size_t{20'000}, std::size_t{70'000}}) {
    std::atomic<int> wrong{0};
    check_all_well(run_world(3, [&](ProcessGroup& group) {
      std::vector<std::byte> memory(count * sizeof(double) + 64);
      auto* const shared = static_cast<std::byte*>(group.allocate(memory.size()));
      for (std::byte* base : {memory.data(), shared}) {
        std::byte* const data = base + 1 + group.rank();
        const auto values = test::values_of<double>(group.rank(), count);
        std::memcpy(data, values.data(), count * sizeof(double));
        group.all_reduce(data, count, DataType::f64, ReduceOp::sum);
        const auto expected = test::reduced<double>(3, count, ReduceOp::sum);
        if (std::memcmp(data, expected.data(), count * sizeof(double)) != 0) ++wrong;
        // The bytes around it stay as they were.
        for (std::byte* before = base; before < data; ++before) wrong += *before == std::byte{0} ? 0 : 1;
      }
    }));
    CHECK(wrong == 0);
  }
}

TEST_CASE("ranks may mix shared and private memory, and different places of it") {
  constexpr std::size_t kCount = 100'000;
  std::atomic<int> wrong{0};
  check_all_well(run_world(4, [&](ProcessGroup& group) {
    auto* const shared = static_cast<float*>(group.allocate(2 * kCount * sizeof(float)));
    std::vector<float> any(kCount);
    for (int round = 0; round < 3; ++round) {
      float* data = shared + (group.rank() % 2 == 0 ? 0 : kCount);
      if (round == 1 && group.rank() == 2) data = any.data();
      reduce_and_count(group, data, kCount, wrong);
    }
  }));
  CHECK(wrong == 0);
}

TEST_CASE("broadcast copies from every root, for every size") {
  for (const int ranks : kWorlds) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, shm::kSlotBytes, shm::kSlotBytes + 1,
                                    3 * shm::kChunkBytes, 3 * shm::kChunkBytes + 5}) {
      INFO("ranks " << ranks << ", bytes " << bytes);
      std::atomic<int> wrong{0};
      check_all_well(run_world(ranks, [&](ProcessGroup& group) {
        auto* const shared = static_cast<std::uint8_t*>(group.allocate(bytes));
        std::vector<std::uint8_t> any(bytes + 1);
        for (int root = 0; root < ranks; ++root) {
          const auto expected = test::values_of<std::uint8_t>(root, bytes);
          for (std::uint8_t* data : {shared, any.data()}) {
            const auto own = test::values_of<std::uint8_t>(group.rank(), bytes);
            std::copy(own.begin(), own.end(), data);
            group.broadcast(data, bytes, root);
            if (!test::same_bits(data, expected)) ++wrong;
          }
        }
      }));
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a barrier ends after all ranks have begun it") {
  std::atomic<int> arrived{0};
  std::atomic<int> wrong{0};
  check_all_well(run_world(8, [&](ProcessGroup& group) {
    for (int round = 1; round <= 200; ++round) {
      ++arrived;
      group.barrier();
      if (arrived < 8 * round) ++wrong;
      group.barrier();
    }
  }));
  CHECK(wrong == 0);
}

TEST_CASE("many calls of changing size in a row keep their data apart") {
  std::atomic<int> wrong{0};
  check_all_well(run_world(4, [&](ProcessGroup& group) {
    std::vector<std::int64_t> any(60'000);
    auto* const shared = static_cast<std::int64_t*>(group.allocate(any.size() * sizeof(std::int64_t)));
    for (std::uint32_t round = 0; round < 120; ++round) {
      const std::size_t count = test::value_at<std::uint32_t>(0, round) % any.size();
      std::int64_t* const data = round % 3 == 0 ? shared : any.data();
      const auto values = test::values_of<std::int64_t>(group.rank(), count, round);
      std::copy(values.begin(), values.end(), data);
      group.all_reduce(data, count, DataType::i64, ReduceOp::sum);
      if (!test::same_bits(data, test::reduced<std::int64_t>(4, count, ReduceOp::sum, round))) ++wrong;
      if (round % 7 == 0) group.broadcast(any.data(), count, static_cast<int>(round % 4));
    }
  }));
  CHECK(wrong == 0);
}

TEST_CASE("allocate gives zeroed, aligned memory of each rank's own") {
  std::atomic<int> wrong{0};
  check_all_well(run_world(3, [&](ProcessGroup& group) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}}) {
      auto* const memory = static_cast<std::uint8_t*>(group.allocate(bytes));
      if (reinterpret_cast<std::uintptr_t>(memory) % 64 != 0) ++wrong;
      for (std::size_t i = 0; i < bytes; ++i) wrong += memory[i] == 0 ? 0 : 1;
      std::fill(memory, memory + bytes, static_cast<std::uint8_t>(group.rank() + 1));
      group.barrier();
      for (std::size_t i = 0; i < bytes; ++i) wrong += memory[i] == group.rank() + 1 ? 0 : 1;
    }
  }));
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace muster
