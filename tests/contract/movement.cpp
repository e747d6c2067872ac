// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/rank.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace muster::contract {
namespace {

constexpr DataType kMoved[] = {DataType::u8, DataType::f16, DataType::f32, DataType::i64};

Bytes& append(Bytes& bytes, const Bytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
  return bytes;
}

/// Every type at a middle size, and every size of one type.
template <typename Run>
void types_and_counts(Rank& rank, Run run) {
  for (const DataType type : kMoved) run(Values{type, ReduceOp::sum, rank.size(), 21}, kAnyCount + 1);
  for (const std::size_t count : counts_of(rank.options()))
    run(Values{DataType::f32, ReduceOp::sum, rank.size(), 22}, count);
}

std::string text_of(const char* what, const Values& values, std::size_t count) {
  return std::string(what) + " of " + std::to_string(count) + " x " + std::string(name_of(values.type));
}

void broadcast(Rank& rank) {
  int root = 0;
  types_and_counts(rank, [&](const Values& values, std::size_t count) {
    root = (root + 1) % rank.size();
    const Bytes expected = exact(values, root, count);
    const std::string what = text_of("broadcast", values, count);
    const bool is_root = rank.rank() == root;
    const auto data = rank.buffer(exact(values, rank.rank(), count));
    Operation operation = operation_of(Collective::broadcast, count, values.type, data->data(), data->data());
    operation.call.root = root;
    rank.group().run(operation);
    rank.expect_bytes(*data, expected, what);
    const auto out = rank.buffer(expected.size(), rank.options().any_address ? 1 : 0);
    operation.in = is_root ? data->data() : nullptr;
    operation.out = out->data();
    rank.group().run(operation);
    rank.expect_bytes(*out, expected, what + ", out of place");
  });
}

void all_gather(Rank& rank) {
  types_and_counts(rank, [&](const Values& values, std::size_t count) {
    const Bytes own = exact(values, rank.rank(), count);
    Bytes expected;
    for (int peer = 0; peer < rank.size(); ++peer) append(expected, exact(values, peer, count));
    const std::string what = text_of("all_gather", values, count);
    const auto in = rank.buffer(own);
    const auto out = rank.buffer(expected.size());
    rank.group().run(operation_of(Collective::all_gather, count, values.type, in->data(), out->data()));
    rank.expect_bytes(*out, expected, what);
    rank.expect_bytes(*in, own, "the input of " + what);
    Bytes before(expected.size());
    std::copy(own.begin(), own.end(),
              before.begin() + static_cast<std::ptrdiff_t>(rank.index() * own.size()));
    const auto both = rank.buffer(before);
    rank.group().run(operation_of(Collective::all_gather, count, values.type,
                                  both->data() + rank.index() * own.size(), both->data()));
    rank.expect_bytes(*both, expected, what + ", in place");
  });
}

void all_gather_v(Rank& rank) {
  types_and_counts(rank, [&](const Values& values, std::size_t count) {
    // One rank gives nothing, another much.
    std::vector<std::uint64_t> counts(rank.ranks());
    Bytes expected;
    std::size_t before = 0;
    for (std::size_t peer = 0; peer < counts.size(); ++peer) {
      counts[peer] = peer == 1 ? 0 : count / 2 + peer * 3;
      if (peer < rank.index()) before += counts[peer];
      append(expected, exact(values, static_cast<int>(peer), counts[peer]));
    }
    const Bytes own = exact(values, rank.rank(), counts[rank.index()]);
    const auto in = rank.buffer(own);
    const auto out = rank.buffer(expected.size());
    Operation operation = operation_of(Collective::all_gather_v, 0, values.type, in->data(), out->data());
    operation.counts = counts.data();
    rank.group().run(operation);
    rank.expect_bytes(*out, expected, text_of("all_gather_v", values, count));
    const auto both = rank.buffer(expected.size());
    Bytes start(expected.size());
    const std::size_t offset = before * size_of(values.type);
    std::copy(own.begin(), own.end(), start.begin() + static_cast<std::ptrdiff_t>(offset));
    both->write(start);
    operation.in = both->data() + offset;
    operation.out = both->data();
    rank.group().run(operation);
    rank.expect_bytes(*both, expected, text_of("all_gather_v", values, count) + ", in place");
  });
}

void gather(Rank& rank) {
  int root = 0;
  types_and_counts(rank, [&](const Values& values, std::size_t count) {
    root = (root + 1) % rank.size();
    const bool is_root = rank.rank() == root;
    const Bytes own = exact(values, rank.rank(), count);
    Bytes expected;
    for (int peer = 0; peer < rank.size(); ++peer) append(expected, exact(values, peer, count));
    const auto in = rank.buffer(own);
    const auto out = rank.buffer(is_root ? expected.size() : 0);
    Operation operation =
        operation_of(Collective::gather, count, values.type, in->data(), is_root ? out->data() : nullptr);
    operation.call.root = root;
    rank.group().run(operation);
    if (is_root) rank.expect_bytes(*out, expected, text_of("gather", values, count));
    rank.expect_bytes(*in, own, "the input of gather");
    Bytes start(is_root ? expected.size() : 0);
    if (is_root)
      std::copy(own.begin(), own.end(),
                start.begin() + static_cast<std::ptrdiff_t>(rank.index() * own.size()));
    out->write(start);
    if (is_root) operation.in = out->data() + rank.index() * own.size();
    rank.group().run(operation);
    if (is_root) rank.expect_bytes(*out, expected, text_of("gather", values, count) + ", in place");
  });
}

void scatter(Rank& rank) {
  int root = 0;
  types_and_counts(rank, [&](const Values& values, std::size_t count) {
    root = (root + 1) % rank.size();
    const bool is_root = rank.rank() == root;
    const Bytes all = exact(values, root, count * rank.ranks());
    const Bytes expected = exact(values, root, count, count * rank.index());
    const auto in = rank.buffer(is_root ? all : Bytes());
    const auto out = rank.buffer(expected.size());
    Operation operation =
        operation_of(Collective::scatter, count, values.type, is_root ? in->data() : nullptr, out->data());
    operation.call.root = root;
    rank.group().run(operation);
    rank.expect_bytes(*out, expected, text_of("scatter", values, count));
    if (is_root) operation.out = in->data() + rank.index() * expected.size();
    rank.group().run(operation);
    if (is_root) rank.expect_bytes(*in, all, "the input of scatter");
    rank.expect_bytes(*out, expected, text_of("scatter", values, count) + ", in place at the root");
  });
}

void all_to_all(Rank& rank) {
  types_and_counts(rank, [&](const Values& values, std::size_t all) {
    const std::size_t count = all / rank.ranks() + (all > 0 ? 1 : 0);
    const Bytes own = exact(values, rank.rank(), count * rank.ranks());
    Bytes expected;
    for (int peer = 0; peer < rank.size(); ++peer)
      append(expected, exact(values, peer, count, count * rank.index()));
    const auto in = rank.buffer(own);
    const auto out = rank.buffer(expected.size());
    rank.group().run(operation_of(Collective::all_to_all, count, values.type, in->data(), out->data()));
    rank.expect_bytes(*out, expected, text_of("all_to_all", values, count));
    rank.expect_bytes(*in, own, "the input of all_to_all");
    rank.group().run(operation_of(Collective::all_to_all, count, values.type, in->data(), in->data()));
    rank.expect_bytes(*in, expected, text_of("all_to_all", values, count) + ", in place");
  });
}

/// In memory of allocate(), where fewest copies are made: all ranks there, and at different places of it, at
/// any address, with one of them elsewhere.
void allocated(Rank& rank, std::size_t count, bool mixed) {
  const Values values{DataType::f32, ReduceOp::sum, rank.size(), 23};
  const std::size_t bytes = count * sizeof(float);
  Memory& memory = rank.memory();
  auto* const shared = static_cast<std::byte*>(rank.allocate(2 * bytes * rank.ranks() + 64));
  rank.expect(reinterpret_cast<std::uintptr_t>(shared) % 64 == 0, "allocate gives aligned memory");
  rank.expect(memory.read(shared, bytes) == Bytes(bytes), "allocate gives zeroed memory");
  const auto elsewhere = rank.buffer(bytes * rank.ranks());
  const bool moves_out = mixed && rank.rank() == 1;
  std::size_t place = mixed ? rank.index() % 2 * bytes * rank.ranks() : 0;
  if (mixed && rank.options().any_address) place += 1 + rank.index();
  std::byte* const data = moves_out ? elsewhere->data() : shared + place;
  const Bytes own = exact(values, rank.rank(), count);
  const Bytes sum = exact_reduced(values, count);
  const auto run = [&](Collective collective, std::size_t elements, const void* in, void* out) {
    rank.group().run(operation_of(collective, elements, DataType::f32, in, out));
  };
  const std::string where = mixed ? " in mixed memory" : " in allocated memory";
  memory.write(data, own);
  run(Collective::all_reduce, count, data, data);
  rank.expect(memory.read(data, bytes) == sum, "all_reduce" + where);
  memory.write(data, own);
  run(Collective::broadcast, count, data, data);
  rank.expect(memory.read(data, bytes) == exact(values, 0, count), "broadcast" + where);
  Bytes everything;
  for (int peer = 0; peer < rank.size(); ++peer) append(everything, exact(values, peer, count));
  memory.write(data + rank.index() * bytes, own);
  run(Collective::all_gather, count, data + rank.index() * bytes, data);
  rank.expect(memory.read(data, everything.size()) == everything, "all_gather" + where);
  memory.write(data, exact(values, rank.rank(), count * rank.ranks()));
  run(Collective::reduce_scatter, count, data, data + rank.index() * bytes);
  rank.expect(
      memory.read(data + rank.index() * bytes, bytes) == exact_reduced(values, count, count * rank.index()),
      "reduce_scatter" + where);
  // From there to other memory.
  memory.write(data, own);
  const auto result = rank.buffer(bytes);
  run(Collective::all_reduce, count, data, result->data());
  rank.expect_bytes(*result, sum, "all_reduce out of place" + where);
  rank.expect(memory.read(data, bytes) == own, "the input of all_reduce" + where);
  rank.expect(memory.read(shared, place) == Bytes(place), "the bytes before the data" + where);
}

/// The calls with a root, and all_to_all, from there and to there.
void allocated_roots(Rank& rank, std::size_t count) {
  const Values values{DataType::f32, ReduceOp::sum, rank.size(), 24};
  const std::size_t bytes = count * sizeof(float);
  const int root = rank.size() - 1;
  const bool is_root = rank.rank() == root;
  Memory& memory = rank.memory();
  auto* const in = static_cast<std::byte*>(rank.allocate(bytes * rank.ranks()));
  auto* const out = static_cast<std::byte*>(rank.allocate(bytes * rank.ranks()));
  const Bytes own = exact(values, rank.rank(), count * rank.ranks());
  const auto run = [&](Collective collective, void* target) {
    memory.write(in, own);
    Operation operation = operation_of(collective, count, DataType::f32, in, target);
    if (collective != Collective::all_to_all) operation.call.root = root;
    rank.group().run(operation);
    return memory.read(target, bytes * rank.ranks());
  };
  const auto first = [&](const Bytes& all) {
    return Bytes(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(bytes));
  };
  const Bytes sum = exact_reduced(values, count);
  for (std::byte* const target : {out, in}) {
    const Bytes result = first(run(Collective::reduce, target));
    rank.expect(!is_root || result == sum, "reduce in allocated memory");
    rank.expect(is_root || memory.read(in, own.size()) == own, "the input of reduce in allocated memory");
  }
  rank.expect(first(run(Collective::scatter, out)) == exact(values, root, count, count * rank.index()),
              "scatter in allocated memory");
  Bytes parts;
  Bytes shares;
  for (int peer = 0; peer < rank.size(); ++peer) {
    append(parts, exact(values, peer, count));
    append(shares, exact(values, peer, count, count * rank.index()));
  }
  const Bytes gathered = run(Collective::gather, out);
  rank.expect(!is_root || gathered == parts, "gather in allocated memory");
  for (std::byte* const target : {out, in})
    rank.expect(run(Collective::all_to_all, target) == shares, "all_to_all in allocated memory");
}

void allocated_memory(Rank& rank) {
  for (const std::size_t count : {std::size_t{9}, std::size_t{70'001}}) {
    for (const bool mixed : {false, true}) allocated(rank, count, mixed);
    allocated_roots(rank, count);
  }
}

/// Nobody leaves a barrier before all have entered it.
void barriers(Rank& rank) {
  const auto now = [] { return std::int64_t{std::chrono::steady_clock::now().time_since_epoch().count()}; };
  for (int i = 0; i < 10; ++i) {
    std::int64_t times[2] = {now(), 0};
    rank.group().barrier();
    times[1] = now();
    Bytes mine(sizeof(times));
    std::memcpy(mine.data(), times, sizeof(times));
    const auto in = rank.buffer(mine);
    const auto out = rank.buffer(sizeof(times) * rank.ranks());
    rank.group().run(operation_of(Collective::all_gather, 2, DataType::i64, in->data(), out->data()));
    const Bytes all = out->read();
    for (std::size_t peer = 0; peer < rank.ranks(); ++peer) {
      std::int64_t entered = 0;
      std::memcpy(&entered, all.data() + peer * sizeof(times), sizeof(entered));
      rank.expect(entered <= times[1], "a barrier ended before rank " + std::to_string(peer) + " entered it");
    }
  }
}

constexpr Case kMovementCases[] = {
    {"broadcast", broadcast},       {"all_gather", all_gather},
    {"all_gather_v", all_gather_v}, {"gather", gather},
    {"scatter", scatter},           {"all_to_all", all_to_all},
    {"allocate", allocated_memory}, {"barrier", barriers},
};

}  // namespace

std::span<const Case> movement_cases() {
  return kMovementCases;
}

}  // namespace muster::contract
