// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/nearest_name.hpp"

#include "catch.hpp"

#include <array>

using namespace muster;

namespace {

constexpr std::array<std::string_view, 4> kNames = {"run", "ps", "status", "nproc-per-node"};

}  // namespace

TEST_CASE("Letters that are changed, added or left out are counted") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("run", "run") == 0);
  CHECK(edit_distance("rn", "run") == 1);
  CHECK(edit_distance("runs", "run") == 1);
  CHECK(edit_distance("", "run") == 3);
  CHECK(edit_distance("sttaus", "status") == 2);
}

TEST_CASE("The nearest name is found, and none where too much differs") {
  CHECK(nearest_name("rn", kNames) == "run");
  CHECK(nearest_name("nproc-per-nde", kNames) == "nproc-per-node");
  CHECK(nearest_name("sttaus", kNames) == "status");
  CHECK(nearest_name("frobnicate", kNames).empty());
  CHECK(nearest_name("", kNames).empty());
  CHECK(nearest_name("x", kNames).empty());
}

TEST_CASE("A question quotes the name as it is written") {
  CHECK(did_you_mean("rn", kNames) == "did you mean 'run'?");
  CHECK(did_you_mean("statu", kNames, "--") == "did you mean '--status'?");
  CHECK(did_you_mean("frobnicate", kNames).empty());
}

TEST_CASE("Only a long flag is compared, without its value") {
  CHECK(did_you_mean_flag("--nproc-per-nde=4", kNames) == "did you mean '--nproc-per-node'?");
  CHECK(did_you_mean_flag("-rn", kNames).empty());
  CHECK(did_you_mean_flag("rn", kNames).empty());
  CHECK(did_you_mean_flag("--", kNames).empty());
  CHECK(did_you_mean_flag("", kNames).empty());
}
