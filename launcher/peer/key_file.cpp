// SPDX-License-Identifier: Apache-2.0
#include "launcher/peer/key_file.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/tls/peer_identity.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

namespace muster::launcher {
namespace {

using rendezvous::Secret;

constexpr const char* kName = "key";
constexpr std::size_t kDigits = 2 * Secret::kBytes;
constexpr std::size_t kFileBytesMax = 4096;
/// Time within which a file that another host has just made shows up on a shared file system.
constexpr std::chrono::seconds kAppearsWithin{5};
constexpr std::chrono::milliseconds kLookInterval{50};

[[noreturn]] void refuse(const std::string& what, const std::string& advice) {
  throw LaunchError(kExitUsage, what + "; " + advice);
}

[[noreturn]] void refuse_errno(const std::string& what, int error, const std::string& advice) {
  refuse(what + ": " + std::strerror(error), advice);
}

[[noreturn]] void refuse_place(const std::string& what, int error, const std::string& advice) {
  throw NoPlaceForKey(kExitUsage, what + ": " + std::strerror(error) + "; " + advice);
}

std::string octal(mode_t mode) {
  std::string text = "0000";
  for (int i = 3; i >= 0; --i, mode >>= 3U)
    text[static_cast<std::size_t>(i)] = static_cast<char>('0' + (mode & 7U));
  return text;
}

std::string how_to_make(const std::string& path) {
  return "make one with: (umask 077; openssl rand -hex 32 >'" + path + "')";
}

/// Refuses what does not belong to us alone. `what` is "key file" or "directory of the key".
void check_owner(const struct stat& status, const std::string& what, const std::string& path) {
  if (status.st_uid != ::geteuid())
    refuse("the " + what + " " + path + " belongs to user " + std::to_string(status.st_uid) +
               ", not to us (" + std::to_string(::geteuid()) + ")",
           "a key that others could have chosen is not used: give your own with --secret-file" +
               (S_ISREG(status.st_mode)
                    ? ", or a copy of it, if you trust it: (umask 077; cp '" + path + "' FILE)"
                    : std::string()));
  if ((status.st_mode & 077U) != 0)
    refuse(
        "the " + what + " " + path + " is open to other users (mode " + octal(status.st_mode & 07777U) + ")",
        "run: chmod " + std::string(S_ISDIR(status.st_mode) ? "700" : "600") + " '" + path +
            "' (and make a new key if others may have read it)");
}

/// Refuses a directory above the key that others can write to, because they can put another key in its place.
void check_directory_above(const std::string& folder, const std::string& path) {
  struct stat status {};

  if (::stat(folder.c_str(), &status) != 0)
    refuse_errno("the directory " + folder + " above the key file " + path + " cannot be looked at", errno,
                 "give a key that is elsewhere with --secret-file");
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    refuse("the directory " + folder + " above the key file " + path + " belongs to user " +
               std::to_string(status.st_uid) + ", who could put another key there",
           "keep the key where all directories above it are yours or root's, and name it with --secret-file");
  if ((status.st_mode & 022U) != 0 && (status.st_mode & S_ISVTX) == 0)
    refuse(
        "the directory " + folder + " above the key file " + path +
            " can be written to by other users (mode " + octal(status.st_mode & 07777U) + ")",
        (status.st_uid == ::geteuid() ? "run: chmod go-w '" + folder + "', or keep" : std::string("keep")) +
            " the key elsewhere, the same on every host, and name it with --secret-file");
}

/// Checks all directories above what `path` stands for, by their real names.
void check_directories_above(const std::string& path) {
  std::error_code error;
  namespace fs = std::filesystem;
  const fs::path real = fs::canonical(fs::absolute(path, error).parent_path(), error);
  if (error) return;  // no file there either: that is said in its own way
  for (fs::path folder = real;; folder = folder.parent_path()) {
    check_directory_above(folder, path);
    if (folder == folder.root_path()) return;
  }
}

/// The text of a key, which is overwritten when it goes.
struct KeyText {
  std::array<char, kFileBytesMax + 1> bytes{};
  std::size_t size = 0;

  KeyText() = default;
  KeyText(const KeyText&) = delete;
  KeyText& operator=(const KeyText&) = delete;

  ~KeyText() { rendezvous::cleanse(bytes.data(), bytes.size()); }

  std::string_view view() const { return {bytes.data(), size}; }
};

void read_all(int fd, KeyText& text, const std::string& path) {
  while (text.size < text.bytes.size()) {
    const ssize_t count = ::read(fd, text.bytes.data() + text.size, text.bytes.size() - text.size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_errno("the key file " + path + " cannot be read", errno, "check the disk");
    if (count == 0) return;
    text.size += static_cast<std::size_t>(count);
  }
}

/// Reads the text of a key: its first 32 bytes are the key; what follows is folded in.
Secret parse(std::string_view text, const std::string& path) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.empty()) refuse("the key file " + path + " is empty", how_to_make(path));
  const auto digit = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  if (text.size() < kDigits || text.size() > kFileBytesMax || !std::all_of(text.begin(), text.end(), digit))
    refuse("the key file " + path + " does not hold a key of at least " + std::to_string(kDigits) +
               " hexadecimal digits on one line",
           how_to_make(path));
  Secret secret = Secret::from_hex(text.substr(0, kDigits));
  for (text.remove_prefix(kDigits); !text.empty(); text.remove_prefix(std::min(text.size(), kDigits))) {
    rendezvous::PeerIdentity more;
    more.job = text.substr(0, kDigits);
    secret = derive_key(secret, more);
    rendezvous::cleanse(more.job.data(), more.job.size());
  }
  return secret;
}

Secret read_open_file(int fd, const std::string& path) {
  struct stat status {};

  if (::fstat(fd, &status) != 0)
    refuse_errno("the key file " + path + " cannot be read", errno, "check the disk");
  if (!S_ISREG(status.st_mode)) refuse("the key file " + path + " is not a regular file", how_to_make(path));
  check_owner(status, "key file", path);
  KeyText text;
  read_all(fd, text, path);
  return parse(text.view(), path);
}

/// Reads a key file; nothing if there is no such file. `extra_flags` is O_NOFOLLOW or 0.
std::optional<Secret> try_read(int directory, const std::string& name, int extra_flags,
                               const std::string& path) {
  const UniqueFd fd(::openat(directory, name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | extra_flags));
  if (fd) return read_open_file(fd.get(), path);
  if (errno == ENOENT) return std::nullopt;
  if (errno == ELOOP)
    refuse("the key file " + path + " is a symbolic link",
           "name the file that it points to with --secret-file");
  refuse_errno("the key file " + path + " cannot be read", errno,
               errno == EACCES ? "it must belong to you: give another with --secret-file" : "check the path");
}

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return;
  refuse_place("the directory " + path + " for the key of your jobs cannot be made", errno,
               "give a key with --secret-file");
}

UniqueFd open_directory(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd)
    refuse_errno("the directory " + path + " of the key of your jobs cannot be opened", errno,
                 "it must be a directory of yours, no link; or give a key with --secret-file");

  struct stat status {};

  if (::fstat(fd.get(), &status) != 0)
    refuse_errno("the directory " + path + " cannot be read", errno, "check it");
  check_owner(status, "directory of the key", path);
  return fd;
}

/// Writes a new key. Returns 0 or the errno of what failed.
int write_key(int fd) {
  std::string text = Secret::random().hex();
  char line_end = '\n';
  const std::array<iovec, 2> parts{iovec{text.data(), text.size()}, iovec{&line_end, 1}};
  const ssize_t written = ::writev(fd, parts.data(), parts.size());
  const int error = written < 0 ? errno : ENOSPC;
  const bool whole = written == static_cast<ssize_t>(text.size() + 1);
  rendezvous::cleanse(text.data(), text.size());
  if (!whole) return error;
  return ::fsync(fd) == 0 ? 0 : errno;
}

/// Makes a key and gives it the name: only one of all who try does so, and what has the name is complete.
void publish(int directory, const std::string& path) {
  std::string nonce = Secret::random().hex().substr(0, 16);
  const std::string temporary = std::string(".") + kName + "." + nonce;
  const UniqueFd fd(
      ::openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  int error = fd ? write_key(fd.get()) : errno;
  if (fd && error == 0 && ::linkat(directory, temporary.c_str(), directory, kName, 0) != 0 &&
      errno != EEXIST) {
    // This serves file systems without hard links.
    if (::renameat2(directory, temporary.c_str(), directory, kName, RENAME_NOREPLACE) != 0 && errno != EEXIST)
      error = errno;
  }
  if (fd) ::unlinkat(directory, temporary.c_str(), 0);
  if (error != 0)
    refuse_place("the key " + path + " for your jobs cannot be made", error,
                 "give one with --secret-file, the same on every host");
}

}  // namespace

FileKey read_key_file(const std::string& path) {
  check_directories_above(path);
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  // If the path is a link, what it points to is checked as well.
  if (!error) check_directories_above(real);
  auto secret = try_read(AT_FDCWD, path, 0, path);
  if (!secret)
    refuse("the key file " + path + " does not exist", how_to_make(path) + " and copy it to every host");
  return {std::move(*secret), path};
}

FileKey own_key(const std::string& home) {
  if (home.empty())
    throw NoPlaceForKey(kExitUsage,
                        "there is no home directory for the key of your jobs; set HOME or give a key with "
                        "--secret-file");
  const std::string folder = home + "/.config/muster";
  const std::string path = folder + "/" + kName;
  make_directory(home + "/.config");
  make_directory(folder);
  const UniqueFd directory = open_directory(folder);
  check_directories_above(folder);
  auto secret = try_read(directory.get(), kName, O_NOFOLLOW, path);
  if (!secret) {
    publish(directory.get(), path);
    const auto end = std::chrono::steady_clock::now() + kAppearsWithin;
    while (!(secret = try_read(directory.get(), kName, O_NOFOLLOW, path)) &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(kLookInterval);
  }
  if (!secret)
    refuse("the key " + path + " was made but does not appear",
           "check that file system, or give --secret-file");
  return {std::move(*secret), path};
}

std::string home_directory() {
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') return home;
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : "";
}

rendezvous::Secret no_secret() {
  return rendezvous::Secret::from_bytes(std::string(rendezvous::Secret::kBytes, '\0'));
}

}  // namespace muster::launcher
