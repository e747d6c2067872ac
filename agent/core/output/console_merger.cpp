// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/console_merger.hpp"

#include "agent/core/output/console_frame.hpp"
#include "rendezvous/base/invariant.hpp"

#include <algorithm>
#include <utility>

namespace muster::agent {

namespace {

/// Bytes up to which all states of a progress bar are kept, so that ordinary use of carriage returns stays
/// byte for byte.
constexpr std::size_t kOverwrittenTextKept = 4096;

/// Removes the text that a later carriage return would overwrite on a terminal.
void drop_overwritten(std::string& held) {
  const auto text_end = held.find_last_not_of('\r');
  if (text_end == std::string::npos) return;
  const auto carriage = held.rfind('\r', text_end);
  if (carriage != std::string::npos) held.erase(0, carriage);
}

}  // namespace

ConsoleMerger::ConsoleMerger(Options options) : options_(options) {}

ConsoleMerger::Source ConsoleMerger::add(std::string prefix) {
  const Source source = next_++;
  MUSTER_ASSERT(!sources_.contains(source), "a source of output has a number of its own");
  sources_[source].prefix = std::move(prefix);
  return source;
}

void ConsoleMerger::set_prefix(Source source, std::string prefix) {
  const auto found = sources_.find(source);
  if (found == sources_.end()) return;
  found->second.prefix = std::move(prefix);
  found->second.at = owner_ == source && line_open_ ? At::inside : At::line_start;
}

void ConsoleMerger::renew_prefix(Source source, const std::string& prefix) {
  if (const auto found = sources_.find(source); found != sources_.end()) found->second.prefix = prefix;
}

void ConsoleMerger::feed(Source source, std::string_view bytes, TimePoint now, std::string& out) {
  const auto found = sources_.find(source);
  if (found == sources_.end() || bytes.empty()) return;
  SourceState& state = found->second;
  const auto newline = bytes.rfind('\n');
  const std::size_t whole = newline == std::string_view::npos ? 0 : newline + 1;
  if (options_.framed && whole > 0 && !state.held.empty()) {
    // One line is one frame.
    state.held.append(bytes.substr(0, whole));
    show_held(state, source, out);
    if (whole < bytes.size()) hold(state, source, bytes.substr(whole), now, out);
    return;
  }
  if (owner_ == source) {
    if (whole == 0) {
      emit(state, bytes, out);
      return;
    }
  } else if (whole > 0) {
    show_held(state, source, out);
  }
  if (whole > 0) {
    emit(state, bytes.substr(0, whole), out);
    owner_.reset();
  }
  if (whole < bytes.size()) hold(state, source, bytes.substr(whole), now, out);
}

void ConsoleMerger::hold(SourceState& state, Source source, std::string_view bytes, TimePoint now,
                         std::string& out) {
  if (state.held.empty()) state.held_since = now;
  state.held.append(bytes);
  if (options_.terminal && state.held.size() > kOverwrittenTextKept) drop_overwritten(state.held);
  if (state.held.size() > options_.longest_line) show_held(state, source, out);
}

void ConsoleMerger::show_held(SourceState& state, Source source, std::string& out) {
  if (!options_.framed) take_cursor(source, out);
  emit(state, state.held, out);
  state.held.clear();
  if (state.held.capacity() > kOverwrittenTextKept) state.held.shrink_to_fit();
}

void ConsoleMerger::take_cursor(Source source, std::string& out) {
  if (line_open_ && owner_ != source) {
    out += '\n';
    line_open_ = false;
  }
  if (owner_ && owner_ != source) {
    SourceState& interrupted = sources_.at(*owner_);
    interrupted.at = At::line_start;
    interrupted.skip_newline = true;
  }
  owner_ = source;
}

void ConsoleMerger::close(Source source, std::string& out) {
  const auto found = sources_.find(source);
  if (found == sources_.end()) return;
  if (!found->second.held.empty()) show_held(found->second, source, out);
  if (owner_ == source) owner_.reset();
  sources_.erase(found);
}

void ConsoleMerger::postpone(Source source, TimePoint now) {
  const auto found = sources_.find(source);
  if (found != sources_.end()) found->second.held_since = now;
}

std::optional<ConsoleMerger::TimePoint> ConsoleMerger::next_flush() const {
  if (owner_) return std::nullopt;
  std::optional<TimePoint> first;
  for (const auto& [source, state] : sources_) {
    if (state.held.empty()) continue;
    const TimePoint due = state.held_since + options_.hold;
    if (!first || due < *first) first = due;
  }
  return first;
}

void ConsoleMerger::flush(TimePoint now, std::string& out) {
  const auto due = next_flush();
  if (!due || *due > now) return;
  for (auto& [source, state] : sources_) {
    if (state.held.empty() || state.held_since + options_.hold != *due) continue;
    show_held(state, source, out);
    return;
  }
}

void ConsoleMerger::end(std::string& out) {
  owner_.reset();
  if (line_open_) out += '\n';
  line_open_ = false;
}

void ConsoleMerger::emit(SourceState& state, std::string_view bytes, std::string& out) {
  if (bytes.empty()) return;
  if (options_.framed) return emit_framed(state, bytes, out);
  if (state.skip_newline) {
    state.skip_newline = false;
    if (bytes.front() == '\n') bytes.remove_prefix(1);
    if (bytes.empty()) return;
  }
  line_open_ = bytes.back() != '\n';
  if (state.prefix.empty())
    out.append(bytes);
  else
    emit_prefixed(state, bytes, out);
}

void ConsoleMerger::emit_framed(const SourceState& state, std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.find('\n'), std::min(bytes.size(), kFrameTextMax));
    const bool ends = size < bytes.size() && bytes[size] == '\n';
    out += state.prefix;
    out += ends ? kFrameEndsLine : kFrameGoesOn;
    out.append(bytes.substr(0, size));
    out += '\n';
    bytes.remove_prefix(size + (ends ? 1 : 0));
  }
}

void ConsoleMerger::emit_prefixed(SourceState& state, std::string_view bytes, std::string& out) {
  const bool carriages = bytes.find('\r') != std::string_view::npos;
  while (!bytes.empty()) {
    const char next = bytes.front();
    if (next == '\r') {
      const bool at_start = state.at == At::line_start || state.at == At::carriage_at_start;
      state.at = at_start ? At::carriage_at_start : At::carriage;
      out += next;
      bytes.remove_prefix(1);
      continue;
    }
    const bool wanted = next == '\n' ? state.at == At::line_start || state.at == At::carriage_at_start
                                     : state.at != At::inside;
    if (wanted) out += state.prefix;
    state.at = At::inside;
    std::size_t end = bytes.find('\n');
    if (carriages) end = std::min(end, bytes.find('\r'));
    if (end == std::string_view::npos) end = bytes.size();
    if (end < bytes.size() && bytes[end] == '\n') {
      ++end;
      state.at = At::line_start;
    }
    out.append(bytes.substr(0, end));
    bytes.remove_prefix(end);
  }
}

}  // namespace muster::agent
