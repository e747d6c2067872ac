// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/rank.hpp"

namespace muster::contract {
namespace {

Operation message(Collective collective, const Values& values, std::size_t count, void* data, int peer,
                  int tag) {
  Operation operation = operation_of(collective, count, values.type, data, data);
  operation.call.root = peer;
  operation.call.tag = tag;
  return operation;
}

/// Around the ring, one call after another.
void one_by_one(Rank& rank) {
  const int next = (rank.rank() + 1) % rank.size();
  const int previous = (rank.rank() + rank.size() - 1) % rank.size();
  for (const std::size_t count : counts_of(rank.options())) {
    const Values values{DataType::f32, ReduceOp::sum, rank.size(), 31};
    const auto out = rank.buffer(exact(values, rank.rank(), count));
    const auto in = rank.buffer(count * sizeof(float));
    const auto send = message(Collective::send, values, count, out->data(), next, 5);
    const auto receive = message(Collective::recv, values, count, in->data(), previous, 5);
    // A send may wait for its receiver, so one rank of the ring receives first.
    if (rank.rank() == 0) rank.group().run(receive);
    rank.group().run(send);
    if (rank.rank() != 0) rank.group().run(receive);
    rank.expect_bytes(*in, exact(values, previous, count), std::to_string(count) + " x f32 from the ring");
    rank.expect_bytes(*out, exact(values, rank.rank(), count), "what was sent");
  }
}

/// Every rank sends to and receives from every other at once, sends first, larger than any staging.
void all_at_once(Rank& rank) {
  for (const std::size_t count : counts_of(rank.options())) {
    const Values values{DataType::i32, ReduceOp::sum, rank.size(), 32};
    std::vector<Operation> batch;
    std::vector<std::unique_ptr<Buffer>> out;
    std::vector<std::unique_ptr<Buffer>> in;
    for (int peer = 0; peer < rank.size(); ++peer) {
      out.push_back(rank.buffer(exact(values, rank.rank(), count, static_cast<std::size_t>(peer) * count)));
      in.push_back(rank.buffer(count * sizeof(std::int32_t)));
      if (peer != rank.rank())
        batch.push_back(message(Collective::send, values, count, out.back()->data(), peer, 0));
    }
    for (int peer = 0; peer < rank.size(); ++peer)
      if (peer != rank.rank())
        batch.push_back(
            message(Collective::recv, values, count, in[static_cast<std::size_t>(peer)]->data(), peer, 0));
    rank.group().run(batch);
    for (int peer = 0; peer < rank.size(); ++peer)
      if (peer != rank.rank())
        rank.expect_bytes(*in[static_cast<std::size_t>(peer)],
                          exact(values, peer, count, rank.index() * count),
                          std::to_string(count) + " x i32 from rank " + std::to_string(peer));
  }
}

/// Messages of one tag keep their order, those of two tags are told apart whatever the order.
void tags(Rank& rank) {
  constexpr int kMessages = 20;
  const Values values{DataType::u8, ReduceOp::sum, rank.size(), 33};
  const auto bytes_of = [](int number) { return static_cast<std::size_t>(number) * 7 % 50; };
  std::vector<Operation> batch;
  std::vector<std::unique_ptr<Buffer>> buffers;
  const bool sends = rank.rank() == 0;
  if (rank.rank() > 1) return;
  // The sender: tags 0 1 0 1 ...; the receiver: all of tag 1, then all of tag 0.
  for (int i = 0; i < kMessages; ++i) {
    const int number = sends ? i : (i < kMessages / 2 ? 2 * i + 1 : 2 * (i - kMessages / 2));
    const std::size_t bytes = bytes_of(number / 2);
    Bytes content(bytes, static_cast<std::byte>(number));
    buffers.push_back(sends ? rank.buffer(content) : rank.buffer(bytes));
    batch.push_back(message(sends ? Collective::send : Collective::recv, values, bytes,
                            buffers.back()->data(), 1 - rank.rank(), number % 2));
  }
  rank.group().run(batch);
  if (sends) return;
  for (int i = 0; i < kMessages; ++i) {
    const int number = i < kMessages / 2 ? 2 * i + 1 : 2 * (i - kMessages / 2);
    rank.expect_bytes(*buffers[static_cast<std::size_t>(i)],
                      Bytes(bytes_of(number / 2), static_cast<std::byte>(number)),
                      "message " + std::to_string(number) + " by its tag");
  }
}

void mixed_batches(Rank& rank) {
  constexpr std::size_t kCount = 3'001;
  const Values values{DataType::f32, ReduceOp::sum, rank.size(), 34};
  const int next = (rank.rank() + 1) % rank.size();
  const int previous = (rank.rank() + rank.size() - 1) % rank.size();
  const auto sum = rank.buffer(exact(values, rank.rank(), kCount));
  const auto maximum = rank.buffer(exact(values, rank.rank(), kCount));
  const auto out = rank.buffer(exact(values, rank.rank(), kCount));
  const auto in = rank.buffer(kCount * sizeof(float));
  std::vector<Operation> batch;
  batch.push_back(operation_of(Collective::all_reduce, kCount, DataType::f32, sum->data(), sum->data()));
  batch.push_back(message(Collective::send, values, kCount, out->data(), next, 1));
  batch.push_back(
      operation_of(Collective::all_reduce, kCount, DataType::f32, maximum->data(), maximum->data()));
  batch.back().call.op = ReduceOp::max;
  batch.push_back(message(Collective::recv, values, kCount, in->data(), previous, 1));
  rank.group().run(batch);
  rank.expect_bytes(*sum, exact_reduced(values, kCount), "the first all_reduce of a batch");
  rank.expect_bytes(*in, exact(values, previous, kCount), "the message of a batch");
  Values greatest = values;
  greatest.op = ReduceOp::max;
  rank.expect_bytes(*maximum, exact_reduced(greatest, kCount), "the second all_reduce of a batch");
  rank.group().run(std::vector<Operation>());
}

constexpr Case kMessageCases[] = {
    {"send and receive", one_by_one},
    {"sends and receives all at once", all_at_once},
    {"tags", tags},
    {"batches of both kinds", mixed_batches},
};

}  // namespace

std::span<const Case> message_cases() {
  return kMessageCases;
}

}  // namespace muster::contract
