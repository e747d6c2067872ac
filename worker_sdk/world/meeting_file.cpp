// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/meeting_file.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <utility>

namespace muster {
namespace {

constexpr const char* kFirstWords = "muster store";
constexpr std::size_t kLongestNote = 4096;

[[noreturn]] void fail(ErrorCode code, const std::string& path, const std::string& why) {
  throw Error(code, "the meeting file '" + path + "' " + why);
}

[[noreturn]] void fail_errno(const std::string& path, const char* what, int error) {
  fail(ErrorCode::io, path,
       std::string("cannot be ") + what + ": " + std::strerror(error) +
           "; name a file in a folder that all ranks can write to");
}

/// The text of a file that belongs to this user alone; nullopt when there is no file.
std::optional<std::string> read_private(const std::string& path) {
  // The flags refuse a link, which could lead anywhere, and do not wait at a fifo.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ELOOP) fail(ErrorCode::invalid_argument, path, "is a symbolic link; name the file itself");
    fail_errno(path, "read", errno);
  }

  struct stat status {};

  if (::fstat(fd.get(), &status) != 0) fail_errno(path, "read", errno);
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::invalid_argument, path, "is no regular file; name another");
  if (status.st_uid != ::geteuid())
    fail(ErrorCode::invalid_argument, path,
         "belongs to uid " + std::to_string(status.st_uid) + ", not to ours (" + std::to_string(::geteuid()) +
             "), so it is not trusted; name another");
  if (status.st_size == 0) return std::string();
  if ((status.st_mode & 077) != 0)
    fail(ErrorCode::invalid_argument, path,
         "can be read or written by other users, so it is not trusted; remove it or name another");
  std::string text(kLongestNote + 1, '\0');
  const ssize_t count = ::pread(fd.get(), text.data(), text.size(), 0);
  if (count < 0) fail_errno(path, "read", errno);
  text.resize(static_cast<std::size_t>(count));
  return text;
}

[[noreturn]] void refuse_used(const std::string& path, const ProcessIdentity& writer) {
  fail(ErrorCode::invalid_argument, path,
       "is used by rank 0 of another job, " + writer.describe() +
           "; if that has ended, remove the file, else name another");
}

/// Makes room for a new file, if the present file may be removed.
void clear_stale(const std::string& path, const std::string& aside) {
  auto note = read_meeting_file(path);
  if (note && liveness_of(note->writer) != Liveness::dead) refuse_used(path, note->writer);
  // Another rank 0 may have replaced the file meanwhile, so it is checked once more after it was moved aside.
  if (::rename(path.c_str(), aside.c_str()) != 0) {
    if (errno == ENOENT) return;
    fail_errno(path, "replaced", errno);
  }
  note = read_meeting_file(aside);
  if (note && liveness_of(note->writer) != Liveness::dead) {
    static_cast<void>(::rename(aside.c_str(), path.c_str()));
    refuse_used(path, note->writer);
  }
  ::unlink(aside.c_str());
}

/// Puts `temporary` at `path` unless a file is there. Returns false if one is.
bool put_in_place(const std::string& temporary, const std::string& path) {
  if (::link(temporary.c_str(), path.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  // The file system may have no hard links.
  if ((errno == EPERM || errno == ENOTSUP || errno == ENOSYS) &&
      ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0)
    return true;
  if (errno == EEXIST) return false;
  fail_errno(path, "made", errno);
}

}  // namespace

std::string MeetingNote::to_text() const {
  return std::string(kFirstWords) + "\n" + host + "\n" + std::to_string(port) + "\n" + writer.to_text() +
         "\n";
}

std::optional<MeetingNote> MeetingNote::from_text(const std::string& text) {
  if (text.size() > kLongestNote || !text.ends_with('\n')) return std::nullopt;
  std::istringstream lines(text);
  std::string words;
  std::string port;
  std::string writer;
  MeetingNote note;
  std::getline(lines, words);
  std::getline(lines, note.host);
  std::getline(lines, port);
  std::getline(lines, writer);
  const auto identity = ProcessIdentity::from_text(writer);
  if (words != kFirstWords || note.host.empty() || !identity) return std::nullopt;
  if (std::sscanf(port.c_str(), "%d", &note.port) != 1 || note.port < 1 || note.port > 65535)
    return std::nullopt;
  note.writer = *identity;
  return note;
}

MeetingFile::MeetingFile(std::string path, const MeetingNote& note)
    : path_(std::move(path)), text_(note.to_text()) {
  const std::string temporary =
      path_ + "." + std::to_string(note.writer.pid) + "." + std::to_string(note.port);
  ::unlink(temporary.c_str());
  {
    const UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) fail_errno(temporary, "made", errno);
    if (::write(fd.get(), text_.data(), text_.size()) != static_cast<ssize_t>(text_.size())) {
      const int error = errno;
      ::unlink(temporary.c_str());
      fail_errno(temporary, "written", error);
    }
  }
  try {
    // Two ranks 0 that start at once both clear the old file away; one of them then finds the other's file
    // and checks again.
    for (int attempt = 0; !put_in_place(temporary, path_); ++attempt) {
      constexpr int kAttempts = 10;
      if (attempt == kAttempts) fail(ErrorCode::io, path_, "appears again and again; name another");
      clear_stale(path_, temporary + ".old");
    }
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  ::unlink(temporary.c_str());
}

MeetingFile::~MeetingFile() {
  try {
    if (read_private(path_) == text_) ::unlink(path_.c_str());
  } catch (const Error&) {
    // Another process has put its own file there, which is left alone.
  }
}

std::optional<MeetingNote> read_meeting_file(const std::string& path) {
  const auto text = read_private(path);
  if (!text || text->empty()) return std::nullopt;
  auto note = MeetingNote::from_text(*text);
  if (!note)
    fail(ErrorCode::invalid_argument, path, "holds something that is not of Muster; name another file");
  return note;
}

}  // namespace muster
