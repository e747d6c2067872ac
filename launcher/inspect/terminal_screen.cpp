// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/terminal_screen.hpp"

#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/posix.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace muster::launcher {
namespace {

// The alternate screen, no cursor, and no new line where a character is written into the last column.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr std::string_view kClear = "\x1b[0m\x1b[2J";

void write_out(std::string_view bytes) {
  if (!bytes.empty() && !write_all(STDOUT_FILENO, bytes))
    throw LaunchError(kExitLauncherFailure, "the terminal takes no more output");
}

}  // namespace

bool can_show_pictures() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

TerminalScreen::TerminalScreen(bool coloured) : coloured_(coloured) {}

TerminalScreen::~TerminalScreen() {
  try {
    leave();
  } catch (const LaunchError&) {
    // Nobody sees that terminal any more.
  }
}

ScreenSize TerminalScreen::size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

void TerminalScreen::show(const Picture& picture) {
  const ScreenSize now = size();
  if (!entered_) enter();
  std::string bytes;
  if (shown_in_ != now) {
    bytes = kClear;
    shown_.clear();
  }
  write_out(bytes + difference(shown_, picture, coloured_));
  shown_ = picture;
  shown_in_ = now;
}

void TerminalScreen::enter() {
  entered_ = true;
  shown_in_ = {0, 0};
  // What is typed would stand in the picture, or move it. A process in the background may not change that.
  if (::tcgetpgrp(STDIN_FILENO) == ::getpgrp()) set_echo(false);
  write_out(kEnter);
}

void TerminalScreen::leave() {
  if (!entered_) return;
  entered_ = false;
  set_echo(true);
  write_out(kLeave);
}

void TerminalScreen::set_echo(bool on) {
  if (on) {
    if (settings_) ::tcsetattr(STDIN_FILENO, TCSANOW, &*settings_);
    settings_.reset();
    return;
  }
  termios settings{};
  if (::tcgetattr(STDIN_FILENO, &settings) != 0) return;
  settings_ = settings;
  settings.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &settings);
}

}  // namespace muster::launcher
