// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_list.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace muster::launcher {
namespace {

constexpr int kMaxGpu = kMaxSlots - 1;
constexpr const char* kGpu = "the number of a GPU";

struct Choice {
  std::size_t at = 0;
  /// GPUs that were named; empty: all of the host.
  std::set<int> gpus;
};

/// Reads "0,2,4-7".
std::set<int> parse_gpus(const SourceLine& line, Span span) {
  std::set<int> gpus;
  for (const Span item : split_outside_brackets(line, span, ',')) {
    const std::size_t dash = std::min(line.text.find('-', item.begin), item.end);
    const Span high_span{dash == item.end ? item.begin : dash + 1, item.end};
    const int low = number_at(line, {item.begin, dash}, 0, kMaxGpu, kGpu);
    const int high = number_at(line, high_span, 0, kMaxGpu, kGpu);
    if (high < low) throw line.wrong(high_span.begin, "the range ends before it begins; write LOW-HIGH");
    for (int gpu = low; gpu <= high; ++gpu)
      if (!gpus.insert(gpu).second)
        throw line.wrong(item.begin, "GPU " + std::to_string(gpu) + " is named twice");
  }
  return gpus;
}

class Filter {
 public:
  Filter(const std::vector<Host>& hosts, const GivenText& given) : line_(SourceLine::of(given)) {
    if (line_.text.size() > kMaxHostText)
      throw UsageError(line_.name + " is too long; use ranges such as n[00-15]");
    for (const Host& host : hosts) listed_.emplace(lower_case(host.name), &host);
    for (const Span item : split_outside_brackets(line_, {0, line_.text.size()}, '@')) read(item);
  }

  const Choice* of(const Host& host) const {
    const auto found = choices_.find(lower_case(host.name));
    return found == choices_.end() ? nullptr : &found->second;
  }

  const SourceLine& line() const { return line_; }

 private:
  void read(Span item) {
    const std::vector<Span> parts = split_outside_brackets(line_, item, ':');
    if (parts.size() > 2)
      throw line_.wrong(parts[2].begin - 1, "a second colon; hosts are separated by '@', as in n0@n1:0,2");
    const std::vector<std::string> names = expand_hosts(line_, parts[0]);
    Choice choice;
    choice.at = item.begin;
    if (parts.size() == 2) choice.gpus = parse_gpus(line_, parts[1]);
    for (const std::string& name : names) add(name, choice, parts);
  }

  void add(const std::string& name, const Choice& choice, const std::vector<Span>& parts) {
    const auto host = listed_.find(lower_case(name));
    if (host == listed_.end())
      throw line_.wrong(choice.at,
                        "host " + quote(name) + " is not among the hosts of the job; check its spelling");
    const int slots = host->second->slots;
    if (!choice.gpus.empty() && slots > 0 && *choice.gpus.rbegin() >= slots)
      throw line_.wrong(parts[1].begin, "host " + quote(name) + " has no GPU " +
                                            std::to_string(*choice.gpus.rbegin()) + ", only 0 to " +
                                            std::to_string(slots - 1) + " (its slots)");
    if (!choices_.emplace(lower_case(name), choice).second)
      throw line_.wrong(choice.at,
                        "host " + quote(name) + " is named twice; name it once, with all its GPUs");
  }

  SourceLine line_;
  std::map<std::string, const Host*> listed_;
  std::map<std::string, Choice> choices_;
};

Host with_gpus(Host host, std::vector<int> gpus) {
  host.slots = static_cast<int>(gpus.size());
  host.gpus = std::move(gpus);
  return host;
}

}  // namespace

std::vector<Host> include_hosts(const std::vector<Host>& hosts, const GivenText& given) {
  const Filter filter(hosts, given);
  std::vector<Host> kept;
  for (const Host& host : hosts) {
    const Choice* choice = filter.of(host);
    if (choice == nullptr) continue;
    kept.push_back(choice->gpus.empty() ? host : with_gpus(host, {choice->gpus.begin(), choice->gpus.end()}));
  }
  return kept;
}

std::vector<Host> exclude_hosts(const std::vector<Host>& hosts, const GivenText& given) {
  const Filter filter(hosts, given);
  std::vector<Host> kept;
  for (const Host& host : hosts) {
    const Choice* choice = filter.of(host);
    if (choice == nullptr) {
      kept.push_back(host);
      continue;
    }
    if (choice->gpus.empty()) continue;
    if (host.slots == 0)
      throw filter.line().wrong(choice->at, "GPUs of host " + quote(host.name) +
                                                " can be excluded only if its slots are given, as in " +
                                                host.name + ":8");
    std::vector<int> gpus(static_cast<std::size_t>(host.slots));
    std::iota(gpus.begin(), gpus.end(), 0);
    std::erase_if(gpus, [&](int gpu) { return choice->gpus.contains(gpu); });
    if (!gpus.empty()) kept.push_back(with_gpus(host, std::move(gpus)));
  }
  if (kept.empty()) throw filter.line().wrong(0, "no host is left; exclude fewer");
  return kept;
}

}  // namespace muster::launcher
