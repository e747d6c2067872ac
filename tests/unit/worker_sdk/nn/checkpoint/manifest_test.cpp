// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/manifest.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"

#include <cmath>

using namespace muster::checkpoint;
using muster::test::error_of;

namespace {

Manifest sample() {
  Manifest manifest{"muster 1", "resnet18", {}, {{"conv1.weight", {64, 3, 3, 3}}, {"n", {}}}, {}};
  manifest.scalars.set("step", std::int64_t{1} << 60);
  manifest.scalars.set("loss", 0.1);
  manifest.scalars.set("zero", 0.0);
  manifest.scalars.set("seed", std::string("18446744073709551615"));
  manifest.files = {{"model.safetensors", std::uint64_t{1} << 40, 0xFEDCBA9876543210U}};
  return manifest;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_json(sample());
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("A manifest survives the way through JSON") {
  CHECK(manifest_from_json(to_json(sample())) == sample());
  CHECK_THAT(to_json(sample()), Contains("\"version\": 2,"));
}

TEST_CASE("A manifest of slices survives the way through JSON, and older programs refuse it") {
  for (const bool has_state : {true, false}) {
    Manifest slices = sample();
    slices.files = {{"model-0-of-2.safetensors", 1, 2},
                    {"model-1-of-2.safetensors", 3, 4},
                    {"state-0-of-2.safetensors", 5, 6},
                    {"state-1-of-2.safetensors", 7, 8}};
    if (has_state) slices.state = {{"momentum/conv1.weight", {64, 3, 3, 3}}};
    CHECK(manifest_from_json(to_json(slices)) == slices);
    CHECK_THAT(to_json(slices), Contains("\"version\": 3,"));
  }
}

TEST_CASE("Values come back with their types, and what is missing is named") {
  const Scalars scalars = manifest_from_json(to_json(sample())).scalars;
  CHECK(scalars.integer("step") == std::int64_t{1} << 60);
  CHECK(scalars.number("loss") == 0.1);
  CHECK(scalars.text("seed") == "18446744073709551615");
  CHECK_THAT(error_of([&] { scalars.integer("epoch"); }), Contains("there is no epoch"));
  CHECK_THAT(error_of([&] { scalars.integer("loss"); }), Contains("loss is no integer"));
  CHECK_THAT(error_of([&] { scalars.text("step"); }), Contains("step is no text"));
  Scalars other;
  CHECK_THAT(error_of([&] { other.set("loss", NAN); }), Contains("loss is not finite"));
}

TEST_CASE("A manifest that is none is refused") {
  const auto refusal = [](const std::string& text) {
    const std::string why = error_of([&] { manifest_from_json(text); });
    CHECK_FALSE(why.empty());
    return why;
  };
  refusal("");
  refusal("[]");
  refusal("{}");
  refusal(to_json(sample()).substr(0, 300));
  CHECK_THAT(refusal(changed("\"version\": 2", "\"version\": 1")), Contains("version 1"));
  CHECK_THAT(refusal(changed("muster checkpoint", "other")), Contains("format"));
  refusal(changed("1099511627776", "-1"));
  refusal(changed("1099511627776", "1.5"));
  refusal(changed("fedcba9876543210", "fedcba987654321"));
  refusal(changed("fedcba9876543210", "fedcba987654321x"));
  refusal(changed("[64,", "[-64,"));
  refusal(changed("1152921504606846976", "18446744073709551615"));
  refusal(changed("1152921504606846976", "[]"));
}

TEST_CASE("A manifest in which one character was changed is refused") {
  for (const auto& [from, to] : {std::pair("1152921504606846976", "1152921504606846977"),
                                 {"conv1", "conv2"},
                                 {"0.1", "0.2"},
                                 {"\"first\": 1", "\"first\": 2"},
                                 {"]}\n", "]} \n"}})
    CHECK_THAT(error_of([&, edited = changed(from, to)] { manifest_from_json(edited); }),
               Contains("damaged"));
}

TEST_CASE("A number that is not in its range is named with it") {
  const Scalars scalars = sample().scalars;
  CHECK(scalars.integer("step", 0, std::int64_t{1} << 60) == std::int64_t{1} << 60);
  CHECK_THAT(error_of([&] { scalars.integer("step", 0, 9); }),
             Contains("is 1152921504606846976, not from 0 to 9"));
  CHECK_THAT(error_of([&] { scalars.integer("step", -1, -1); }), Contains("not from -1 to -1"));
}
