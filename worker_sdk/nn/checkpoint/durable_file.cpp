// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/durable_file.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/checkpoint/safetensors_header.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace muster::checkpoint {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

std::string advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space there, or give another folder";
    case EFBIG:
      return "; raise the limit of file sizes (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; give a folder that this user may write to";
    default:
      return "; check the path and its file system";
  }
}

void sync(int fd, const std::string& path) {
  if (::fsync(fd) != 0) fail_io("sync", path, errno);
}

}  // namespace

void fail_io(const std::string& what, const std::string& path, int error) {
  throw Error(ErrorCode::io,
              "cannot " + what + " " + path + ": " + std::generic_category().message(error) + advice(error));
}

DurableFile::DurableFile(std::string path, OnPiece on_piece)
    : path_(std::move(path)),
      on_piece_(std::move(on_piece)),
      fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (!fd_) fail_io("make", path_, errno);
}

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kPiece));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_io("write", path_, errno);
    }
    const auto count = static_cast<std::size_t>(written);
    hash_.update(bytes.first(count));  // just after it was copied, while it is in the cache
    bytes_ += count;
    bytes = bytes.subspan(count);
    if (on_piece_) on_piece_();
  }
}

FileEntry DurableFile::finish() {
  sync(fd_.get(), path_);
  if (::close(fd_.release()) != 0) fail_io("write", path_, errno);
  return {std::filesystem::path(path_).filename().string(), bytes_, hash_.digest()};
}

void write_tensors(DurableFile& file, std::span<const TensorView> tensors,
                   const std::map<std::string, std::string>& metadata) {
  const FileLayout layout = lay_out(tensors, metadata);
  file.write(layout.header);
  for (std::size_t i = 0; i < layout.order.size(); ++i)
    file.write({static_cast<const std::byte*>(tensors[layout.order[i]].data), layout.bytes[i]});
}

void sync_folder(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) fail_io("open the folder", path, errno);
  // Some file systems have nothing to sync for a folder and say so.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) fail_io("sync the folder", path, errno);
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_io("make the folder", path, error.value());
}

void rename_path(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_io("rename " + from + " to", to, errno);
}

void remove_quietly(const std::string& path) noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

OpenFile open_file(const std::string& path) {
  // A pipe would hold the open until somebody writes.
  OpenFile file{UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), 0};
  if (!file.fd) fail_io("open", path, errno);

  struct stat status {};

  if (::fstat(file.fd.get(), &status) != 0) fail_io("look at", path, errno);
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::io, path + " is no file; give the name of a file");
  file.bytes = static_cast<std::uint64_t>(status.st_size);
  return file;
}

FileEntry measure_file(const std::string& path, std::uint64_t expected) {
  const OpenFile file = open_file(path);
  FileEntry entry{std::filesystem::path(path).filename().string(), file.bytes, 0};
  if (file.bytes != expected) return entry;
  std::vector<std::byte> piece(kPiece);
  Xxh64 hash;
  // A file that grows meanwhile has no end, either.
  for (entry.bytes = 0; entry.bytes <= expected;) {
    const ssize_t count = ::read(file.fd.get(), piece.data(), piece.size());
    if (count == 0) break;
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_io("read", path, errno);
    }
    entry.bytes += static_cast<std::uint64_t>(count);
    hash.update({piece.data(), static_cast<std::size_t>(count)});
  }
  entry.xxh64 = hash.digest();
  return entry;
}

}  // namespace muster::checkpoint
