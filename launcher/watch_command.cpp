// SPDX-License-Identifier: Apache-2.0
#include "launcher/watch_command.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/inspect/core/job_text.hpp"
#include "launcher/inspect/job_client.hpp"
#include "launcher/inspect/terminal_screen.hpp"
#include "launcher/job_choice.hpp"
#include "launcher/signal_queue.hpp"
#include "launcher/standard_output.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/log/colours.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace muster::launcher {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

/// Shows one answer after the other, in one of three ways. Each call may throw as write_out() does.
class Shown {
 public:
  virtual ~Shown() = default;
  /// Shows an answer of the job.
  virtual void answer(const std::string& line) = 0;
  /// Shows that there was none, and why.
  virtual void trouble(const std::string& why) = 0;
  /// Shows that the job has ended.
  virtual void ended() = 0;

  /// The terminal has another size, or is to be given back.
  virtual void redraw() {}

  virtual void leave() {}
};

/// For another program: as JSON, or as texts with an empty line between two.
class Lines : public Shown {
 public:
  Lines(std::string id, bool json, int interrupt) : id_(std::move(id)), json_(json), interrupt_(interrupt) {}

  void answer(const std::string& line) override {
    const std::string text = json_ ? line + "\n" : status_text(job_answer_from_json(line));
    write_out((first_ || json_ ? "" : "\n") + text, interrupt_);
    first_ = false;
  }

  void trouble(const std::string& why) override { log_warning("job " + id_ + ": " + why); }

  void ended() override {
    if (!json_) write_out("\njob " + for_terminal(id_) + " has ended\n", interrupt_);
  }

 private:
  std::string id_;
  bool json_;
  int interrupt_;
  bool first_ = true;
};

class Pictures : public Shown {
 public:
  explicit Pictures(std::string id) : id_(std::move(id)), coloured_(wants_colours()), screen_(coloured_) {}

  void answer(const std::string& line) override {
    answer_ = job_answer_from_json(line);
    trouble_.clear();
    redraw();
  }

  void trouble(const std::string& why) override {
    trouble_ = why;
    redraw();
  }

  void redraw() override { screen_.show(picture()); }

  void leave() override { screen_.leave(); }

  void ended() override {
    trouble_.clear();
    const Picture last = picture();
    screen_.leave();
    std::string text;
    for (const ScreenLine& line : last) text += painted(line, coloured_) + "\n";
    print(text + "job " + for_terminal(id_) + " has ended\n");
  }

 private:
  Picture picture() const {
    const ScreenSize size = TerminalScreen::size();
    Picture lines = status_picture(answer_, size);
    if (trouble_.empty()) return lines;
    const auto columns = static_cast<std::size_t>(std::max(size.columns, 20)) - 1;
    lines.insert(lines.begin() + 1, {cut_to("no answer: " + for_terminal(trouble_), columns), Tone::warning});
    if (lines.size() > static_cast<std::size_t>(std::max(size.rows, 4))) lines.pop_back();
    return lines;
  }

  std::string id_;
  bool coloured_;
  TerminalScreen screen_;
  JobAnswer answer_;
  std::string trouble_;
};

/// Does what a signal asks for. Returns whether the watch is over.
bool obey(int signal, Shown& shown) {
  if (signal == SIGWINCH) {
    shown.redraw();
    return false;
  }
  if (signal != SIGTSTP) return true;
  shown.leave();
  // Not by SIGTSTP, which is blocked; whoever waits for us sees a process that is stopped all the same.
  ::kill(::getpid(), SIGSTOP);
  shown.redraw();
  return false;
}

}  // namespace

int watch_job(const FoundJob& job, const agent::NodeQuery& query, const InspectOptions& options,
              const std::string& line) {
  const bool on_screen = !options.json && can_show_pictures();
  std::vector<int> watched{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  // Those that concern the terminal, too.
  if (on_screen) watched.insert(watched.end(), {SIGWINCH, SIGTSTP});
  SignalQueue signals(watched);
  std::unique_ptr<Shown> shown;
  if (on_screen)
    shown = std::make_unique<Pictures>(job.card.id);
  else
    shown = std::make_unique<Lines>(job.card.id, options.json, signals.fd());
  bool over = false;
  for (bool first = true;; first = false) {
    try {
      if (over) {
        shown->ended();
        return kExitSuccess;
      }
      shown->answer(first ? line : ask_job(job.socket, query, kAnswerAtMost, signals.fd()));
    } catch (const NoAnswer& error) {
      over = !still_runs(job.card);
      if (over) continue;
      shown->trouble(error.what());
    } catch (const Interrupted&) {
      // By a signal, which is taken now.
    }
    const TimePoint next = steady_now() + *options.watch;
    while (const int signal = signals.wait(next))
      if (obey(signal, *shown)) return kExitSuccess;
  }
}

}  // namespace muster::launcher
