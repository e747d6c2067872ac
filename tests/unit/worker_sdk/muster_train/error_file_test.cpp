// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/error_file.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/folder.hpp"

#include <nlohmann/json.hpp>

TEST_CASE("The error file is torchelastic's") {
  const auto content =
      nlohmann::json::parse(muster::train::error_file_text("muster::Error: no \"disk\"", 1700000000));
  const auto& message = content.at("message");
  CHECK(message.at("message") == "muster::Error: no \"disk\"");
  CHECK(message.at("extraInfo").at("timestamp") == "1700000000");
  CHECK(message.at("extraInfo").at("py_callstack").is_string());
}

TEST_CASE("An error is told with its type") {
  CHECK(muster::train::describe(muster::Error(muster::ErrorCode::io, "no disk")) == "muster::Error: no disk");
  CHECK(muster::train::describe(std::runtime_error("x")) == "std::runtime_error: x");
}

TEST_CASE("Bytes that are no text do not spoil the error file") {
  CHECK(nlohmann::json::accept(muster::train::error_file_text("file \xff\xfe", 0)));
}

TEST_CASE("An error file that cannot be written is said, none asked for is fine") {
  CHECK(muster::train::write_error_file("", "x", 0));
  CHECK_FALSE(muster::train::write_error_file(muster::test::absent() + "/error.json", "x", 0));
}
