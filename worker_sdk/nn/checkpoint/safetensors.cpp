// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/safetensors.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/output_file.hpp"
#include "worker_sdk/comm/half.hpp"
#include "worker_sdk/nn/checkpoint/durable_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

namespace muster::checkpoint {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

void read_exactly(int fd, std::span<std::byte> to, std::uint64_t offset, const std::string& path) {
  while (!to.empty()) {
    const ssize_t count = ::pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_io("read", path, errno);
    if (count == 0) throw Error(ErrorCode::io, path + " became shorter while it was read; was it replaced?");
    to = to.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

template <typename Element, typename Convert>
void convert(const std::vector<std::byte>& bytes, std::span<float> to, Convert converted) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
    to[i] = converted(element);
  }
}

std::string folder_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string unfinished_name(const std::string& path) {
  return folder_of(path) + "/.writing-" + std::to_string(::getpid()) + "-" +
         std::filesystem::path(path).filename().string();
}

/// The path to put a file at; throws for what a file may not take the place of.
std::string place_of(const std::string& path) {
  OutputPlace place = find_output_file(path);
  if (!place.obstacle.empty())
    throw Error(ErrorCode::io, "cannot write " + path + ": " + place.obstacle + "; give the name of a file");
  return std::move(place.path);
}

/// Whether a file begins as those of torch.save do: a zip archive, before PyTorch 1.6 the pickle of its own
/// magic number. As the length of a header either is more than any file has.
bool is_of_torch_save(std::string_view first) {
  return (first.starts_with("PK\x03\x04") && !first.ends_with(std::string_view("\0\0\0\0", 4))) ||
         first == "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46";
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {
  OpenFile file = open_file(path_);
  fd_ = std::move(file.fd);
  const std::uint64_t size = file.bytes;
  std::string first(std::min(size, kLengthBytes), '\0');
  read_exactly(fd_.get(), std::as_writable_bytes(std::span(first)), 0, path_);
  if (is_of_torch_save(first))
    throw Error(ErrorCode::invalid_argument,
                path_ +
                    " is a file of torch.save; scripts/convert_weights.py of Muster's sources makes a "
                    "safetensors file of it");
  try {
    std::string json(header_length(first, size), '\0');
    read_exactly(fd_.get(), std::as_writable_bytes(std::span(json)), kLengthBytes, path_);
    header_ = parse_header(json, size - kLengthBytes - json.size());
    data_ = kLengthBytes + json.size();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw Error(error.code(), path_ + ": " + error.what());
  }
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  for (const StoredTensor& tensor : header_.tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

void SafetensorsFile::read_at(std::span<std::byte> to, std::uint64_t offset) const {
  if (fd_) return read_exactly(fd_.get(), to, offset, path_);
  read_exactly(open_file(path_).fd.get(), to, offset, path_);
}

void SafetensorsFile::read(const StoredTensor& tensor, std::span<std::byte> to) const {
  if (to.size() != tensor.bytes)
    throw Error(ErrorCode::invalid_argument, "tensor " + tensor.name + " of " + path_ + " has " +
                                                 std::to_string(tensor.bytes) + " bytes, not " +
                                                 std::to_string(to.size()));
  read_at(to, data_ + tensor.begin);
}

void SafetensorsFile::read_floats(const StoredTensor& tensor, std::span<float> to,
                                  std::uint64_t first) const {
  const std::size_t width = size_of(tensor.type);
  const std::uint64_t elements = tensor.bytes / width;
  if (first > elements || to.size() > elements - first)
    throw Error(ErrorCode::invalid_argument, "tensor " + tensor.name + " of " + path_ + " has the shape " +
                                                 text_of(tensor.shape) + ", and no elements " +
                                                 std::to_string(first) + " to " +
                                                 std::to_string(first + to.size()));
  const std::uint64_t begin = data_ + tensor.begin + first * width;
  if (tensor.type == Type::f32) return read_at(std::as_writable_bytes(to), begin);
  if (tensor.type != Type::bf16 && tensor.type != Type::f16 && tensor.type != Type::f64)
    throw Error(ErrorCode::invalid_argument, "tensor " + tensor.name + " of " + path_ + " has the type " +
                                                 std::string(name_of(tensor.type)) +
                                                 "; weights are F32, BF16, F16 or F64");
  std::vector<std::byte> bytes(to.size() * width);
  read_at(bytes, begin);
  if (tensor.type == Type::f64)
    convert<double>(bytes, to, [](double value) { return static_cast<float>(value); });
  else if (tensor.type == Type::f16)
    convert<Half>(bytes, to, [](Half value) { return widen(value); });
  else
    convert<BFloat16>(bytes, to, [](BFloat16 value) { return widen(value); });
}

void require_safetensors_place(const std::string& path) {
  const std::string unfinished = unfinished_name(place_of(path));
  remove_quietly(unfinished);
  const DurableFile file(unfinished);
  remove_quietly(unfinished);
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::span<const TensorView> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : place_(place_of(path)), unfinished_(unfinished_name(place_)) {
  FileLayout layout = lay_out(tensors, metadata);
  order_ = std::move(layout.order);
  bytes_ = std::move(layout.bytes);
  remove_quietly(unfinished_);  // of a killed process that had our number
  try {
    file_.emplace(unfinished_);
    file_->write(layout.header);
  } catch (...) {
    remove_quietly(unfinished_);
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_) remove_quietly(unfinished_);
}

void SafetensorsWriter::append(const void* data) {
  file_->write({static_cast<const std::byte*>(data), bytes_.at(appended_)});
  ++appended_;
}

void SafetensorsWriter::finish() {
  if (appended_ != bytes_.size())
    throw Error(ErrorCode::state, place_ + " was given " + std::to_string(appended_) + " of its " +
                                      std::to_string(bytes_.size()) + " tensors");
  file_->finish();
  rename_path(unfinished_, place_);
  file_.reset();
  sync_folder(folder_of(place_));
}

void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  for (const TensorView& tensor : tensors)
    if (tensor.slice && tensor.slice->count != elements_of(tensor.shape))
      throw Error(ErrorCode::invalid_argument,
                  "only a part of " + tensor.name + " is here, so that " + path + " cannot have it whole");
  SafetensorsWriter file(path, tensors, metadata);
  for (const std::size_t i : file.order()) file.append(tensors[i].data);
  file.finish();
}

}  // namespace muster::checkpoint
