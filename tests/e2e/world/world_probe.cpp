// SPDX-License-Identifier: Apache-2.0
// A worker that makes a world by its environment, uses it, and prints what it found as one line of JSON; on
// an Error one line with its code and text, and exit code 1. usage: world_probe [init_url [rank size]]
// [join=MS] [backend=NAME]
#include "worker_sdk/world/world.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result + "\"";
}

muster::WorldOptions parse(int argc, char** argv) {
  muster::WorldOptions options;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("join=")) {
      options.join_timeout = std::chrono::milliseconds(std::stoi(word.substr(5)));
    } else if (word.starts_with("backend=")) {
      options.backend = word.substr(8);
    } else {
      words.push_back(word);
    }
  }
  if (!words.empty()) options.init_url = words[0];
  if (words.size() > 1) options.rank = std::stoi(words[1]);
  if (words.size() > 2) options.size = std::stoi(words[2]);
  return options;
}

/// Every rank's number, once: summed in the group, and counted in the store.
std::int64_t use(muster::World& world) {
  std::int64_t sum = world.info().rank + 1;
  world.group().all_reduce(&sum, 1, muster::DataType::i64, muster::ReduceOp::sum);
  if (world.info().store.empty()) return sum;
  const std::int64_t so_far = world.store().add("sum", world.info().rank + 1);
  world.barrier("added", std::chrono::seconds(30));
  const std::int64_t total = std::stoll(world.store().get("sum"));
  return total == sum && so_far <= total ? sum : -1;
}

void print(const muster::World& world, std::int64_t sum) {
  const muster::WorldInfo& info = world.info();
  std::string line =
      "{\"rank\":" + std::to_string(info.rank) + ",\"size\":" + std::to_string(info.size) +
      ",\"local_rank\":" + std::to_string(info.local_rank) +
      ",\"local_size\":" + std::to_string(info.local_size) +
      ",\"node_rank\":" + std::to_string(info.node_rank) + ",\"nodes\":" + std::to_string(info.nodes) +
      ",\"restarts\":" + std::to_string(info.restart_count) + ",\"run_id\":" + quoted(info.run_id) +
      ",\"launcher\":" + quoted(name_of(info.launcher)) + ",\"store\":" + quoted(info.store) +
      ",\"sum\":" + std::to_string(sum) + "}\n";
  std::fputs(line.c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto world = muster::World::init(parse(argc, argv));
    print(*world, use(*world));
    // A second world over the same store has keys of its own.
    const auto again = muster::World::init(parse(argc, argv));
    if (use(*again) < 0) std::fputs("{\"error\":\"the second world saw the first one's keys\"}\n", stdout);
  } catch (const muster::Error& error) {
    std::printf("{\"code\":%d,\"error\":%s}\n", static_cast<int>(error.code()), quoted(error.what()).c_str());
    return 1;
  }
  return 0;
}
