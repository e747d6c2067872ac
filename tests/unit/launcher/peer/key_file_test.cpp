// SPDX-License-Identifier: Apache-2.0
#include "launcher/peer/key_file.hpp"

#include "catch.hpp"
#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/pipe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <set>
#include <vector>

using namespace muster::launcher;
using muster::test::Folder;
using muster::test::Pipe;
using muster::test::read_to_end;
namespace fs = std::filesystem;

namespace {

const std::string kGood = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const LaunchError& error) {
    CHECK(error.exit_code() == muster::kExitUsage);
    CHECK(std::string(error.what()).find("0011") == std::string::npos);  // never the key itself
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "";
}

std::string error_of_file(const std::string& path) {
  return error_of([&] { read_key_file(path); });
}

mode_t mode_of(const std::string& path) {
  struct stat status {};

  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

}  // namespace

TEST_CASE("a key file is hexadecimal digits on one line") {
  const Folder folder;
  CHECK(read_key_file(folder.write("plain", kGood)).secret.hex() ==
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
  CHECK(read_key_file(folder.write("line", kGood + "\n", 0400)).secret.hex() ==
        read_key_file(folder.write("crlf", kGood + "\r\n")).secret.hex());
  // Every digit of a longer one counts.
  std::set<std::string> keys;
  for (const char* more : {"", "00", "01", "0000"})
    keys.insert(read_key_file(folder.write("more", kGood + more)).secret.hex());
  const std::string longer = kGood + kGood + kGood;
  keys.insert(read_key_file(folder.write("long", longer + "aa")).secret.hex());
  keys.insert(read_key_file(folder.write("long", longer + "ab")).secret.hex());
  CHECK(keys.size() == 6);
}

TEST_CASE("an explicit key file may be reached through a link") {
  const Folder folder;
  folder.write("real", kGood);
  fs::create_symlink(folder.path() + "/real", folder.path() + "/link");
  CHECK(read_key_file(folder.path() + "/link").path == folder.path() + "/link");
}

TEST_CASE("a key below a directory that others can change is not used") {
  const Folder folder;
  fs::create_directories(folder.path() + "/open/inner");
  const std::string key = folder.write("open/inner/key", kGood);
  CHECK(error_of_file(key).empty());
  fs::create_symlink(key, folder.path() + "/link");
  for (const mode_t mode : {0777U, 0770U, 0703U, 02775U}) {
    REQUIRE(::chmod((folder.path() + "/open").c_str(), mode) == 0);
    for (const std::string& path : {key, folder.path() + "/link"}) {
      const std::string error = error_of_file(path);
      CHECK(contains(error, "/open above the key file " + path.substr(0, 5)));
      CHECK(contains(error, "run: chmod go-w '"));
    }
  }
  // As /tmp: nobody replaces what is another's.
  REQUIRE(::chmod((folder.path() + "/open").c_str(), 01777) == 0);
  CHECK(error_of_file(key).empty());
  if (::geteuid() != 0) return;  // only root can give a directory away
  REQUIRE(::chmod((folder.path() + "/open").c_str(), 0755) == 0);
  REQUIRE(::chown((folder.path() + "/open").c_str(), 12345, 0) == 0);
  CHECK(contains(error_of_file(key), "belongs to user 12345, who could put another key there"));
}

TEST_CASE("who cannot change the directory above a key is not told to") {
  if (::geteuid() != 0) return;  // only root can be somebody else for a while
  const Folder folder;
  const std::string key = folder.write("key", kGood);
  REQUIRE(::chmod(folder.path().c_str(), 0775) == 0);
  REQUIRE(::seteuid(12345) == 0);
  const std::string error = error_of_file(key);
  REQUIRE(::seteuid(0) == 0);
  CHECK(contains(error, "can be written to by other users (mode 0775)"));
  CHECK(contains(error, "keep the key elsewhere, the same on every host, and name it with --secret-file"));
  CHECK_FALSE(contains(error, "chmod"));
  // A secret that Kubernetes mounts is root's.
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  REQUIRE(::chmod(key.c_str(), 0444) == 0);
  REQUIRE(::seteuid(12345) == 0);
  const std::string roots = error_of_file(key);
  REQUIRE(::seteuid(0) == 0);
  CHECK(contains(roots, "belongs to user 0, not to us (12345)"));
  CHECK(contains(roots, "or a copy of it, if you trust it: (umask 077; cp '" + key + "' FILE)"));
}

TEST_CASE("the user's own key is not used where others can change its directories") {
  const Folder home;
  own_key(home.path());
  REQUIRE(::chmod((home.path() + "/.config").c_str(), 0777) == 0);
  CHECK(contains(error_of([&] { own_key(home.path()); }), "/.config above the key file"));
}

TEST_CASE("a bad key file is fatal, and the message says what to type") {
  const Folder folder;
  CHECK(contains(error_of_file(folder.path() + "/none"),
                 "/none does not exist; make one with: (umask 077; openssl rand"));
  CHECK(contains(error_of_file(folder.write("empty", "")), "/empty is empty; make one with: "));
  CHECK(contains(error_of_file(folder.write("blank", "\n\n")), "/blank is empty"));
  CHECK(contains(error_of_file(folder.write("short", kGood.substr(1))), "at least 64 hexadecimal digits"));
  CHECK(contains(error_of_file(folder.write("word", kGood + "x")), "at least 64 hexadecimal digits"));
  CHECK(
      contains(error_of_file(folder.write("lines", kGood + "\n" + kGood)), "at least 64 hexadecimal digits"));
  CHECK(contains(error_of_file(folder.write("huge", std::string(100'000, 'a'))),
                 "at least 64 hexadecimal digits"));
  CHECK(contains(error_of_file(folder.path()), "is not a regular file"));
  for (const mode_t mode : {0640U, 0604U, 0660U, 0620U, 0610U, 0601U}) {
    const std::string path = folder.write("open", kGood, mode);
    const std::string error = error_of_file(path);
    CHECK(contains(error, "is open to other users (mode 0"));
    CHECK(contains(error, "run: chmod 600 '" + path + "'"));
  }
}

TEST_CASE("a pipe in place of the key does not stop us") {
  const Folder folder;
  const std::string path = folder.path() + "/pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(contains(error_of_file(path), "is not a regular file"));
}

TEST_CASE("a key that another user owns is not used") {
  if (::geteuid() != 0) return;  // only root can give a file away
  const Folder folder;
  const std::string path = folder.write("theirs", kGood);
  REQUIRE(::chown(path.c_str(), 12345, 0) == 0);
  CHECK(contains(error_of_file(path), "belongs to user 12345, not to us (0)"));
}

TEST_CASE("the key of the user is made at first use, for nobody else to read") {
  const Folder home;
  const FileKey made = own_key(home.path());
  CHECK(made.path == home.path() + "/.config/muster/key");
  CHECK(mode_of(made.path) == 0600);
  CHECK(mode_of(home.path() + "/.config/muster") == 0700);
  CHECK(own_key(home.path()).secret.hex() == made.secret.hex());
  CHECK(std::distance(fs::directory_iterator(home.path() + "/.config/muster"), {}) == 1);
  const Folder other;
  CHECK(own_key(other.path()).secret.hex() != made.secret.hex());
}

TEST_CASE("a directory or key in bad hands is refused") {
  const Folder home;
  const std::string folder = home.path() + "/.config/muster";
  own_key(home.path());
  ::chmod(folder.c_str(), 0755);
  CHECK(contains(error_of([&] { own_key(home.path()); }), "run: chmod 700 '" + folder + "'"));
  ::chmod(folder.c_str(), 0700);
  ::chmod((folder + "/key").c_str(), 0644);
  CHECK(contains(error_of([&] { own_key(home.path()); }), "run: chmod 600 '" + folder + "/key'"));
  fs::rename(folder + "/key", home.path() + "/moved");
  fs::create_symlink(home.path() + "/moved", folder + "/key");
  CHECK(contains(error_of([&] { own_key(home.path()); }), "is a symbolic link"));
  fs::remove_all(folder);
  fs::create_directory(home.path() + "/elsewhere");
  fs::create_directory_symlink(home.path() + "/elsewhere", folder);
  CHECK(contains(error_of([&] { own_key(home.path()); }), "it must be a directory of yours, no link"));
  CHECK(contains(error_of([] { own_key(""); }), "set HOME or give a key with --secret-file"));
}

TEST_CASE("no place for a key is told from a key that must not be used") {
  CHECK_THROWS_AS(own_key(""), NoPlaceForKey);
  const Folder home;
  CHECK_THROWS_AS(own_key(home.path() + "/none"), NoPlaceForKey);
  const FileKey made = own_key(home.path());
  REQUIRE(::chmod(made.path.c_str(), 0644) == 0);
  try {
    own_key(home.path());
    FAIL("a key that others can read was used");
  } catch (const NoPlaceForKey&) {
    FAIL("a key that is there counts as none");
  } catch (const LaunchError& error) {
    CHECK(error.exit_code() == muster::kExitUsage);
  }
}

TEST_CASE("many processes that make the key at once agree on one") {
  const Folder home;
  constexpr int kProcesses = 32;
  Pipe gate;
  Pipe answers;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      gate.write.reset();
      muster::test::read_to_end(gate.read.get());  // all begin when the gate closes
      int code = 1;
      try {
        const std::string hex = own_key(home.path()).secret.hex();
        code =
            ::write(answers.write.get(), hex.data(), hex.size()) == static_cast<ssize_t>(hex.size()) ? 0 : 1;
      } catch (const std::exception&) {
      }
      ::_exit(code);
    }
    children.push_back(pid);
  }
  gate.write.reset();
  answers.write.reset();
  std::set<std::string> keys;
  std::string key(64, ' ');
  for (int i = 0; i < kProcesses; ++i)
    if (::read(answers.read.get(), key.data(), key.size()) == static_cast<ssize_t>(key.size()))
      keys.insert(key);
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  CHECK(keys.size() == 1);
  CHECK(std::distance(fs::directory_iterator(home.path() + "/.config/muster"), {}) == 1);
}

TEST_CASE("every job has a secret of its own") {
  const auto key = muster::rendezvous::Secret::from_hex(kGood);
  CHECK(muster::rendezvous::derive_job_secret(key, "a").hex() ==
        muster::rendezvous::derive_job_secret(key, "a").hex());
  CHECK(muster::rendezvous::derive_job_secret(key, "a").hex() !=
        muster::rendezvous::derive_job_secret(key, "b").hex());
  CHECK(muster::rendezvous::derive_job_secret(key, "a").hex() != key.hex());
}
