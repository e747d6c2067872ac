// SPDX-License-Identifier: Apache-2.0
#include "agent/core/nccl_ras.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

using namespace muster::agent;

namespace {

const std::string kHost = "127.0.0.1";

/// A rank as NCCL 2.28.9 wrote it on an H100, with these counts.
std::string rank(int number, int pid, const std::string& counts, const std::string& host = kHost) {
  return R"({"rank": )" + std::to_string(number) + R"(, "host": ")" + host + R"(", "pid": )" +
         std::to_string(pid) + R"(, "cuda_dev": 0, "nvml_dev": 0, "status": {"init_state": 0,
         "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false},
         "collective_counts": {)" +
         counts + "}}";
}

std::string communicator(const std::string& hash, const std::string& ranks) {
  return R"({"hash": "0x)" + hash + R"(", "secondary_hash": "0x4888279d827b0d97:0x9aad9e75d3399692",
         "size": 2, "ranks_count": 2, "missing_ranks_count": 0, "ranks": [)" +
         ranks + R"(], "missing_ranks": []})";
}

std::string answer(const std::string& communicators) {
  return "OK\nOK\n{\n  \"nccl_version\": \"2.28.9\", \"communicators_count\": 1, \"communicators\": [" +
         communicators + "], \"ras\": {\"collection_time_sec\": 0.000, \"timeouts_count\": 0}}\n";
}

std::string two(const std::string& first, const std::string& second) {
  return answer(communicator("1c41c0e25cdd01f6", rank(0, 539, first) + "," + rank(1, 549, second)));
}

std::string text(const NcclRank& rank) {
  const NcclWait& wait = *rank.wait;
  return std::to_string(rank.pid) + " " + wait.operation + " #" + std::to_string(wait.sequence) + " of " +
         std::to_string(wait.by_all) + (wait.communicator.empty() ? "" : " of " + wait.communicator);
}

/// The ranks that wait.
std::vector<std::string> texts(const std::string& answer) {
  std::vector<std::string> all;
  for (const NcclRank& rank : nccl_ranks(answer))
    if (rank.wait) all.push_back(text(rank));
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("the ranks that have launched what another has not wait for it") {
  CHECK(texts(two(R"("Broadcast": 0, "AllReduce": 5)", R"("Broadcast": 0, "AllReduce": 4)")) ==
        Texts{"539 all_reduce #5 of 9"});
  CHECK(texts(two(R"("AllReduce": 5)", R"("AllReduce": 5)")).empty());
  CHECK(texts(two(R"("ReduceScatter": 1)", R"("AllReduce": 0)")) == Texts{"539 reduce_scatter #1 of 1"});
}

TEST_CASE("ranks in different collectives wait for each other in the same call") {
  CHECK(texts(two(R"("AllGather": 501, "AllReduce": 10)", R"("AllGather": 500, "AllReduce": 11)")) ==
        Texts{"539 all_gather #511 of 1022", "549 all_reduce #511 of 1022"});
}

TEST_CASE("a rank that is ahead in several kinds waits for one of them") {
  CHECK(texts(two(R"("AllGather": 6, "ReduceScatter": 5)", R"("AllGather": 5, "ReduceScatter": 4)")) ==
        Texts{"539 a collective #11 of 20"});
}

TEST_CASE("a process counts once, with the launches of all its communicators, which hashes tell apart") {
  const std::string one = R"("AllReduce": 1)";
  const std::string none = R"("AllReduce": 0)";
  const std::string both =
      answer(communicator("1c41c0e25cdd01f6", rank(0, 7, one) + "," + rank(1, 8, one)) + "," +
             communicator("f576938b064199f8", rank(0, 7, one) + "," + rank(1, 9, none)));
  CHECK(texts(both) == Texts{"7 all_reduce #1 of 1 of NCCL f576938b"});
  REQUIRE(nccl_ranks(both).size() == 3);
  CHECK(nccl_ranks(both)[0].launched == 2);
}

TEST_CASE("a process of another host with the same number is somebody else") {
  const auto ranks = nccl_ranks(answer(communicator("1", rank(0, 539, R"("AllReduce": 5)", "10.0.0.2") + "," +
                                                             rank(1, 549, R"("AllReduce": 4)") + "," +
                                                             rank(2, 539, R"("AllReduce": 6)"))));
  REQUIRE(find_nccl_rank(ranks, 539, {kHost}) != nullptr);
  CHECK(find_nccl_rank(ranks, 539, {kHost})->launched == 6);
  REQUIRE(find_nccl_rank(ranks, 539, {"10.0.0.2"}) != nullptr);
  CHECK(find_nccl_rank(ranks, 539, {"10.0.0.2"})->launched == 5);
  CHECK(find_nccl_rank(ranks, 539, {"10.0.0.3"}) == nullptr);
}

TEST_CASE("what is no answer in JSON tells nothing") {
  for (const std::string& text :
       {std::string(), std::string("OK\n"), std::string("ERROR: unknown command\n"), std::string("{"),
        std::string("{}"), std::string(R"({"communicators": 1})"),
        std::string(R"({"communicators": [1, {"ranks": 2}, {"ranks": [3, {}]}]})")}) {
    CAPTURE(text);
    CHECK(nccl_ranks(text).empty());
  }
  CHECK(texts(answer(communicator("1", rank(0, 1, R"("../x": 5)") + "," + rank(1, 2, R"("../x": -4)"))))
            .empty());
}

TEST_CASE("a name that is no collective is not passed on, and a hash keeps its digits only") {
  CHECK(texts(two(R"("All\nReduce": 5)", R"("All\nReduce": 4)")).empty());
  const std::string one = rank(0, 7, R"("AllReduce": 1)") + "," + rank(1, 8, R"("AllReduce": 0)");
  CHECK(texts(answer(communicator("1c\\n\\u001b[", one) + "," + communicator("2", ""))) ==
        Texts{"7 all_reduce #1 of 1 of NCCL 1c"});
}
