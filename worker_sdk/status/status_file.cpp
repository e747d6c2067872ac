// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/status_file.hpp"

#include "muster/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

namespace muster::status {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(ErrorCode::io, what + ": " + std::generic_category().message(error));
}

void* map(int fd, bool writable) {
  void* const base = ::mmap(nullptr, kFileBytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) fail("cannot map a status file", errno);
  return base;
}

std::uint64_t inode_of(int fd, const std::string& name) {
  struct stat status {};

  if (::fstat(fd, &status) != 0) fail("cannot look at " + name, errno);
  if (status.st_uid != ::geteuid())
    throw Error(ErrorCode::io,
                name + " belongs to user " + std::to_string(status.st_uid) + ", not to this process's user");
  if (static_cast<std::uint64_t>(status.st_size) != kFileBytes)
    throw Error(ErrorCode::io, name + " is no status file of this version");
  return status.st_ino;
}

}  // namespace

std::string Address::to_text() const {
  return std::to_string(pid) + ":" + std::to_string(fd) + ":" + std::to_string(inode);
}

std::optional<Address> Address::from_text(std::string_view text) {
  Address address;
  const char* next = text.data();
  const char* const end = text.data() + text.size();
  const auto read = [&](auto& value, bool last) {
    const auto [stop, error] = std::from_chars(next, end, value);
    if (error != std::errc() || (last ? stop != end : stop == end || *stop != ':')) return false;
    next = last ? stop : stop + 1;
    return true;
  };
  if (!read(address.pid, false) || !read(address.fd, false) || !read(address.inode, true)) return {};
  if (address.pid <= 0 || address.fd < 0) return {};
  return address;
}

StatusFile StatusFile::create() {
  UniqueFd fd(::memfd_create("muster-status", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) fail("cannot make a status file (memfd_create)", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(kFileBytes)) != 0) fail("cannot size a status file", errno);
  // The size is sealed, so that a process that maps the file cannot be made to touch memory that is not
  // there.
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) fail("cannot seal a status file", errno);
  const std::uint64_t inode = inode_of(fd.get(), "the new status file");
  Page* const page = new (map(fd.get(), true)) Page;
  page->identity.version.store(kVersion, std::memory_order_relaxed);
  page->identity.magic.store(kMagic, std::memory_order_release);
  return StatusFile(std::move(fd), page, inode);
}

StatusFile StatusFile::open(const Address& address, bool writable) {
  const std::string name = "/proc/" + std::to_string(address.pid) + "/fd/" + std::to_string(address.fd);
  const UniqueFd fd(::open(name.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail("cannot open the status file " + name, errno);
  if (inode_of(fd.get(), name) != address.inode)
    throw Error(ErrorCode::io, name + " is another file than the one that was announced");
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) throw Error(ErrorCode::io, name + " is no status file");
  StatusFile file(UniqueFd(), std::launder(static_cast<Page*>(map(fd.get(), writable))), address.inode);
  const Identity& identity = file.page().identity;
  if (identity.magic.load(std::memory_order_acquire) != kMagic ||
      identity.version.load(std::memory_order_relaxed) != kVersion)
    throw Error(ErrorCode::io, name + " is no status file of this version");
  return file;
}

StatusFile::~StatusFile() {
  if (page_ != nullptr) ::munmap(page_, kFileBytes);
}

StatusFile::StatusFile(StatusFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      page_(std::exchange(other.page_, nullptr)),
      inode_(std::exchange(other.inode_, 0)) {}

StatusFile& StatusFile::operator=(StatusFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(page_, other.page_);
  std::swap(inode_, other.inode_);
  return *this;
}

Address StatusFile::address() const {
  return {::getpid(), fd_.get(), inode_};
}

}  // namespace muster::status
