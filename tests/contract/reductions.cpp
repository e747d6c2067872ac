// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/rank.hpp"

namespace muster::contract {
namespace {

std::string text_of(const Values& values, std::size_t count) {
  return std::to_string(count) + " x " + std::string(name_of(values.type)) + ", " +
         std::string(name_of(values.op));
}

Operation reduction(Collective collective, const Values& values, std::size_t count, const void* in,
                    void* out) {
  Operation operation = operation_of(collective, count, values.type, in, out);
  operation.call.op = values.op;
  return operation;
}

void all_reduce_once(Rank& rank, const Values& values, std::size_t count, std::size_t shift) {
  const Bytes input = exact(values, rank.rank(), count);
  const Bytes expected = exact_reduced(values, count);
  const auto both = rank.buffer(input, shift);
  rank.group().run(reduction(Collective::all_reduce, values, count, both->data(), both->data()));
  rank.expect_bytes(*both, expected, "all_reduce in place of " + text_of(values, count));
  const auto in = rank.buffer(input, shift);
  const auto out = rank.buffer(input.size());
  rank.group().run(reduction(Collective::all_reduce, values, count, in->data(), out->data()));
  rank.expect_bytes(*out, expected, "all_reduce of " + text_of(values, count));
  rank.expect_bytes(*in, input, "the input of all_reduce of " + text_of(values, count));
}

void reduce_once(Rank& rank, const Values& values, std::size_t count, int root) {
  const Bytes input = exact(values, rank.rank(), count);
  const Bytes expected = exact_reduced(values, count);
  for (const bool in_place : {true, false}) {
    const auto in = rank.buffer(input);
    const auto out = rank.buffer(input.size());
    const bool is_root = rank.rank() == root;
    void* const target = in_place ? in->data() : is_root ? out->data() : nullptr;
    Operation operation = reduction(Collective::reduce, values, count, in->data(), target);
    operation.call.root = root;
    rank.group().run(operation);
    const std::string what = "reduce to " + std::to_string(root) + " of " + text_of(values, count);
    if (is_root) rank.expect_bytes(in_place ? *in : *out, expected, what);
    if (!is_root || !in_place) rank.expect_bytes(*in, input, "the input of " + what);
  }
}

void reduce_scatter_once(Rank& rank, const Values& values, std::size_t count) {
  const Bytes input = exact(values, rank.rank(), count * rank.ranks());
  const Bytes expected = exact_reduced(values, count, count * rank.index());
  const std::string what = "reduce_scatter of " + text_of(values, count);
  const auto in = rank.buffer(input);
  const auto out = rank.buffer(expected.size());
  rank.group().run(reduction(Collective::reduce_scatter, values, count, in->data(), out->data()));
  rank.expect_bytes(*out, expected, what);
  rank.expect_bytes(*in, input, "the input of " + what);
  std::byte* const own = in->data() + rank.index() * expected.size();
  rank.group().run(reduction(Collective::reduce_scatter, values, count, in->data(), own));
  const Bytes after = in->read();
  const auto begin = after.begin() + static_cast<std::ptrdiff_t>(rank.index() * expected.size());
  rank.expect(Bytes(begin, begin + static_cast<std::ptrdiff_t>(expected.size())) == expected,
              what + ", in place");
  rank.expect(in->is_intact(), what + ", in place: bytes around the buffer");
}

/// Calls `run` with every defined combination of type and operation.
template <typename Run>
void every_combination(Rank& rank, Run run) {
  std::size_t combination = 0;
  for (const DataType type : kTypes)
    for (const ReduceOp op : kOps)
      if (rank.supports(type, op) && rank.takes_turn(++combination))
        run(Values{type, op, rank.size(), static_cast<std::uint32_t>(combination)});
}

void all_reduce_combinations(Rank& rank) {
  every_combination(rank, [&](const Values& values) {
    all_reduce_once(rank, values, 5, 0);
    all_reduce_once(rank, values, kAnyCount, 0);
  });
}

void all_reduce_sizes(Rank& rank) {
  const Values values{DataType::f32, ReduceOp::sum, rank.size(), 7};
  for (const std::size_t count : counts_of(rank.options())) all_reduce_once(rank, values, count, 0);
}

/// More than any backend has under way at once.
void long_buffers(Rank& rank) {
  if (rank.options().quick || rank.size() > 3) return;
  constexpr std::size_t kLong = 2'300'001;
  const Values values{DataType::f32, ReduceOp::sum, rank.size(), 12};
  all_reduce_once(rank, values, kLong, 0);
  reduce_once(rank, values, kLong, rank.size() - 1);
  reduce_scatter_once(rank, values, kLong / rank.ranks());
}

void all_reduce_addresses(Rank& rank) {
  if (!rank.options().any_address) return;
  // Another shift on every rank.
  for (const std::size_t count : {std::size_t{5}, kAnyCount, std::size_t{20'001}})
    all_reduce_once(rank, {DataType::f64, ReduceOp::sum, rank.size(), 8}, count, 1 + rank.index() % 7);
}

void reduce_roots(Rank& rank) {
  const Values values{DataType::f32, ReduceOp::sum, rank.size(), 9};
  for (int root = 0; root < rank.size(); ++root) reduce_once(rank, values, kAnyCount, root);
  for (const std::size_t count : counts_of(rank.options())) reduce_once(rank, values, count, rank.size() - 1);
  every_combination(rank, [&](const Values& each) { reduce_once(rank, each, 33, 0); });
}

void reduce_scatter_all(Rank& rank) {
  const Values values{DataType::f32, ReduceOp::sum, rank.size(), 10};
  for (const std::size_t count : counts_of(rank.options()))
    reduce_scatter_once(rank, values, count / rank.ranks() + (count > 0 ? 1 : 0));
  every_combination(rank, [&](const Values& each) { reduce_scatter_once(rank, each, 33); });
}

void rough_values(Rank& rank) {
  for (const DataType type : {DataType::f16, DataType::bf16, DataType::f32, DataType::f64}) {
    for (const std::size_t count : {std::size_t{11}, std::size_t{40'003}}) {
      if (!rank.supports(type, ReduceOp::sum)) continue;
      const Values values{type, ReduceOp::sum, rank.size(), 11};
      const Bytes input = rough(values, rank.rank(), count);
      const Bytes expected = rough_reduced(values, count);
      Bytes results[2];
      for (Bytes& result : results) {
        const auto data = rank.buffer(input);
        rank.group().run(reduction(Collective::all_reduce, values, count, data->data(), data->data()));
        result = data->read();
      }
      const std::string what = "rough values: " + text_of(values, count);
      rank.expect(far_apart(type, results[0], expected) == 0, what + " are far from the sum");
      rank.expect(results[0] == results[1], what + " are not the same in the second run");
      if (rank.options().rank_order)
        rank.expect(results[0] == expected, what + " were not added in rank order");
      const auto mine = rank.buffer(results[0]);
      const auto all = rank.buffer(results[0].size() * rank.ranks());
      rank.group().run(
          operation_of(Collective::all_gather, results[0].size(), DataType::u8, mine->data(), all->data()));
      Bytes copies;
      for (int peer = 0; peer < rank.size(); ++peer)
        copies.insert(copies.end(), results[0].begin(), results[0].end());
      rank.expect(all->read() == copies, what + " are not the same on all ranks");
    }
  }
}

/// Where an element lies does not matter to the order in which it is summed.
void rough_slices(Rank& rank) {
  constexpr std::size_t kCount = 20'003;
  for (const DataType type : {DataType::bf16, DataType::f32}) {
    if (!rank.supports(type, ReduceOp::sum)) continue;
    const Values values{type, ReduceOp::sum, rank.size(), 13};
    const auto in = rank.buffer(rough(values, rank.rank(), kCount * rank.ranks()));
    const Bytes all = rough_reduced(values, kCount * rank.ranks());
    const std::size_t bytes = kCount * size_of(type);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank.index() * bytes);
    const Bytes expected(begin, begin + static_cast<std::ptrdiff_t>(bytes));
    const auto out = rank.buffer(bytes);
    rank.group().run(reduction(Collective::reduce_scatter, values, kCount, in->data(), out->data()));
    const std::string what = "rough slices of " + text_of(values, kCount);
    rank.expect(far_apart(type, out->read(), expected) == 0, what + " are far from the sum");
    if (rank.options().rank_order) rank.expect_bytes(*out, expected, what + ", in rank order");
  }
}

constexpr Case kReductionCases[] = {
    {"all_reduce of every type and operation", all_reduce_combinations},
    {"all_reduce of every size", all_reduce_sizes},
    {"reductions of long buffers", long_buffers},
    {"all_reduce at any address", all_reduce_addresses},
    {"reduce", reduce_roots},
    {"reduce_scatter", reduce_scatter_all},
    {"the same bits on all ranks and in every run", rough_values},
    {"the same bits of slices as of the whole", rough_slices},
};

}  // namespace

std::span<const Case> reduction_cases() {
  return kReductionCases;
}

}  // namespace muster::contract
