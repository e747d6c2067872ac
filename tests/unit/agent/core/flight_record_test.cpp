// SPDX-License-Identifier: Apache-2.0
// Dumps of NCCL's recorder are compared with PyTorch's own analyzer in tests/interop/flight.
#include "agent/core/flight_record.hpp"

#include "catch.hpp"

#include <stdexcept>
#include <string>

namespace flight_record_test {

using namespace muster::agent;
using namespace std::string_literals;

namespace {

/// An entry as PyTorch 2.15 writes it.
std::string entry(int sequence, const std::string& name, const std::string& more) {
  return R"({"record_id":0,"pg_id":0,"process_group":["0","default_pg"],"collective_seq_id":)" +
         std::to_string(sequence) + R"(,"p2p_seq_id":0,"op_id":1,"profiling_name":")" + name +
         R"(","input_sizes":[[4,8]],"input_dtypes":["Float"],"output_sizes":[[4,8]],"output_dtypes":["Float"],)" +
         R"("state":"scheduled","timeout_ms":600000,"is_p2p":false,)" + more + "}";
}

std::string record(const std::string& entries) {
  return R"({"version":"2.10","pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[0, 1]"}},)"
         R"("pg_status":{},"entries":[)" +
         entries + "]}";
}

}  // namespace

TEST_CASE("The answer of a control plane is read: what Gloo has retired is complete") {
  const FlightRank read = read_flight_json(record(entry(1, "gloo:all_reduce", R"("retired":true)") + "," +
                                                  entry(2, "gloo:broadcast", R"("retired":false)")),
                                           1, {});
  CHECK(read == FlightRank{1,
                           {{"default_pg",
                             "gloo 0",
                             {},
                             2,
                             {{2, "broadcast", "[[4, 8]]", "[[4, 8]]", "[Float]", "scheduled"}}}}});
  // Of NCCL that is one that has timed out.
  const FlightRank late = read_flight_json(record(entry(1, "nccl:all_reduce", R"("retired":true)")), 1, {});
  REQUIRE(late.groups.size() == 1);
  CHECK(late.groups[0].calls.size() == 1);
}

TEST_CASE("A rank that has made no collective is known to be in none, unless its ring is full") {
  const FlightGroup none{"default_pg", "gloo 0", {}, 0, {}, true};
  // The configuration is that of the group that was made last, without its name.
  CHECK(read_flight_json(R"({"version":"2.10","pg_config":{"":{"name":"","desc":"","ranks":"[0]"}}})", 0,
                         {}) == FlightRank{0, {none}});
  const std::string of_pair =
      R"({"process_group":["1","pair"],"collective_seq_id":7,"profiling_name":"gloo:barrier","retired":true,"record_id":)";
  CHECK(read_flight_json(record(of_pair + "0}"), 2, {}) ==
        FlightRank{2, {{"pair", "gloo 1", {}, 7, {}, true}, none}});
  CHECK(read_flight_json(record(of_pair + "9}"), 2, {}) == FlightRank{2, {{"pair", "gloo 1", {}, 7, {}}}});
}

TEST_CASE("A record is whole if none of its calls is missing, nor those of a group that has made some") {
  const auto whole = [](const std::string& entries, const std::string& status) {
    const FlightRank read = read_flight_json(
        R"({"version":"2.10","pg_status":{)" + status + R"(},"entries":[)" + entries + "]}", 0, {});
    // Without a call of the default group it is there only if the record is whole.
    return !read.groups.empty() && read.groups.back().id == "gloo 0";
  };
  const auto call = [](int id, int group) {
    return R"({"record_id":)" + std::to_string(id) + R"(,"pg_id":)" + std::to_string(group) +
           R"(,"process_group":["9","pair"],"collective_seq_id":1,"profiling_name":"gloo:barrier"})";
  };
  CHECK(whole("", ""));
  CHECK(whole(call(0, 1) + "," + call(1, 2), R"("1":{},"2":{})"));
  CHECK_FALSE(whole(call(1, 1), R"("1":{})"));
  CHECK_FALSE(whole(call(0, 1) + "," + call(2, 1), R"("1":{})"));  // complete ones are left out
  CHECK_FALSE(whole(call(0, 1), R"("1":{},"2":{})"));              // it was emptied since
  CHECK_FALSE(whole("", R"("1":{})"));
}

TEST_CASE("Members that no job has make no group") {
  // As in flight_dumps_test.cpp, with the ranks "[99999999]".
  const std::string dump =
      "\x80\x02}(X\x07\x00\x00\x00versionX\x03\x00\x00\x00"
      "2.4X\x09\x00\x00\x00pg_config}X\x01\x00\x00\x00"
      "0}X\x05\x00\x00\x00ranksX\x0a\x00\x00\x00[99999999]ssu."s;
  CHECK(read_flight_record(dump, 0, {}).groups.empty());
}

TEST_CASE("A dump of another version, or none at all, is refused") {
  CHECK_THROWS_AS(read_flight_record("", 0, {}), std::invalid_argument);
  CHECK_THROWS_AS(read_flight_record("}.", 0, {}), std::invalid_argument);
  CHECK_THROWS_AS(read_flight_record("N.", 0, {}), std::invalid_argument);
  for (const char* text : {"", "{}", "[]", "1", R"({"version":"3.0"})", R"({"version":2})", "{\"version\""})
    CHECK_THROWS_AS(read_flight_json(text, 0, {}), std::invalid_argument);
}

TEST_CASE("JSON of too many or too deeply nested values is refused, and so is what takes too long") {
  CHECK_THROWS_AS(read_flight_json(std::string(100, '[') + std::string(100, ']'), 0, {}),
                  std::invalid_argument);
  std::string many = R"({"version":"2.10","entries":[0)";
  for (std::size_t i = 0; i < kFlightJsonValues; ++i) many += ",0";
  CHECK_THROWS_AS(read_flight_json(many + "]}", 0, {}), std::invalid_argument);
  std::string some = R"({"version":"2.10","entries":[0)";
  for (int i = 0; i < 1000; ++i) some += ",0";
  CHECK_NOTHROW(read_flight_json(some + "]}", 0, [] { return true; }));
  CHECK_THROWS_AS(read_flight_json(some + "]}", 0, [] { return false; }), std::invalid_argument);
}

}  // namespace flight_record_test
