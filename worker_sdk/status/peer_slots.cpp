// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/peer_slots.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/quiet_thread.hpp"
#include "worker_sdk/status/process_state.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <system_error>
#include <utility>

namespace muster::status {
namespace {

using std::chrono::milliseconds;

/// The longest time to wait for the addresses of the others, because ranks that an agent watches tell none.
constexpr milliseconds kExchangeLimit{1000};
/// The intervals in milliseconds in which long waits, and waits for dead ranks, are looked for.
constexpr int kLookMs = 1000;
constexpr int kLookForLostMs = 20;
/// The most waits that are remembered as reported.
constexpr std::size_t kReportedMax = 4096;
constexpr const char* kSeeOutput = "; look at the output of that rank for the cause";

/// The text by which a rank tells its file: "4711:12:34567 99887766 node7" is the address, the start time of
/// the process, its host.
std::string announcement(const StatusWriter& own, const std::string& host) {
  const std::uint64_t start_time = own.file().page().identity.start_time.load(std::memory_order_relaxed);
  return own.file().address().to_text() + " " + std::to_string(start_time) + " " + host;
}

std::optional<PeerSlot> open_slot(const std::string& text, int rank, const std::string& host) {
  const std::size_t first = text.find(' ');
  const std::size_t second = first == std::string::npos ? first : text.find(' ', first + 1);
  if (second == std::string::npos || text.substr(second + 1) != host) return std::nullopt;
  const auto address = Address::from_text(std::string_view(text).substr(0, first));
  if (!address) return std::nullopt;
  try {
    UniqueFd pidfd = address->pid == ::getpid() ? UniqueFd() : open_pidfd(address->pid);
    PeerSlot slot{rank, StatusFile::open(*address, false), std::move(pidfd)};
    // The process number may belong to another process by now, or mean another one in this pid namespace.
    if (std::to_string(look_at(address->pid).start_time) != text.substr(first + 1, second - first - 1))
      return std::nullopt;
    return slot;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool has_joined(const RankView& view, std::uint64_t name_hash) {
  return std::any_of(view.status.groups.begin(), view.status.groups.end(), [&](const GroupStatus& group) {
    if (group.name_hash != name_hash || group.state == GroupState::joining) return false;
    return group.state != GroupState::failed || group.call.sequence > 0;
  });
}

}  // namespace

std::vector<PeerSlot> exchange_slots(StoreClient& store, const StatusWriter& own,
                                     const StatusOptions& options) {
  const std::string prefix = "status/" + std::to_string(options.round) + "/";
  std::vector<PeerSlot> peers;
  try {
    store.set(prefix + std::to_string(options.rank), announcement(own, options.host));
    std::vector<std::string> keys;
    std::vector<int> ranks;
    for (int rank = 0; rank < options.size; ++rank) {
      if (rank == options.rank) continue;
      keys.push_back(prefix + std::to_string(rank));
      ranks.push_back(rank);
    }
    try {
      store.wait(keys, kExchangeLimit);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline || store.is_silent()) throw;
      std::vector<std::string> there;
      std::vector<int> whose;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (!store.check({keys[i]})) continue;
        there.push_back(keys[i]);
        whose.push_back(ranks[i]);
      }
      keys.swap(there);
      ranks.swap(whose);
    }
    if (keys.empty()) return peers;
    const std::vector<std::string> texts = store.multi_get(keys);
    for (std::size_t i = 0; i < std::min(texts.size(), ranks.size()); ++i)
      if (auto slot = open_slot(texts[i], ranks[i], options.host)) peers.push_back(std::move(*slot));
  } catch (const Error&) {
    // Without the store no peers can be seen; the groups find dead ranks by themselves.
  }
  return peers;
}

PeerSlots::PeerSlots(std::shared_ptr<Watchers> watchers, std::vector<PeerSlot> peers, StatusOptions options)
    : watchers_(std::move(watchers)), peers_(std::move(peers)), options_(std::move(options)) {
  if (!wake_up_ || peers_.empty()) return;
  try {
    thread_ = quiet_thread([this] { watch(); });
  } catch (const std::system_error&) {
    // Without a thread the groups find dead ranks by themselves, only later.
  }
}

PeerSlots::~PeerSlots() {
  if (!thread_.joinable()) return;
  wake_up_.signal();
  thread_.join();
}

void PeerSlots::watch() {
  while (wait_for_events()) look();
}

/// Waits for the next event. Returns false at the end.
bool PeerSlots::wait_for_events() {
  std::vector<pollfd> entries{{wake_up_.fd(), POLLIN, 0}};
  for (const PeerSlot& peer : peers_)
    if (peer.pidfd) entries.push_back({peer.pidfd.get(), POLLIN, 0});
  if (::poll(entries.data(), entries.size(), somebody_died_ ? kLookForLostMs : kLookMs) < 0)
    return errno == EINTR;
  if (entries[0].revents != 0) return false;
  for (PeerSlot& peer : peers_) {
    const auto ended = std::find_if(entries.begin() + 1, entries.end(), [&peer](const pollfd& entry) {
      return entry.fd == peer.pidfd.get() && entry.revents != 0;
    });
    if (!peer.pidfd || ended == entries.end()) continue;
    peer.pidfd.reset();
    somebody_died_ = true;
    just_died_.push_back(peer.rank);
  }
  return true;
}

std::vector<RankView> PeerSlots::views() const {
  const auto view_of = [this](int rank, const Page& page) {
    RankView view;
    view.rank = rank;
    view.world_size = options_.size;
    view.status = read_status(page);
    view.pid = view.status.pid;
    return view;
  };
  std::vector<RankView> ranks{view_of(options_.rank, watchers_->writer->file().page())};
  for (const PeerSlot& peer : peers_) {
    ranks.push_back(view_of(peer.rank, peer.file.page()));
    if (!peer.pidfd && ranks.back().pid != ranks.front().pid) ranks.back().process = ProcessState::gone;
  }
  return ranks;
}

void PeerSlots::look() {
  std::vector<RankView> ranks = views();
  const std::uint64_t now = monotonic_ns();
  say_who_died(ranks, now);
  std::set<Key> suspected;
  for (const Wait& wait : find_waits(ranks, now)) {
    const auto mine = std::find(wait.waiting.begin(), wait.waiting.end(), options_.rank);
    if (mine == wait.waiting.end()) continue;
    const Key key(wait.name_hash, wait.joining, wait.call.sequence);
    // A rank may have done its last step just before it died, and the others may need a moment to see that.
    // So the call ends only if the wait is seen at two looks.
    if (somebody_died_ && suspected_.contains(key)) end_if_lost(wait, ranks, now);
    suspected.insert(key);
    if (wait.longest >= options_.report_after && options_.report_after.count() > 0) report(wait, ranks, now);
  }
  suspected_ = std::move(suspected);
}

/// Reports dead ranks at once, because a launcher like mpirun ends the other ranks before their calls end.
/// The lowest rank that is left reports.
void PeerSlots::say_who_died(const std::vector<RankView>& ranks, std::uint64_t now) {
  const std::vector<int> died = std::exchange(just_died_, {});
  const bool speaks = std::none_of(ranks.begin(), ranks.end(), [this](const RankView& view) {
    return view.rank < options_.rank && view.process != ProcessState::gone;
  });
  if (!speaks) return;
  for (const RankView& view : ranks) {
    // A rank that has ended its world did nothing wrong.
    if (std::find(died.begin(), died.end(), view.rank) == died.end() ||
        view.status.phase != ProcessPhase::active)
      continue;
    std::fprintf(stderr, "muster: warning: %s\n", (death_of(view, now) + kSeeOutput).c_str());
  }
}

std::string PeerSlots::death_of(const RankView& view, std::uint64_t now) const {
  return "rank " + std::to_string(view.rank) + " (process " + std::to_string(view.pid) + " on " +
         options_.host + ") has died, " + activity(view, now);
}

/// Ends this rank's call when a rank that it needs is dead.
void PeerSlots::end_if_lost(const Wait& wait, const std::vector<RankView>& ranks, std::uint64_t now) {
  std::vector<const RankView*> dead;
  for (const RankView& view : ranks) {
    const auto is_in = [&view](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), view.rank) != list.end();
    };
    // The ranks of a group cannot be seen before they have joined it, but the list of members is known. A
    // rank that joined and then died is missed as well by a rank that still connects to it.
    const bool concerned =
        wait.joining ? !has_joined(view, wait.name_hash) || view.status.phase == ProcessPhase::active
                     : is_in(wait.missing) || is_in(wait.waiting);
    if (view.process != ProcessState::gone || !concerned) continue;
    if (watchers_->live.has_member(wait.name_hash, view.rank)) dead.push_back(&view);
  }
  // By now other ranks may have ended for the same cause, so the culprit is searched among all dead ranks.
  const RankView* const culprit = find_culprit(dead, wait.name_hash);
  if (culprit == nullptr) return;
  watchers_->live.abort(
      wait.name_hash, ErrorCode::peer_lost,
      death_of(*culprit, now) +
          (has_lost_another(*culprit, wait.name_hash) ? " as it had lost another rank" : "") +
          ", while rank " + std::to_string(options_.rank) +
          (wait.joining ? " joined the" : " was in " + muster::brief(wait.call) + " of") + " group '" +
          wait.group + "'" + kSeeOutput);
}

/// Reports a long wait once for each host, by the lowest of its waiting ranks.
void PeerSlots::report(const Wait& wait, std::vector<RankView>& ranks, std::uint64_t now) {
  const int speaker = *std::min_element(wait.waiting.begin(), wait.waiting.end());
  const Key key(wait.name_hash, wait.joining, wait.call.sequence);
  if (speaker != options_.rank || reported_.contains(key)) return;
  if (reported_.size() >= kReportedMax) reported_.clear();
  reported_.insert(key);
  for (RankView& view : ranks)
    if (view.process != ProcessState::gone) view.process = look_at(view.pid).state;
  std::fprintf(stderr, "muster: warning: %s\n", describe(wait, ranks, now).c_str());
}

}  // namespace muster::status
