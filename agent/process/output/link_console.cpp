// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/link_console.hpp"

#include "agent/core/link_message.hpp"

#include <algorithm>
#include <utility>

namespace muster::agent {

/// A stream's bytes that wait for room in the window.
struct LinkWindow::Stream {
  Stream(int stream_number, std::shared_ptr<WakeUp> signal)
      : number(stream_number), wake_up(std::move(signal)) {}

  int number;
  std::shared_ptr<WakeUp> wake_up;
  std::string pending;
  /// Bytes of `pending` that have been sent.
  std::size_t begin = 0;
  bool stopped = false;
  /// Bytes that nobody will take any more.
  std::size_t dropped = 0;

  bool empty() const { return begin == pending.size(); }
};

class LinkWindow::Sink final : public ConsoleSink {
 public:
  Sink(std::shared_ptr<LinkWindow> window, std::shared_ptr<Stream> stream)
      : window_(std::move(window)), stream_(std::move(stream)) {}

  void append(std::string_view bytes) override {
    if (bytes.empty() || stream_->stopped) return;
    if (window_->given_up_) {
      stream_->dropped += bytes.size();
      return;
    }
    stream_->pending.append(bytes);
    window_->pump();
  }

  bool full() const override { return !stream_->empty(); }

  void stop() override { stream_->stopped = true; }

  bool ended() const override { return stream_->stopped && stream_->empty(); }

  std::size_t unwritten() const override { return stream_->pending.size() - stream_->begin; }

  std::vector<std::string> notes() const override {
    if (stream_->dropped == 0) return {};
    return {std::to_string(stream_->dropped) + " bytes that workers printed on " +
            (stream_->number == 2 ? "stderr" : "stdout") + " were dropped: the launcher did not take them"};
  }

 private:
  std::shared_ptr<LinkWindow> window_;
  std::shared_ptr<Stream> stream_;
};

namespace {

/// Ends with a line where it can: the window may be closed behind it for as long as nobody reads, and what
/// other nodes print would come in between.
std::string_view next_piece(std::string_view rest) {
  if (rest.size() <= kLinkPieceBytes) return rest;
  const std::size_t line_end = rest.substr(0, kLinkPieceBytes).rfind('\n');
  return rest.substr(0, line_end == std::string_view::npos ? kLinkPieceBytes : line_end + 1);
}

}  // namespace

LinkWindow::LinkWindow(std::function<void(int stream, std::string_view piece)> send)
    : send_(std::move(send)) {}

std::unique_ptr<ConsoleSink> LinkWindow::make_sink(int stream, std::shared_ptr<WakeUp> wake_up) {
  streams_.push_back(std::make_shared<Stream>(stream, std::move(wake_up)));
  return std::make_unique<Sink>(shared_from_this(), streams_.back());
}

bool LinkWindow::reserve(std::size_t bytes) {
  if (given_up_) return true;
  if (sent_ - taken_ + static_cast<std::int64_t>(bytes) > kLinkWindowBytes) return false;
  sent_ += static_cast<std::int64_t>(bytes);
  return true;
}

void LinkWindow::taken(std::int64_t bytes) {
  taken_ = std::min(sent_, taken_ + std::max<std::int64_t>(bytes, 0));
  pump();
  if (on_room) on_room();
}

void LinkWindow::give_up() {
  given_up_ = true;
  pump();
  if (on_room) on_room();
}

std::int64_t LinkWindow::outstanding() const {
  std::int64_t bytes = sent_ - taken_;
  for (const auto& stream : streams_)
    bytes += static_cast<std::int64_t>(stream->pending.size() - stream->begin);
  return bytes;
}

/// Piece by piece in turn, so that a flood on one stream does not hold up the other.
void LinkWindow::pump() {
  bool more = true;
  while (more) {
    more = false;
    for (const auto& stream : streams_) {
      if (stream->empty()) continue;
      if (given_up_) {
        stream->dropped += stream->pending.size() - stream->begin;
        stream->begin = stream->pending.size();
      } else {
        const std::string_view piece = next_piece(std::string_view(stream->pending).substr(stream->begin));
        if (!reserve(piece.size())) continue;
        send_(stream->number, piece);
        stream->begin += piece.size();
        more = true;
      }
      if (!stream->empty()) continue;
      stream->pending.clear();
      stream->begin = 0;
      stream->wake_up->signal();
    }
  }
}

}  // namespace muster::agent
