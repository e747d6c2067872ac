// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/safetensors.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"

#include <sys/stat.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

using namespace muster::checkpoint;
using muster::test::error_of;
using muster::test::Folder;

namespace {

std::string with_length(const std::string& json) {
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += static_cast<char>(json.size() >> (8 * i) & 0xFFU);
  return text + json;
}

std::string refusal_of(const std::string& json, std::uint64_t data_bytes) {
  return error_of([&] { parse_header(json, data_bytes); });
}

std::string tensor(const std::string& name, const std::string& shape, int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

void says(const std::string& text, const std::string& part) {
  CHECK_THAT(text, Contains(part));
}

}  // namespace

TEST_CASE("A safetensors file reads back as it was written") {
  const Folder folder;
  const std::vector<float> weights{1.5F, -0.0F, std::numeric_limits<float>::denorm_min(), 4};
  const std::int64_t count = 7;
  const std::array<TensorView, 3> tensors{{{"b.weight", Type::f32, {2, 2}, weights.data()},
                                           {"empty", Type::f32, {0, 5}, nullptr},
                                           {"num_batches_tracked", Type::i64, {}, &count}}};
  const std::string path = folder / "weights.safetensors";
  write_safetensors(path, tensors, {{"format", "pt"}});
  const SafetensorsFile file(path);
  CHECK(file.metadata().at("format") == "pt");
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.tensors()[0].name == "num_batches_tracked");  // 8 bytes wide: first, so that all are aligned
  std::vector<float> read(4);
  file.read_floats(*file.find("b.weight"), read);
  CHECK(std::memcmp(read.data(), weights.data(), 16) == 0);
  std::int64_t number = 0;
  file.read(*file.find("num_batches_tracked"), std::as_writable_bytes(std::span(&number, 1)));
  CHECK(number == 7);
  CHECK(file.find("absent") == nullptr);
  CHECK(muster::test::bytes_of_file(path).find("{\"") == 8);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("Other float types are converted exactly") {
  const Folder folder;
  const std::array<std::uint16_t, 6> halves{0x3C00, 0xC000, 0x0001, 0x8000, 0x7C00, 0x3555};
  const std::array<std::uint16_t, 2> brains{0x3F80, 0xC049};
  const double wide = 0.1;
  const std::array<TensorView, 3> tensors{{{"f16", Type::f16, {6}, halves.data()},
                                           {"bf16", Type::bf16, {2}, brains.data()},
                                           {"f64", Type::f64, {1}, &wide}}};
  write_safetensors(folder / "x", tensors, {});
  const SafetensorsFile file(folder / "x");
  std::vector<float> read(6);
  file.read_floats(*file.find("f16"), read);
  CHECK(read == std::vector<float>{1, -2, 0x1p-24F, -0.0F, INFINITY, 0.333251953125F});
  CHECK(std::signbit(read[3]));
  read.resize(2);
  file.read_floats(*file.find("bf16"), read);
  CHECK(read == std::vector<float>{1, -3.140625F});
  read.resize(1);
  file.read_floats(*file.find("f64"), read);
  CHECK(read[0] == 0.1F);
}

TEST_CASE("Headers that break the format are refused, with the tensor and the rule") {
  const std::string good = tensor("a", "[2]", 0, 8);
  CHECK(refusal_of("{" + good + "}", 8).empty());
  CHECK(refusal_of("{" + good + "}   ", 8).empty());
  CHECK(refusal_of("{}", 0).empty());
  says(refusal_of("{" + good + "," + good + "}", 8), "the name \"a\" stands twice");
  says(refusal_of("{" + good + "," + tensor("b", "[1]", 4, 8) + "}", 8), "tensor \"b\" overlaps");
  says(refusal_of("{" + good + "," + tensor("b", "[1]", 12, 16) + "}", 16), "nobody owns the bytes 8 to 12");
  says(refusal_of("{" + tensor("a", "[2]", 4, 12) + "}", 12), "nobody owns the bytes 0 to 4");
  says(refusal_of("{" + good + "}", 7), "the file is cut");
  says(refusal_of("{" + good + "}", 9), "the tensors end at byte 8, the data have 9");
  says(refusal_of("{" + tensor("a", "[3]", 0, 8) + "}", 8), "shape [3] and type F32 does not have 8 bytes");
  says(refusal_of("{" + tensor("a", "[2]", 8, 0) + "}", 8), "ends before it begins");
  says(refusal_of("{" + tensor("a", "[4294967296,4294967296,16]", 0, 0) + "}", 0), "does not have 0 bytes");
  says(refusal_of("{" + tensor("a", "[-1]", 0, 8) + "}", 8), "a negative number");
  says(refusal_of("{" + tensor("a", "[2.0]", 0, 8) + "}", 8), "a fraction");
  says(refusal_of("{" + tensor("a", "[[2]]", 0, 8) + "}", 8), "an array");
  says(refusal_of("{" + tensor("a", "2", 0, 8) + "}", 8), "a number");
  says(refusal_of(R"({"a":{"dtype":"F7","shape":[2],"data_offsets":[0,8]}})", 8), "unknown type \"F7\"");
  says(refusal_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", 8), "more than two");
  says(refusal_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8), "lacks");
  says(refusal_of(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "lacks");
  says(refusal_of(R"({"a":{"dtype":"F32","dtype":"F32"}})", 8), "\"dtype\" twice");
  says(refusal_of(R"({"a":{"code":"x"}})", 8), "\"code\", which the format does not know");
  says(refusal_of(R"({"__metadata__":{"a":1}})", 0), "a number");
  says(refusal_of(R"({"__metadata__":{"a":"b","a":"c"}})", 0), "\"a\" twice");
  says(refusal_of("[1]", 0), "does not begin with '{'");
  says(refusal_of("{\"a\":", 0), "no JSON");
  says(refusal_of("{\"\xff\":{}}", 0), "no JSON");
  says(refusal_of("{}{}", 0), "no JSON");
}

TEST_CASE("A file that is cut, too short or no file is refused by its name") {
  const Folder folder;
  const std::string path = folder / "bad";
  const auto refusal = [&](const std::string& bytes) {
    muster::test::write_file(path, bytes);
    const std::string text = error_of([&] { const SafetensorsFile file(path); });
    CHECK(text.starts_with(path));
    return text;
  };
  says(refusal(""), "a file of 0 bytes");
  says(refusal("1234567"), "a file of 7 bytes");
  says(refusal("PK\x03\x04\x14 zip of torch.save"), "scripts/convert_weights.py");
  says(refusal("\x80\x02\x8a\nl\xfc\x9c"
               "F\xf9 j\xa8P\x19."),
       "scripts/convert_weights.py");
  says(refusal(std::string(8, '\xff') + "{}"), "the header would have 18446744073709551615 bytes");
  says(refusal(with_length("{}").substr(0, 9)), "the header would have 2 bytes");
  says(refusal(with_length("{" + tensor("a", "[2]", 0, 8) + "}") + "1234567"), "the file is cut");
  says(error_of([&] { const SafetensorsFile file(folder / "absent"); }), "No such file");
  says(error_of([&] { const SafetensorsFile file(folder.path()); }), "is no file");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  says(error_of([&] { const SafetensorsFile file(folder / "pipe"); }), "is no file");
}

TEST_CASE("Weights are written through symbolic links, and never in place of a pipe or device") {
  const Folder folder;
  const float weight = 3;
  const std::array<TensorView, 1> tensors{{{"a", Type::f32, {1}, &weight}}};
  std::filesystem::create_symlink("real", folder / "link");
  for (int i = 0; i < 2; ++i) {
    write_safetensors(folder / "link", tensors, {});
    CHECK(std::filesystem::is_symlink(folder / "link"));
    CHECK(SafetensorsFile(folder / "real").tensors().size() == 1);
  }
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder / "pipe", std::string("/dev/full")}) {
    const std::string refusal = error_of([&] { write_safetensors(path, tensors, {}); });
    says(refusal, "cannot write " + path + ": Is a ");
    CHECK(error_of([&] { require_safetensors_place(path); }) == refusal);
  }
  CHECK(std::filesystem::is_fifo(folder / "pipe"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 3);
}

TEST_CASE("A file that shrinks while it is read is an error, not a crash") {
  const Folder folder;
  const std::vector<float> weights(100000, 1);
  const std::array<TensorView, 1> tensors{{{"a", Type::f32, {100000}, weights.data()}}};
  write_safetensors(folder / "x", tensors, {});
  const SafetensorsFile file(folder / "x");
  std::filesystem::resize_file(folder / "x", 1000);
  std::vector<float> read(100000);
  says(error_of([&] { file.read_floats(file.tensors()[0], read); }), "became shorter");
}

TEST_CASE("Two tensors of one name are not written") {
  const Folder folder;
  const float one = 1;
  const std::array<TensorView, 2> tensors{{{"a", Type::f32, {}, &one}, {"a", Type::f32, {}, &one}}};
  says(error_of([&] { write_safetensors(folder / "x", tensors, {}); }), "two tensors are called \"a\"");
  CHECK(std::filesystem::is_empty(folder.path()));
}
