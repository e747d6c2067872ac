// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/shm/memory.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

namespace muster::shm {
namespace {

[[noreturn]] void fail(const std::string& what, int error, const std::string& advice = "") {
  const bool no_memory = error == ENOMEM || error == ENOSPC;
  throw Error(no_memory ? ErrorCode::out_of_memory : ErrorCode::io,
              what + ": " + std::generic_category().message(error) + advice);
}

std::string name_of(std::uint64_t nonce) {
  char digits[17] = {};
  const auto end = std::to_chars(digits, digits + 16, nonce, 16).ptr;
  return "muster-" + std::string(digits, end);
}

std::string megabytes(std::uint64_t bytes) {
  return std::to_string((bytes + 999'999) / 1'000'000) + " MB";
}

Mapping map(int fd, std::size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) fail("cannot map " + megabytes(bytes) + " of shared memory", errno);
  // Fewer page faults where the administrator allows it; refused without harm elsewhere.
  madvise(base, bytes, MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(base), bytes, true);
}

int make_memfd(const std::string& name, std::size_t bytes) {
  UniqueFd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) fail("cannot make shared memory (memfd_create)", errno);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) < 0)
    fail("cannot make " + megabytes(bytes) + " of shared memory", errno,
         "; free memory or use smaller buffers");
  // No peer can shrink it under us.
  fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return fd.release();
}

/// All of it is reserved here: a full /dev/shm is an error with advice now, not a SIGBUS in the middle of a
/// step.
int make_file(const std::string& name, std::size_t bytes) {
  const std::string advice =
      "; enlarge it (docker run --shm-size=4g or --ipc=host; mount -o remount,size=4g /dev/shm) or use fewer "
      "ranks";

  struct statvfs space {};

  if (statvfs("/dev/shm", &space) == 0 && space.f_bavail * space.f_frsize < bytes)
    throw Error(ErrorCode::out_of_memory, "/dev/shm has " + megabytes(space.f_bavail * space.f_frsize) +
                                              " free, but " + megabytes(bytes) +
                                              " of shared memory are needed" + advice);
  UniqueFd fd(shm_open(("/" + name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) fail("cannot make /dev/shm/" + name, errno);
  const int error = posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) {
    shm_unlink(("/" + name).c_str());
    fail("cannot reserve " + megabytes(bytes) + " in /dev/shm", error, advice);
  }
  return fd.release();
}

/// The descriptor must be what the location says, not what another process happens to have under that number.
void verify(int fd, const MemoryLocation& location) {
  struct stat status {};

  if (fstat(fd, &status) < 0) fail("fstat of shared memory", errno);
  if (status.st_uid != geteuid())
    throw Error(ErrorCode::io, "the shared memory belongs to user " + std::to_string(status.st_uid) +
                                   ", not to this rank's user; run all ranks as one user");
  if (static_cast<std::uint64_t>(status.st_size) != location.bytes)
    throw Error(ErrorCode::io, "the shared memory has " + std::to_string(status.st_size) +
                                   " bytes instead of " + std::to_string(location.bytes) +
                                   "; are all ranks on one host?");
  if (location.kind != MemoryLocation::Kind::memfd) return;
  char target[128] = {};
  const ssize_t length =
      readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof(target) - 1);
  const std::string expected = "/memfd:" + name_of(location.nonce) + " (deleted)";
  if (length < 0 || std::string_view(target, static_cast<std::size_t>(length)) != expected)
    throw Error(ErrorCode::io,
                "process " + std::to_string(location.pid) +
                    " holds something else than this group's memory; are all ranks on one host?");
}

}  // namespace

Mapping::~Mapping() {
  if (owned_) munmap(base_, bytes_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      owned_(std::exchange(other.owned_, false)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(owned_, other.owned_);
  return *this;
}

std::string MemoryLocation::to_text() const {
  return std::to_string(static_cast<std::uint32_t>(kind)) + " " + std::to_string(pid) + " " +
         std::to_string(fd) + " " + std::to_string(bytes) + " " + std::to_string(nonce);
}

std::optional<MemoryLocation> MemoryLocation::from_text(std::string_view text) {
  MemoryLocation location;
  std::uint32_t kind = 0;
  const char* next = text.data();
  const char* const end = text.data() + text.size();
  const auto read = [&](auto& value) {
    while (next != end && *next == ' ') ++next;
    const auto [stop, error] = std::from_chars(next, end, value);
    next = stop;
    return error == std::errc();
  };
  if (!read(kind) || !read(location.pid) || !read(location.fd) || !read(location.bytes) ||
      !read(location.nonce))
    return {};
  if (next != end || kind > static_cast<std::uint32_t>(MemoryLocation::Kind::file) || location.bytes == 0)
    return {};
  location.kind = static_cast<MemoryLocation::Kind>(kind);
  return location;
}

ProcessMemory::~ProcessMemory() {
  while (!open_locations_.empty()) {
    const MemoryLocation last = open_locations_.back();
    close_location(last);
  }
}

Mapping ProcessMemory::create(std::size_t bytes, MemoryLocation& location) {
  location = MemoryLocation{kind_, getpid(), -1, bytes, random_number()};
  const std::string name = name_of(location.nonce);
  location.fd = kind_ == MemoryLocation::Kind::memfd ? make_memfd(name, bytes) : make_file(name, bytes);
  open_locations_.push_back(location);
  return map(location.fd, bytes);
}

Mapping ProcessMemory::open(const MemoryLocation& location) {
  const std::string path =
      location.kind == MemoryLocation::Kind::memfd
          ? "/proc/" + std::to_string(location.pid) + "/fd/" + std::to_string(location.fd)
          : "/dev/shm/" + name_of(location.nonce);
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) fail("cannot open " + path, errno);
  verify(fd.get(), location);
  return map(fd.get(), location.bytes);
}

void ProcessMemory::close_location(const MemoryLocation& location) {
  const auto found = std::find_if(open_locations_.begin(), open_locations_.end(),
                                  [&](const MemoryLocation& mine) { return mine.nonce == location.nonce; });
  if (found == open_locations_.end()) return;
  if (found->kind == MemoryLocation::Kind::file) shm_unlink(("/" + name_of(found->nonce)).c_str());
  close(found->fd);
  open_locations_.erase(found);
}

Mapping ThreadMemory::create(std::size_t bytes, MemoryLocation& location) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) fail("cannot make " + megabytes(bytes) + " of memory", errno);
  location = MemoryLocation{MemoryLocation::Kind::thread, getpid(), -1, bytes,
                            reinterpret_cast<std::uintptr_t>(base)};
  const std::lock_guard lock(mutex_);
  mappings_.emplace_back(static_cast<std::byte*>(base), bytes, true);
  return Mapping(static_cast<std::byte*>(base), bytes, false);
}

Mapping ThreadMemory::open(const MemoryLocation& location) {
  return Mapping(reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(location.nonce)), location.bytes,
                 false);
}

}  // namespace muster::shm
