// SPDX-License-Identifier: Apache-2.0
#include "muster/error.hpp"
#include "tests/fuzz/checks.hpp"
#include "worker_sdk/comm/nccl/board.hpp"
#include "worker_sdk/status/describe_wait.hpp"
#include "worker_sdk/status/status_reader.hpp"
#include "worker_sdk/world/mpi_meeting.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace muster;
using fuzz::require;

/// A line for people, which goes to their terminals.
void require_line(const std::string& text) {
  require(text.size() < 16384, "a line has the length of a book");
  require(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }),
          "a line holds what a terminal obeys");
}

// The board. Its store is a map.

using Store = std::map<std::string, std::string>;

int32_t post(void* context, const char* key, const void* value, size_t bytes, muster_plugin_error*) {
  (*static_cast<Store*>(context))[key] = std::string(static_cast<const char*>(value), bytes);
  return 0;
}

int32_t peek(void* context, const char* key, void** value, size_t* bytes, muster_plugin_error*) {
  const Store& store = *static_cast<Store*>(context);
  const auto found = store.find(key);
  *value = nullptr;
  if (found == store.end()) return 0;
  *bytes = found->second.size();
  *value = std::malloc(*bytes + 1);
  std::memcpy(*value, found->second.data(), *bytes);
  return 0;
}

Call call_number(std::uint64_t sequence) {
  Call call;
  call.sequence = sequence;
  call.count = 1000;
  call.collective = Collective::all_reduce;
  call.type = DataType::f32;
  return call;
}

bool check_board(std::string_view text) {
  constexpr std::uint64_t kCalls = 5;
  Store store;
  muster_plugin_host table{};
  table.context = &store;
  table.post = post;
  table.peek = peek;
  table.release = std::free;
  const plugin::Host host(table);
  nccl::Board mine(host, 0, 2);
  nccl::Board theirs(host, 1, 2);
  for (std::uint64_t number = 1; number <= kCalls; ++number) {
    mine.record(call_number(number));
    theirs.record(call_number(number));
  }
  theirs.exchange();
  require(!mine.exchange() && mine.is_settled(), "equal calls are found to differ");
  const auto honest = mine.read(1);
  require(honest && honest->count == kCalls && !honest->left && honest->links.size() == kCalls,
          "a record does not survive the way through the store");
  // Then the other rank posts whatever it likes.
  mine.record(call_number(kCalls + 1));
  store["calls/1"] = std::string(text);
  const auto record = mine.read(1);
  const auto finding = mine.exchange();
  require(record || !finding, "a text that is no record proves a difference");
  if (finding) {
    require(finding->peer == 1, "another rank is blamed");
    require_line(describe(finding->mine));
    if (finding->theirs) require_line(describe(*finding->theirs) + brief(*finding->theirs));
  }
  if (!record) return false;
  require(record->links.size() <= record->count, "a record has more links than calls");
  require(record->links.size() * 48 <= text.size(), "a record has more links than it has bytes");
  const auto again = nccl::Record::decode(record->encode());
  require(again && again->encode() == record->encode(), "a record does not survive the way through its text");
  require(again->at(0) == nullptr && again->at(again->count + 1) == nullptr, "there is a link that is not");
  return true;
}

// Status pages.

/// Every word of the page is taken from the text, over and over.
std::unique_ptr<status::Page> page_of(std::string_view text, std::size_t turn) {
  auto page = std::make_unique<status::Page>();
  std::string bytes(sizeof(status::Page), '\0');
  for (std::size_t i = 0; i < bytes.size() && !text.empty(); ++i) bytes[i] = text[(i + turn) % text.size()];
  std::size_t place = 0;
  const auto fill = [&](auto& record) {
    auto* const words = reinterpret_cast<status::Word*>(&record);
    for (std::size_t i = 0; i < sizeof(record) / sizeof(status::Word); ++i, place += sizeof(status::Word)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + place, sizeof word);
      words[i].store(word, std::memory_order_relaxed);
    }
  };
  fill(page->identity);
  for (status::GroupRecord& record : page->groups) fill(record);
  for (status::RingRecord& record : page->ring) fill(record);
  if (turn == 0) return page;
  // Some ring entries are where a reader looks for them.
  page->identity.next_ticket.store(turn + 7, std::memory_order_relaxed);
  for (std::uint64_t ticket = turn + 1; ticket <= turn + 7; ++ticket)
    page->ring[(ticket - 1) % status::kRing].ticket.store(ticket, std::memory_order_relaxed);
  return page;
}

void check_status(const status::RankStatus& status) {
  constexpr int kMost = 1 << 24;
  require(status.phase <= status::ProcessPhase::finished, "a phase that there is not");
  require(status.rank >= 0 && status.rank <= kMost && status.size >= 0 && status.size <= kMost &&
              status.round >= 0,
          "a place outside its range");
  require(status.groups.size() <= status::kGroups, "more groups than there are places");
  for (const status::GroupStatus& group : status.groups) {
    require(group.name.size() <= status::kNameBytes, "a name longer than its place");
    require_line(group.name);
    require(group.name_hash != 0 && group.state != status::GroupState::none &&
                group.state <= status::GroupState::failed,
            "a group that is none");
    require(group.rank >= 0 && group.rank <= kMost && group.size >= 0 && group.size <= kMost,
            "a place in a group");
    require(group.error_code <= 0 && group.error_code >= -255, "an error code outside its range");
  }
}

bool check_page(std::string_view text) {
  std::vector<status::RankView> views;
  constexpr std::uint64_t kNow = 1'000'000'000'000;
  bool claimed = false;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const auto page = page_of(text, rank * 8);
    status::RankView view;
    view.rank = static_cast<int>(rank);
    view.world_size = 3;
    view.process = static_cast<status::ProcessState>(rank + 2);
    view.status = status::read_status(*page);
    view.pid = view.status.pid;
    claimed = claimed || view.status.phase != status::ProcessPhase::unclaimed;
    check_status(view.status);
    const auto recent = status::read_recent(*page, 5);
    require(recent.size() <= 5, "more calls than were asked for");
    for (const std::string& line : status::brief(recent, view.status, kNow)) require_line(line);
    require_line(status::activity(view, kNow));
    views.push_back(std::move(view));
  }
  const std::vector<status::Wait> waits = status::find_waits(views, kNow);
  require(waits.size() <= status::kWaitsMax, "more waits than are kept");
  for (const status::Wait& wait : waits) {
    require(!wait.waiting.empty() && wait.unseen >= 0 && wait.longest.count() >= 0,
            "a wait in which nobody waits");
    for (const int rank : wait.missing) require(rank >= 0 && rank < 3, "a rank is missing that there is not");
    require_line(status::describe(wait, views, kNow));
  }
  return claimed;
}

// What MPI carries.

bool check_note(std::string_view text) {
  const MpiNote note = MpiNote::from_text(std::string(text));
  const MpiNote again = MpiNote::from_text(note.to_text());
  require(again.boot == note.boot && again.addresses == note.addresses,
          "a note does not survive the way through its text");
  const MpiNote own{"here", {"10.0.0.1"}};
  const TextBroadcast broadcast = [&text](std::string& carried, int root) {
    if (root == 1) carried = text;
  };
  const ServingPlan plan = agree_on_serving(broadcast, 0, 2, own);
  if (note.boot == own.boot) {
    require(plan.host == ServingPlan().host && plan.allow.empty(),
            "a store is open to others though there is one host");
  } else {
    require(plan.host == own.addresses.front(), "rank 0 serves on an address of another host");
    require(plan.allow.size() == 1 + note.addresses.size(), "others are let in than those that were told");
  }
  return !note.addresses.empty();
}

bool check_endpoint(std::string_view text) {
  try {
    const std::string endpoint =
        share_endpoint([&text](std::string& carried, int) { carried = text; }, 1, nullptr);
    require(text.ends_with(endpoint), "the endpoint is another than the one that was sent");
    const std::string again = share_endpoint([](std::string&, int) {}, 0, [&endpoint] { return endpoint; });
    require(again == endpoint, "rank 0 has another endpoint than the others");
    return text.starts_with("0 ");
  } catch (const Error& error) {
    require(text.ends_with(error.what()) && static_cast<int>(error.code()) != 0,
            "an error is another than the one that was sent");
    return false;
  }
}

}  // namespace

bool muster::fuzz::check_ranks_input(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view rest = input.substr(1);
  switch (input[0]) {
    case 'B':
      return check_board(rest);
    case 'S':
      return check_page(rest);
    // MPI carries texts that end with a 0.
    case 'N':
      return check_note(rest.substr(0, rest.find('\0')));
    case 'E':
      return check_endpoint(rest.substr(0, rest.find('\0')));
    default:
      return false;
  }
}
