// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/log/colours.hpp"

#include "catch.hpp"
#include "tests/support/pipe.hpp"

#include <stdlib.h>

#include <cstdlib>
#include <optional>

using namespace muster;

namespace {

/// Gives a variable of the environment another value, or none, while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }

  ~Variable() { set(old_ ? old_->c_str() : nullptr); }

  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) const {
    if (value != nullptr)
      ::setenv(name_, value, 1);
    else
      ::unsetenv(name_);
  }

  const char* name_;
  std::optional<std::string> old_;
};

/// The two ends of a terminal.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    REQUIRE(master_);
    REQUIRE(::grantpt(master_.get()) == 0);
    REQUIRE(::unlockpt(master_.get()) == 0);
    slave_ = UniqueFd(::open(::ptsname(master_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    REQUIRE(slave_);
  }

  int fd() const { return slave_.get(); }

 private:
  UniqueFd master_;
  UniqueFd slave_;
};

constexpr const char* kError = "muster: error: no\nmuster: error: more\n";

}  // namespace

TEST_CASE("The level of a message has its colour, once") {
  CHECK(with_coloured_level(kError) == "muster: \x1b[1;31merror:\x1b[0m no\nmuster: error: more\n");
  CHECK(with_coloured_level("muster: warning: x") == "muster: \x1b[1;33mwarning:\x1b[0m x");
  for (const char* other : {"muster: note: x", "error: x", "train.py: muster: error: x", "muster: ", ""})
    CHECK(with_coloured_level(other) == other);
}

TEST_CASE("Colours go to a terminal that knows them, where they are wanted, and nowhere else") {
  const Terminal terminal;
  const Variable no_colour("NO_COLOR", nullptr);
  const Variable kind("TERM", "xterm");
  CHECK(for_screen(terminal.fd(), kError) == with_coloured_level(kError));
  {
    const Variable unwanted("NO_COLOR", "1");
    CHECK(for_screen(terminal.fd(), kError) == kError);
  }
  {
    const Variable empty("NO_COLOR", "");
    CHECK(shows_colours(terminal.fd()));
  }
  for (const char* unable : {"dumb", static_cast<const char*>(nullptr)}) {
    const Variable other("TERM", unable);
    CHECK_FALSE(shows_colours(terminal.fd()));
  }
  const test::Pipe pipe;
  CHECK(for_screen(pipe.write.get(), kError) == kError);
  CHECK_FALSE(shows_colours(-1));
}
