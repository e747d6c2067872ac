// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/chain.hpp"

#include "catch.hpp"

namespace muster::nccl {
namespace {

Call call(std::uint64_t sequence, std::uint64_t count = 10) {
  Call one;
  one.sequence = sequence;
  one.count = count;
  one.collective = Collective::all_reduce;
  one.type = DataType::f32;
  return one;
}

Chain chain(std::uint64_t calls, std::uint64_t odd = 0) {
  Chain made;
  for (std::uint64_t i = 1; i <= calls; ++i) made.append(call(i, i == odd ? 99 : 10));
  return made;
}

/// What travels.
Record sent(const Chain& chain, std::size_t links = 64) {
  const auto record = Record::decode(chain.record(links).encode());
  REQUIRE(record.has_value());
  return *record;
}

std::optional<Difference> difference(const Chain& mine, const Record& theirs) {
  std::optional<Difference> found;
  (void)mine.compare(theirs, found);
  return found;
}

}  // namespace

TEST_CASE("equal chains are equal as far as both go") {
  std::optional<Difference> found;
  CHECK(chain(10).compare(sent(chain(7)), found) == 7);
  CHECK(chain(7).compare(sent(chain(10)), found) == 7);
  CHECK(chain(7).compare(sent(chain(0)), found) == 0);
  CHECK_FALSE(found.has_value());
}

TEST_CASE("the first call that differs is found, whoever is ahead") {
  for (const std::uint64_t mine : {5U, 6U, 40U}) {
    for (const std::uint64_t theirs : {5U, 6U, 40U}) {
      const auto found = difference(chain(mine, 5), sent(chain(theirs)));
      REQUIRE(found.has_value());
      CHECK(found->mine.count == 99);
      CHECK(found->mine.sequence == 5);
      CHECK(found->theirs.count == 10);
      CHECK(found->theirs.sequence == 5);
    }
  }
  CHECK_FALSE(difference(chain(4, 5), sent(chain(40))).has_value());
}

TEST_CASE("a rank far ahead compares with what it has kept") {
  const auto found = difference(chain(3000, 5), sent(chain(5)));
  REQUIRE(found.has_value());
  CHECK(found->mine.sequence == 5);
  // The one that is behind cannot: the other's post has only the newest calls.
  CHECK_FALSE(difference(chain(5), sent(chain(3000, 5))).has_value());
}

TEST_CASE("every part of a call counts") {
  const Call base = call(1);
  std::vector<Call> others(7, base);
  others[0].count = 11;
  others[1].type = DataType::i32;
  others[2].op = ReduceOp::max;
  others[3].root = 1;
  others[4].collective = Collective::reduce;
  others[5].signature = 1;
  others[6].sequence = 2;
  Chain mine;
  mine.append(base);
  for (const Call& other : others) {
    Chain theirs;
    theirs.append(other);
    CHECK(difference(mine, sent(theirs)).has_value());
  }
}

TEST_CASE("a send equals its receive, whatever collectives came before") {
  Call send = call(3);
  send.collective = Collective::send;
  send.root = 1;
  send.tag = 7;
  Call receive = send;
  receive.collective = Collective::recv;
  receive.root = 0;
  receive.sequence = 9;
  Chain mine;
  mine.append(send);
  Chain theirs;
  theirs.append(receive);
  CHECK_FALSE(difference(mine, sent(theirs)).has_value());
  receive.tag = 8;
  Chain tagged;
  tagged.append(receive);
  CHECK(difference(mine, sent(tagged)).has_value());
}

TEST_CASE("what is no record is refused") {
  const std::string good = chain(3).record(3).encode();
  CHECK(Record::decode(good).has_value());
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
    CHECK_FALSE(Record::decode(good.substr(0, bytes)).has_value());
  CHECK_FALSE(Record::decode(good + "x").has_value());
  std::string other = good;
  other[0] = '?';
  CHECK_FALSE(Record::decode(other).has_value());
}

}  // namespace muster::nccl
