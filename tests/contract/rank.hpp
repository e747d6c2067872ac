// SPDX-License-Identifier: Apache-2.0
// What the cases of the contract share: this rank, its group and its buffers. A case returns when all was
// right and throws Wrong when not.
#pragma once

#include "tests/contract/contract.hpp"
#include "tests/contract/values.hpp"
#include "worker_sdk/comm/call.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster::contract {

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr DataType kTypes[] = {DataType::u8,   DataType::i32, DataType::i64, DataType::f16,
                                      DataType::bf16, DataType::f32, DataType::f64};
inline constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max,
                                    ReduceOp::avg, ReduceOp::band,    ReduceOp::bor, ReduceOp::bxor};

class Rank {
 public:
  Rank(ProcessGroup& group, const Options& options, Memory& memory)
      : group_(group), options_(options), memory_(memory) {}

  ProcessGroup& group() const { return group_; }

  const Options& options() const { return options_; }

  Memory& memory() const { return memory_; }

  int rank() const { return group_.rank(); }

  int size() const { return group_.size(); }

  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  std::size_t index() const { return static_cast<std::size_t>(rank()); }

  void* allocate(std::size_t bytes) const { return group_.allocate(bytes, options_.allocates); }

  /// Filled with 0xEE, which is no expected value.
  std::unique_ptr<Buffer> buffer(std::size_t bytes, std::size_t shift = 0) const;
  std::unique_ptr<Buffer> buffer(const Bytes& bytes, std::size_t shift = 0) const;

  bool supports(DataType type, ReduceOp op) const;
  /// Every combination in small worlds; in large ones, and in quick mode, in one of four worlds.
  bool takes_turn(std::size_t combination) const;

  void expect(bool right, const std::string& what) const;
  /// `buffer` holds `bytes`, and the bytes around it are as they were.
  void expect_bytes(Buffer& buffer, const Bytes& bytes, const std::string& what) const;

 private:
  ProcessGroup& group_;
  const Options& options_;
  Memory& memory_;
};

inline constexpr std::size_t kAnyCount = 1000;

/// Element counts: none, one, odd, small and large; not multiples of the world.
std::vector<std::size_t> counts_of(const Options& options);

struct Case {
  const char* name;
  void (*run)(Rank& rank);
};

std::span<const Case> reduction_cases();
std::span<const Case> movement_cases();
std::span<const Case> message_cases();
std::span<const Case> order_cases();
std::span<const Case> failure_cases();

}  // namespace muster::contract
