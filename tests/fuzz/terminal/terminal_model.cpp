// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/terminal/terminal_model.hpp"

#include <utility>

namespace muster::test {

using Kind = TerminalModel::Action::Kind;

void TerminalModel::feed(std::string_view bytes) {
  for (const char byte : bytes) take(static_cast<unsigned char>(byte));
}

void TerminalModel::act(Kind kind, unsigned char final) {
  Action action = std::exchange(action_, Action{});
  action.kind = kind;
  action.final = final;
  on_action_(action);
}

void TerminalModel::take(unsigned char byte) {
  if (state_ == State::ground) return take_ground(byte);
  if (byte == 0x1b) {
    action_ = Action{};
    state_ = State::escape;
    return;
  }
  if (byte == 0x18 || byte == 0x1a) {
    state_ = State::ground;
    return act(Kind::execute, byte);
  }
  switch (state_) {
    case State::escape:
      return take_escape(byte);
    case State::control:
      return take_control(byte);
    default:
      if (byte == 0x07 || byte == 0x9c) state_ = State::ground;
  }
}

void TerminalModel::take_ground(unsigned char byte) {
  if (character_left_ > 0) {
    if ((byte & 0xc0) == 0x80) {
      code_ = code_ << 6 | (byte & 0x3fU);
      if (--character_left_ > 0) return;
      if (code_ < smallest_ || code_ > 0x10ffff || (code_ >= 0xd800 && code_ < 0xe000))
        return act(Kind::malformed, byte);
      if (code_ < 0xa0) return act(Kind::execute, static_cast<unsigned char>(code_));
      return act(Kind::print, 0);
    }
    character_left_ = 0;
    act(Kind::malformed, byte);
  }
  if (byte == 0x1b) {
    action_ = Action{};
    state_ = State::escape;
  } else if (byte < 0x20 || byte == 0x7f) {
    act(Kind::execute, byte);
  } else if (byte < 0x80) {
    act(Kind::print, byte);
  } else if (byte < 0xc0 || byte >= 0xf8) {
    act(Kind::malformed, byte);
  } else {
    character_left_ = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
    code_ = byte & (0x3fU >> character_left_);
    smallest_ = byte >= 0xf0 ? 0x10000 : byte >= 0xe0 ? 0x800 : 0x80;
  }
}

void TerminalModel::take_escape(unsigned char byte) {
  if (byte < 0x20 || byte >= 0x7f) return act(Kind::execute, byte);
  if (byte < 0x30) {
    action_.intermediates += static_cast<char>(byte);
    return;
  }
  state_ = State::ground;
  if (!action_.intermediates.empty()) return act(Kind::escape, byte);
  if (byte == '[') {
    state_ = State::control;
  } else if (byte == 'P' || byte == ']' || byte == '_' || byte == '^' || byte == 'X') {
    act(Kind::string, byte);
    state_ = State::string;
  } else {
    act(Kind::escape, byte);
  }
}

void TerminalModel::take_control(unsigned char byte) {
  if (byte < 0x20 || byte >= 0x7f) return act(Kind::execute, byte);
  if (byte >= 0x3c && byte < 0x40 && action_.parameters.empty()) {
    action_.marker = static_cast<char>(byte);
  } else if (byte < 0x30) {
    action_.intermediates += static_cast<char>(byte);
  } else if (byte < 0x40) {
    action_.parameters += static_cast<char>(byte);
  } else {
    state_ = State::ground;
    act(Kind::control, byte);
  }
}

}  // namespace muster::test
