// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/terminal/terminal_check.hpp"

#include "agent/core/output/terminal_filter.hpp"
#include "tests/fuzz/checks.hpp"
#include "tests/fuzz/terminal/terminal_model.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace muster::test {

using agent::TerminalFilter;
using Action = TerminalModel::Action;

namespace {

void require(bool holds, const char* what, std::string_view bytes) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s, for", what);
  for (const char byte : bytes.substr(0, 4096))
    std::fprintf(stderr, " %02x", static_cast<unsigned char>(byte));
  std::fprintf(stderr, "\n");
  std::abort();
}

/// docs/output.md's list, word by word.
bool is_wanted(const Action& action) {
  switch (action.kind) {
    case Action::Kind::print:
      return true;
    case Action::Kind::execute:
      return std::string_view("\b\t\n\r").find(static_cast<char>(action.final)) != std::string_view::npos;
    case Action::Kind::escape:
      if (action.intermediates == "(") return action.final == 'B';
      return action.intermediates.empty() && (action.final == '7' || action.final == '8');
    case Action::Kind::control: {
      if (action.marker == '?' && action.intermediates.empty() && action.parameters == "25")
        return action.final == 'h' || action.final == 'l';
      if (action.marker != 0 || !action.intermediates.empty()) return false;
      if (action.final == 'm') return true;
      if (action.final == 's' || action.final == 'u') return action.parameters.empty();
      const bool numbers = action.parameters.find_first_not_of("0123456789;") == std::string::npos;
      return numbers && std::string_view(
                            "ABCDEFGHIZ`adef"
                            "JKX"
                            "P@LM")
                                .find(static_cast<char>(action.final)) != std::string_view::npos;
    }
    default:
      return false;
  }
}

bool is_hex(std::string_view text, unsigned char value) {
  char wanted[5];
  std::snprintf(wanted, sizeof wanted, "\\x%02x", value);
  return text.substr(0, 4) == wanted;
}

/// What is shown at the end of a stream that left the cursor hidden.
constexpr std::string_view kShowCursor = "\x1b[?25h";

/// Every byte of `bytes` stands in `shown`, in order, as itself or escaped.
bool all_shown(std::string_view bytes, std::string_view shown) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (!shown.empty() && shown.front() == bytes[i]) {
      shown.remove_prefix(1);
    } else if (is_hex(shown, byte)) {
      shown.remove_prefix(4);
    } else if (byte == 0xc2 && i + 1 < bytes.size() &&
               is_hex(shown, static_cast<unsigned char>(bytes[i + 1]))) {
      // A C1 control is named by its number, which is its second byte.
      shown.remove_prefix(4);
      ++i;
    } else {
      return false;
    }
  }
  return shown.empty();
}

void check_on_terminal(std::string_view bytes, std::size_t chunk) {
  bool wanted = true;
  TerminalModel terminal([&wanted](const Action& action) { wanted = wanted && is_wanted(action); });
  TerminalFilter filter;
  std::string room;
  for (std::size_t at = 0; at < bytes.size(); at += chunk) {
    terminal.feed(filter.feed(bytes.substr(at, chunk), room));
    require(terminal.at_rest(), "between two chunks the terminal waits for the rest of a sequence", bytes);
  }
  terminal.feed(filter.end(room));
  require(terminal.at_rest(), "at the end the terminal waits for the rest of a sequence", bytes);
  require(wanted, "the terminal does what it must not", bytes);
}

}  // namespace

std::string filtered(std::string_view bytes, std::size_t chunk) {
  TerminalFilter filter;
  std::string room;
  std::string shown;
  for (std::size_t at = 0; at < bytes.size(); at += chunk)
    shown += filter.feed(bytes.substr(at, chunk), room);
  shown += filter.end(room);
  return shown;
}

std::string check_filter(std::string_view bytes) {
  const std::string shown = filtered(bytes, std::max<std::size_t>(bytes.size(), 1));
  for (const std::size_t chunk : {1U, 2U, 3U, 7U, 33U}) {
    require(filtered(bytes, chunk) == shown, "chunks are shown differently", bytes);
    check_on_terminal(bytes, chunk);
  }
  const std::string_view own =
      std::string_view(shown).substr(0, shown.size() - std::min(shown.size(), kShowCursor.size()));
  const bool mended = shown.ends_with(kShowCursor) && all_shown(bytes, own);
  require(mended || all_shown(bytes, shown), "a byte is lost or invented", bytes);
  require(filtered(shown, 4096) == shown, "what is shown is changed again", bytes);
  return shown;
}

}  // namespace muster::test

bool muster::fuzz::check_terminal_input(std::string_view input) {
  test::check_filter(input);
  return true;
}
