// SPDX-License-Identifier: Apache-2.0
#include "agent/core/pickle_reader.hpp"

#include "catch.hpp"

#include <stdexcept>
#include <string>

namespace pickle_reader_test {

using namespace muster::agent;
using namespace std::string_literals;

namespace {

std::string refusal(const std::string& bytes, const PickleLimits& limits = {},
                    const std::function<bool()>& go_on = {}) {
  try {
    const Pickle pickle(bytes, limits, go_on);
    return "taken";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("Numbers, texts, lists, tuples and dicts are read as Python writes them") {
  // pickle.dumps({"a": [1, 300, -5, 70000, 2**40, -2**40, True, None, 1.5], "b": ("x", "x"), "a2": ()}, 2)
  const std::string bytes =
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "aq\x01]q\x02(K\x01M,\x01J\xfb\xff\xff\xffJp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01"
      "\x8a\x06\x00\x00\x00\x00\x00\xff\x88NG?\xf8\x00\x00\x00\x00\x00\x00"
      "eX\x01\x00\x00\x00"
      "bq\x03X\x01\x00\x00\x00xq\x04h\x04\x86q\x05X\x02\x00\x00\x00"
      "a2q\x06)u."s;
  const Pickle pickle(bytes, {}, {});
  const auto list = pickle.items(pickle.at(pickle.root(), "a"));
  REQUIRE(list.size() == 9);
  std::vector<std::int64_t> numbers;
  for (const auto value : list) numbers.push_back(pickle.integer(value, -1));
  CHECK(numbers == std::vector<std::int64_t>{1, 300, -5, 70'000, std::int64_t{1} << 40,
                                             -(std::int64_t{1} << 40), 1, -1, -1});
  CHECK(pickle.kind(list[7]) == Pickle::Kind::none);
  CHECK(pickle.kind(list[8]) == Pickle::Kind::real);
  const auto tuple = pickle.items(pickle.at(pickle.root(), "b"));
  REQUIRE(tuple.size() == 2);
  CHECK(pickle.text(tuple[1]) == "x");
  CHECK(pickle.items(pickle.at(pickle.root(), "a2")).empty());
  CHECK(pickle.at(pickle.root(), "c") == pickle.none());
  CHECK(pickle.at(list[0], "c") == pickle.none());
  CHECK(pickle.pairs(pickle.root()).size() == 6);
}

TEST_CASE("What would import, call or build something is refused") {
  CHECK_THAT(refusal("\x80\x02"
                     "cos\nsystem\nX\x04\x00\x00\x00true\x85R."s),
             Contains("no plain data (at byte 3)"));
  for (const char* opcode : {"R", "b", "i", "o", "\x81", "\x92", "\x93", "P", "Q", "\x82", "\x97"})
    CHECK_THAT(refusal("\x80\x02N" + std::string(opcode)), Contains("no plain data"));
}

TEST_CASE("Whatever is not one whole pickle is refused") {
  CHECK_THAT(refusal(""), Contains("it is cut"));
  CHECK_THAT(refusal("\x80\x02K"), Contains("it is cut"));
  CHECK_THAT(refusal("\x80\x02X\xff\xff\xff\xffxy"), Contains("it is cut"));
  CHECK_THAT(refusal("\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xffxy"), Contains("it is cut"));
  CHECK_THAT(refusal("\x80\x06N."), Contains("later version"));
  CHECK_THAT(refusal("."), Contains("one value"));
  CHECK_THAT(refusal("NN."), Contains("one value"));
  CHECK_THAT(refusal("N(."), Contains("one value"));
  CHECK_THAT(refusal("N.N"), Contains("follows its end"));
  CHECK_THAT(refusal("a"), Contains("not there"));
  CHECK_THAT(refusal("NNa."), Contains("no container"));
  CHECK_THAT(refusal("](Na."), Contains("no container"));  // a value of what the mark begins
  CHECK_THAT(refusal("}(Nu."), Contains("without a value"));
  CHECK_THAT(refusal("u"), Contains("mark that is not there"));
  CHECK_THAT(refusal("h\x07"), Contains("not remembered"));
  CHECK_THAT(refusal("q\x07"), Contains("not there"));
  CHECK_THAT(refusal("\x8a\x09xxxxxxxxx"), Contains("64 bits"));
}

TEST_CASE("A list that holds itself is no endless one, and the limits end what is too large") {
  const Pickle pickle(
      "]q\x00h\x00"
      "a."s,
      {}, {});
  CHECK(pickle.items(pickle.root()) == std::vector<Pickle::Value>{pickle.root()});
  CHECK_THAT(refusal(std::string(1000, '(')), Contains("nested too deeply"));
  PickleLimits few;
  few.values = 100;
  CHECK_THAT(refusal(std::string(1000, 'N'), few), Contains("more values"));
  CHECK_THAT(refusal("]q\x00" + std::string(1000, '2')), Contains("no plain data"));
  few.bytes = 10;
  CHECK_THAT(refusal(std::string(11, 'N'), few), Contains("more bytes"));
  CHECK_THAT(refusal("N.", {}, [] { return false; }), Contains("too long"));
}

}  // namespace pickle_reader_test
