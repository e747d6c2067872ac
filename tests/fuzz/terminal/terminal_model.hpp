// SPDX-License-Identifier: Apache-2.0
// What a terminal (ECMA-48, as xterm reads it) makes of a stream: an independent judge of what a filter lets
// through.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace muster::test {

class TerminalModel {
 public:
  struct Action {
    enum class Kind {
      print,     ///< a character
      execute,   ///< a C0 or C1 control: `final`
      escape,    ///< ESC, intermediate bytes, `final`
      control,   ///< CSI, private marker, parameters, intermediate bytes, `final`
      string,    ///< the begin of DCS, OSC, APC, PM or SOS: `final` is the byte after ESC
      malformed  ///< bytes that are no UTF-8
    };
    Kind kind = Kind::print;
    unsigned char final = 0;
    std::string parameters;
    std::string intermediates;
    char marker = 0;
  };

  explicit TerminalModel(std::function<void(const Action&)> on_action) : on_action_(std::move(on_action)) {}

  void feed(std::string_view bytes);

  /// Nothing is unfinished: what somebody else prints next is taken as it is.
  bool at_rest() const { return state_ == State::ground && character_left_ == 0; }

 private:
  enum class State { ground, escape, control, string };

  void take(unsigned char byte);
  void take_ground(unsigned char byte);
  void take_escape(unsigned char byte);
  void take_control(unsigned char byte);
  void act(Action::Kind kind, unsigned char final);

  std::function<void(const Action&)> on_action_;
  State state_ = State::ground;
  Action action_;
  std::size_t character_left_ = 0;
  unsigned code_ = 0;
  unsigned smallest_ = 0;
};

}  // namespace muster::test
