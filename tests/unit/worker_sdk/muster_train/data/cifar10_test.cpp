// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/data/cifar10.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/folder.hpp"

#include <filesystem>

namespace fs = std::filesystem;

namespace {

/// A record whose byte i of channel c is c * 80 + i % 80.
std::string record(int label) {
  std::string bytes(1, static_cast<char>(label));
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 1024; ++i) bytes.push_back(static_cast<char>(c * 80 + i % 80));
  return bytes;
}

std::string error_of_reading(const fs::path& folder) {
  return muster::test::error_of([&] { muster::data::load_cifar10(folder); }, muster::ErrorCode::io);
}

}  // namespace

TEST_CASE("Any subset of the batches with whole records is read, in order") {
  const muster::test::Folder folder;
  folder.write("data_batch_4.bin", record(4));
  folder.write("data_batch_2.bin", record(2) + record(9));
  folder.write("test_batch.bin", record(7));
  const muster::data::ImageData data = muster::data::load_cifar10(folder.path());
  CHECK(data.train.labels == std::vector<std::uint8_t>{2, 9, 4});
  CHECK(data.test.labels == std::vector<std::uint8_t>{7});
  CHECK(contains(data.description, "subset: 3 of 50,000 training images, 1 test images"));
  // Planes became pixels: red, green, blue side by side.
  REQUIRE(data.train.pixels.size() == 3 * 3072);
  for (const std::size_t i : {0U, 1U, 79U, 80U, 1023U})
    for (std::size_t c = 0; c < 3; ++c) CHECK(data.train.pixels[3072 + i * 3 + c] == c * 80 + i % 80);
}

TEST_CASE("Bad files are named, with their size and what to do") {
  const muster::test::Folder folder;
  CHECK(contains(error_of_reading(folder / "none"), "none does not exist; give the folder"));
  folder.write("plain", "x");
  CHECK(contains(error_of_reading(folder / "plain"), "plain is not a folder"));
  CHECK(contains(error_of_reading(folder.path()), "has none of data_batch_1.bin to data_batch_5.bin"));

  folder.write("cifar-10-python.tar.gz", "x");
  CHECK(contains(error_of_reading(folder / "cifar-10-python.tar.gz"),
                 "Python version; scripts/convert_cifar10.py"));
  folder.write("cifar-10-binary.tar.gz", "x");
  CHECK(contains(error_of_reading(folder / "cifar-10-binary.tar.gz"), "is an archive; unpack it"));
  folder.write("data_batch_1", "x");
  CHECK(contains(error_of_reading(folder.path()), "Python version; scripts/convert_cifar10.py"));

  folder.write("data_batch_1.bin", record(1));
  CHECK(contains(error_of_reading(folder.path()), "test_batch.bin: No such file"));
  folder.write("test_batch.bin", "");
  CHECK(contains(error_of_reading(folder.path()), "test_batch.bin (0 bytes) is empty"));
  folder.write("test_batch.bin", record(1).substr(0, 3000));
  CHECK(contains(error_of_reading(folder.path()), "test_batch.bin (3000 bytes) is not a whole number"));
  folder.write("test_batch.bin", record(1) + "ab");
  CHECK(contains(error_of_reading(folder.path()), "2 bytes are left over"));
  folder.write("test_batch.bin", record(1) + record(10));
  CHECK(contains(error_of_reading(folder.path()), "record 1 has label 10"));
  folder.write("test_batch.bin", record(9));
  CHECK(error_of_reading(folder.path()).empty());
}

TEST_CASE("A file far larger than CIFAR-10 is refused before memory is taken") {
  const muster::test::Folder folder;
  folder.write("data_batch_1.bin", record(1));
  fs::resize_file(folder / "data_batch_1.bin", 3073ULL * 2'000'000'000ULL);  // sparse
  CHECK(contains(error_of_reading(folder.path()), "holds more than 1000000 records"));
}
