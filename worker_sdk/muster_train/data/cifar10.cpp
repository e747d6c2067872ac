// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/data/cifar10.hpp"

#include "muster/error.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

namespace muster::data {
namespace {

namespace fs = std::filesystem;

/// Twenty times the whole of CIFAR-10, in one file: what is larger is something else.
constexpr std::uintmax_t kMaxRecordsPerFile = 1'000'000;

constexpr const char* kAdvice =
    "; give the folder with the files of CIFAR-10's binary version (cifar-10-batches-bin), or 'synthetic'";

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::io, text);
}

std::size_t record_count(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error) fail("cannot read " + file.string() + ": " + error.message() + kAdvice);
  const std::string name = file.string() + " (" + std::to_string(bytes) + " bytes)";
  if (bytes == 0) fail(name + " is empty; copy it again" + kAdvice);
  if (bytes % kCifar10RecordBytes != 0)
    fail(name +
         " is not a whole number of 3073-byte records: " + std::to_string(bytes % kCifar10RecordBytes) +
         " bytes are left over; it was cut short or is not CIFAR-10, copy it again" + kAdvice);
  if (bytes / kCifar10RecordBytes > kMaxRecordsPerFile)
    fail(name + " holds more than " + std::to_string(kMaxRecordsPerFile) + " records; it is not CIFAR-10" +
         kAdvice);
  return bytes / kCifar10RecordBytes;
}

void append_record(const std::vector<std::uint8_t>& record, std::uint8_t* pixels) {
  constexpr std::size_t kPlane = std::size_t{kImageSide} * kImageSide;
  const std::uint8_t* planes = record.data() + 1;
  for (std::size_t i = 0; i < kPlane; ++i)
    for (std::size_t c = 0; c < kChannels; ++c) pixels[i * kChannels + c] = planes[c * kPlane + i];
}

void append_file(const fs::path& file, Images& images) {
  const std::size_t records = record_count(file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail("cannot open " + file.string() + ": " + std::strerror(errno) + kAdvice);
  std::size_t at = images.size();
  images.labels.resize(at + records);
  images.pixels.resize((at + records) * kImageBytes);
  std::vector<std::uint8_t> record(kCifar10RecordBytes);
  for (std::size_t i = 0; i < records; ++i, ++at) {
    if (!stream.read(reinterpret_cast<char*>(record.data()), static_cast<std::streamsize>(record.size())))
      fail("reading " + file.string() + " stopped at record " + std::to_string(i) + " of " +
           std::to_string(records) + "; check the disk and copy it again");
    if (record[0] >= kClasses)
      fail(file.string() + ": record " + std::to_string(i) + " has label " + std::to_string(record[0]) +
           ", labels go from 0 to 9; it is not CIFAR-10" + kAdvice);
    images.labels[at] = record[0];
    append_record(record, images.pixels.data() + at * kImageBytes);
  }
}

bool is_archive(const fs::path& path) {
  return path.extension() == ".gz" || path.extension() == ".tgz";
}

/// Whether this is what others read: their archive, or the folder, whose batches are pickles.
bool is_python_version(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error))
    return is_archive(path) && path.filename().string().starts_with("cifar-10-python");
  return fs::exists(path / "data_batch_1", error) && !fs::exists(path / "data_batch_1.bin", error);
}

struct Files {
  std::vector<fs::path> train;
  fs::path test;
};

/// The files of a folder. Throws where it is none, or has none to train on though that is needed.
Files files_of(const fs::path& folder, bool needs_training) {
  std::error_code error;
  if (fs::is_regular_file(folder, error) && is_archive(folder) && !is_python_version(folder))
    fail(folder.string() + " is an archive; unpack it, and give the folder" + kAdvice);
  if (is_python_version(folder))
    fail(folder.string() +
         " is CIFAR-10's Python version; scripts/convert_cifar10.py of Muster's sources makes the binary "
         "version of it, which --data reads");
  if (!fs::is_directory(folder, error))
    fail(folder.string() + (fs::exists(folder, error) ? " is not a folder" : " does not exist") + kAdvice);
  Files files;
  for (int batch = 1; batch <= 5; ++batch) {
    const fs::path file = folder / ("data_batch_" + std::to_string(batch) + ".bin");
    // Only a name that is not there is left out; a broken link or an unreadable file is an error.
    if (fs::symlink_status(file, error).type() != fs::file_type::not_found) files.train.push_back(file);
  }
  if (files.train.empty() && needs_training)
    fail(folder.string() + " has none of data_batch_1.bin to data_batch_5.bin" + kAdvice);
  files.test = folder / "test_batch.bin";
  return files;
}

}  // namespace

ImageCounts count_cifar10(const fs::path& folder, bool needs_training) {
  const Files files = files_of(folder, needs_training);
  ImageCounts counts;
  for (const fs::path& file : files.train) counts.train += record_count(file);
  counts.test = record_count(files.test);
  return counts;
}

ImageData load_cifar10(const fs::path& folder, bool needs_training) {
  const Files files = files_of(folder, needs_training);
  ImageData data;
  for (const fs::path& file : files.train) append_file(file, data.train);
  append_file(files.test, data.test);
  data.description = "CIFAR-10 from " + folder.string() + ", ";
  if (data.train.size() < kCifar10TrainImages)
    data.description += "subset: " + std::to_string(data.train.size()) + " of 50,000 training images";
  else
    data.description += std::to_string(data.train.size()) + " training images";
  data.description += ", " + std::to_string(data.test.size()) + " test images";
  return data;
}

}  // namespace muster::data
