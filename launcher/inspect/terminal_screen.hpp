// SPDX-License-Identifier: Apache-2.0
// The terminal behind our stdout while it shows a picture that changes. Sequences as xterm has them (DECSET
// 7, 25, 1049); a terminal without an alternate screen ignores that one.
#pragma once

#include "launcher/inspect/core/screen.hpp"

#include <termios.h>

#include <optional>
#include <string>

namespace muster::launcher {

/// Whether stdout is a terminal that can show pictures (TERM is not "dumb").
bool can_show_pictures();

/// From construction to destruction, or leave(), the alternate screen is shown, without cursor and echo; then
/// all is as it was before. Each call that writes throws LaunchError if the terminal takes nothing any more.
/// One thread.
class TerminalScreen {
 public:
  explicit TerminalScreen(bool coloured);
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  /// The terminal's size; 80 columns of 24 rows where it has none.
  static ScreenSize size();

  /// Shows the picture, whose lines are shorter than the terminal's width. Only what differs from the one
  /// before is written, unless the size has changed.
  void show(const Picture& picture);

  /// Gives the terminal back, and takes it again with the next show().
  void leave();

 private:
  void enter();
  void set_echo(bool on);

  bool coloured_;
  bool entered_ = false;
  /// What the terminal shows, in which size.
  Picture shown_;
  ScreenSize shown_in_;
  /// The terminal's settings before ours; nullopt where they were not changed.
  std::optional<termios> settings_;
};

}  // namespace muster::launcher
