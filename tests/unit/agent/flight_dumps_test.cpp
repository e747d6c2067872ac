// SPDX-License-Identifier: Apache-2.0
#include "agent/flight_dumps.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <sys/stat.h>
#include <utime.h>

#include <chrono>
#include <exception>
#include <string>

using namespace muster;
using namespace muster::agent;
using namespace std::chrono_literals;
using namespace std::string_literals;

namespace {

/// pickle.dumps({"version": "2.4", "entries": [], "pg_config": {"0": {"ranks": "[0]"}}}, 2), without its memo
const std::string kDump =
    "\x80\x02}(X\x07\x00\x00\x00versionX\x03\x00\x00\x00"
    "2.4X\x07\x00\x00\x00"
    "entries]X\x09\x00\x00\x00pg_config}X\x01\x00\x00\x00"
    "0}X\x05\x00\x00\x00ranksX\x03\x00\x00\x00[0]ssu."s;

std::vector<FlightRank> read(FlightDumps& dumps, boost::asio::io_context& context) {
  std::vector<FlightRank> records;
  const auto run = [&dumps, &records]() -> boost::asio::awaitable<void> { records = co_await dumps.read(); };
  boost::asio::co_spawn(context, run, [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
  });
  context.restart();
  context.run();
  return records;
}

std::string variable(const Environment& environment, const char* name) {
  const std::string* value = find_variable(environment, name);
  return value == nullptr ? "(unset)" : *value;
}

}  // namespace

TEST_CASE("Flight records go into the log directory where NCCL can run and the user has said nothing") {
  boost::asio::io_context context;
  AgentSpec spec;
  Environment environment;
  FlightDumps without_gpus(context.get_executor(), false);
  spec.output.log_dir = "/logs";
  without_gpus.prepare(environment, spec, 2, {3}, "");
  CHECK(environment.empty());
  FlightDumps dumps(context.get_executor(), true);
  spec.output.log_dir.clear();
  dumps.prepare(environment, spec, 2, {3}, "");
  CHECK(environment.empty());
  spec.output.log_dir = "/logs";
  dumps.prepare(environment, spec, 2, {3}, "");
  CHECK(variable(environment, "TORCH_FR_DUMP_TEMP_FILE") == "/logs/flight_record_round2_rank");
  CHECK(environment.size() == 1);
  for (const char* name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}) {
    Environment of_user{{name, "/mine"}};
    dumps.prepare(of_user, spec, 2, {3}, "");
    CHECK(of_user == Environment{{name, "/mine"}});
    Environment inherited;
    AgentSpec exported = spec;
    exported.environment = {{name, "/mine"}};
    dumps.prepare(inherited, exported, 2, {3}, "");
    CHECK(inherited.empty());
  }
}

TEST_CASE("A job in a job leaves the files and the pipes of the job around it alone") {
  boost::asio::io_context context;
  AgentSpec spec;
  spec.limits.hang_timeout = 60s;
  spec.output.log_dir = "/outer";
  Environment environment;
  FlightDumps outer(context.get_executor(), true);
  outer.prepare(environment, spec, 12, {3}, "/outer_job");
  REQUIRE(environment.size() == 2);
  Environment inherited = environment;
  FlightDumps inner(context.get_executor(), true);
  spec.output.log_dir = "/inner";
  inner.prepare(inherited, spec, 0, {0}, "/inner_job");
  CHECK(variable(inherited, "TORCH_FR_DUMP_TEMP_FILE") == "/inner/flight_record_round0_rank");
  CHECK(variable(inherited, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE") == "/inner_job/flight_round0_rank");
  spec.output.log_dir.clear();
  inner.prepare(environment, spec, 0, {0}, "/inner_job");
  CHECK(environment.empty());
  // Like it, but none of ours.
  Environment of_user{{"TORCH_FR_DUMP_TEMP_FILE", "/mine/flight_record_round_rank"},
                      {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "/mine/my_flight_round1_rank"}};
  const Environment before = of_user;
  inner.prepare(of_user, spec, 0, {0}, "/inner_job");
  CHECK(of_user == before);
}

TEST_CASE("The pipe by which recorders are asked is set where there is a file, and hangs are watched for") {
  boost::asio::io_context context;
  FlightDumps dumps(context.get_executor(), true);
  AgentSpec spec;
  const auto pipe_of = [&](Environment environment, bool has_gpus = true) {
    FlightDumps used(context.get_executor(), has_gpus);
    used.prepare(environment, spec, 2, {3}, "/job");
    return variable(environment, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE");
  };
  spec.limits.hang_timeout = 60s;
  CHECK(pipe_of({}) == "(unset)");
  spec.output.log_dir = "/logs";
  CHECK(pipe_of({}) == "/job/flight_round2_rank");
  CHECK(pipe_of({}, false) == "(unset)");
  CHECK(pipe_of({{"TORCH_FR_DUMP_TEMP_FILE", "/mine"}}) == "/job/flight_round2_rank");
  CHECK(pipe_of({{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "/pipe"}}) == "/pipe");
  spec.environment = {{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "/exported"}};
  CHECK(pipe_of({}) == "(unset)");
  spec.environment.clear();
  spec.limits.hang_timeout = 0ms;
  CHECK(pipe_of({}) == "(unset)");
  Environment without_folder;
  spec.limits.hang_timeout = 60s;
  dumps.prepare(without_folder, spec, 2, {3}, "");
  CHECK(variable(without_folder, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE") == "(unset)");
}

TEST_CASE("What the workers of this round have written is read, and nothing else") {
  const test::Folder folder;
  boost::asio::io_context context;
  AgentSpec spec;
  spec.output.log_dir = folder.path();
  Environment environment;
  FlightDumps dumps(context.get_executor(), true);
  CHECK(read(dumps, context).empty());
  dumps.prepare(environment, spec, 1, {4, 5, 6, 7}, "");
  CHECK(read(dumps, context).empty());
  folder.write("flight_record_round1_rank4", kDump);
  folder.write("flight_record_round1_rank5", "no pickle");
  const std::string old = folder.write("flight_record_round1_rank6", kDump);
  const utimbuf long_ago{1'000'000'000, 1'000'000'000};
  REQUIRE(::utime(old.c_str(), &long_ago) == 0);
  // Nobody writes to it: whoever opened it would wait for ever.
  REQUIRE(::mkfifo((folder / "flight_record_round1_rank7").c_str(), 0600) == 0);
  const auto records = read(dumps, context);
  REQUIRE(records.size() == 1);
  CHECK(records[0].rank == 4);
  REQUIRE(records[0].groups.size() == 1);
  CHECK(records[0].groups[0].ranks == std::vector<int>{0});
}
