// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/console_body.hpp"

#include "launcher/console/core/console_record.hpp"
#include "launcher/console/core/frame_reader.hpp"
#include "launcher/console/core/line_account.hpp"
#include "launcher/console/record_writer.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/quiet_thread.hpp"
#include "rendezvous/base/wall_clock.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::launcher {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

/// Bytes that are read, and written, at a time.
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kWriteBytes = std::size_t{256} << 10;
/// Before a line that found no room is offered again.
constexpr milliseconds kOfferAgain{10};
/// Who still holds the streams this long after the launcher's last word is none of ours.
constexpr milliseconds kAfterLastWord{2000};
/// For the rest that the disk has not taken when all have ended.
constexpr milliseconds kLastWriteAtMost{10'000};

ConsoleRecord of_ours(ConsoleRecord::Stream stream, std::optional<std::int64_t> number) {
  ConsoleRecord record;
  record.time_ms = wall_clock_ms();
  record.stream = stream;
  record.number = number;
  return record;
}

/// The queue, and the thread that writes what is in it. Shared with that thread, which may be stuck in a
/// write when the other one leaves.
class WriterQueue : public std::enable_shared_from_this<WriterQueue> {
 public:
  explicit WriterQueue(UniqueFd folder) : folder_(std::move(folder)), writer_(folder_.get()) {}

  void start() {
    quiet_thread([self = shared_from_this()] { self->write_all(); }).detach();
  }

  /// Takes a line, or loses it. False: it is to be offered again.
  bool offer(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    const LineAccount::Verdict verdict = account_.offer(line.size(), steady_now());
    if (verdict == LineAccount::Verdict::wait) return false;
    if (verdict == LineAccount::Verdict::take) append(line);
    return true;
  }

  /// Takes the last line, and says that none follows.
  void close(const std::string& last) {
    const std::scoped_lock lock(mutex_);
    account_.force(last.size());
    append(last);
    closed_ = true;
    changed_.notify_all();
  }

  /// Waits until everything is written, at most so long.
  void wait_for_end(milliseconds at_most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, at_most, [this] { return ended_; });
  }

 private:
  void append(const std::string& line) {
    if (account_.has_lost()) {
      const std::string lost = to_line(of_ours(ConsoleRecord::Stream::lost, account_.take_lost()));
      account_.force(lost.size());
      queue_ += lost;
    }
    queue_ += line;
    changed_.notify_all();
  }

  void write_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) break;
      std::size_t size = queue_.rfind('\n', kWriteBytes - 1);
      size = (size == std::string::npos ? queue_.find('\n') : size) + 1;
      const std::string piece = queue_.substr(0, size);
      queue_.erase(0, size);
      lock.unlock();
      if (refused_ > 0 && writer_.write(to_line(of_ours(ConsoleRecord::Stream::lost, refused_))) == 0)
        refused_ = 0;
      refused_ += writer_.write(piece);
      lock.lock();
      account_.written(size, steady_now());
    }
    ended_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  UniqueFd folder_;
  RecordWriter writer_;
  LineAccount account_;
  std::string queue_;
  /// Lines that the disk has refused since it took something last; used by the thread that writes.
  std::int64_t refused_ = 0;
  bool closed_ = false;
  bool ended_ = false;
};

class ConsoleBody {
 public:
  ConsoleBody(ConsoleDescriptors descriptors, milliseconds outlives)
      : outlives_(outlives),
        launcher_(std::move(descriptors.launcher)),
        streams_{{{std::move(descriptors.out), FrameReader(ConsoleRecord::Stream::out)},
                  {std::move(descriptors.err), FrameReader(ConsoleRecord::Stream::err)}}},
        queue_(std::make_shared<WriterQueue>(std::move(descriptors.folder))) {}

  void run() {
    queue_->start();
    while (has_stream() && (!give_up_at_ || steady_now() < *give_up_at_)) {
      if (offer_pending())
        read_streams();
      else
        ::poll(nullptr, 0, static_cast<int>(kOfferAgain.count()));
    }
    for (Stream& stream : streams_) stream.frames.end(wall_clock_ms(), records_);
    take_records();
    // Whoever has printed this is gone, so there is nobody to hold up.
    const TimePoint limit = steady_now() + kLastWriteAtMost;
    while (!offer_pending() && steady_now() < limit)
      ::poll(nullptr, 0, static_cast<int>(kOfferAgain.count()));
    queue_->close(to_line(of_ours(ConsoleRecord::Stream::end, exit_code_)));
    queue_->wait_for_end(left_until(limit));
  }

 private:
  struct Stream {
    UniqueFd fd;
    FrameReader frames;
  };

  bool has_stream() const { return streams_[0].fd || streams_[1].fd; }

  /// Offers what waits; false while some still does.
  bool offer_pending() {
    while (!pending_.empty() && queue_->offer(pending_.front())) pending_.pop_front();
    return pending_.empty();
  }

  void read_streams() {
    std::array<pollfd, 3> watched{
        {{streams_[0].fd.get(), POLLIN, 0}, {streams_[1].fd.get(), POLLIN, 0}, {launcher_.get(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), poll_time(give_up_at_)) < 0) return;
    if (watched[2].revents != 0) {
      launcher_.reset();  // poll passes over what is -1
      limit_to(outlives_);
    }
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (watched[i].revents != 0) read_one(streams_[i]);
    take_records();
  }

  void read_one(Stream& stream) {
    const ssize_t size = ::read(stream.fd.get(), buffer_.data(), buffer_.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (size <= 0) return stream.fd.reset();
    stream.frames.feed({buffer_.data(), static_cast<std::size_t>(size)}, wall_clock_ms(), records_);
  }

  void take_records() {
    for (const ConsoleRecord& record : records_) {
      if (record.stream != ConsoleRecord::Stream::end) {
        pending_.push_back(to_line(record));
        continue;
      }
      // What others have printed before may still be in the other stream.
      exit_code_ = record.number;
      limit_to(kAfterLastWord);
    }
    records_.clear();
  }

  void limit_to(milliseconds time) {
    const TimePoint limit = steady_now() + time;
    give_up_at_ = give_up_at_ ? std::min(*give_up_at_, limit) : limit;
  }

  milliseconds outlives_;
  UniqueFd launcher_;
  std::array<Stream, 2> streams_;
  std::shared_ptr<WriterQueue> queue_;
  std::vector<char> buffer_ = std::vector<char>(kReadBytes);
  std::vector<ConsoleRecord> records_;
  /// Lines that are not in the queue yet: of one look at the streams.
  std::deque<std::string> pending_;
  std::optional<std::int64_t> exit_code_;
  std::optional<TimePoint> give_up_at_;
};

}  // namespace

void run_console(ConsoleDescriptors descriptors, milliseconds outlives) {
  ConsoleBody(std::move(descriptors), outlives).run();
}

}  // namespace muster::launcher
