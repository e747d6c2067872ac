// SPDX-License-Identifier: Apache-2.0
// A C++ program against the installed headers: a ring of messages, a group of the even ranks, started calls,
// the store.
#include <muster/muster.hpp>

#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

int main() {
  try {
    muster::World world;
    muster::Group& all = world.group();
    const int left = (all.rank() + all.size() - 1) % all.size();
    const int right = (all.rank() + 1) % all.size();

    std::vector<double> mine(1000, all.rank());
    std::vector<double> theirs(1000, all.rank());
    if (all.size() > 1)
      all.batch([&] {
        all.send(mine, right);
        all.recv(theirs, left);
      });

    auto work = all.start_all_reduce(theirs);
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(all.size()));
    work.wait();
    all.all_gather(std::vector<std::int64_t>{all.rank()}, ranks);

    std::int64_t evens = 0;
    if (auto even = all.split(all.rank() % 2 == 0 ? 0 : -1)) {
      evens = even->rank() == 0 ? even->size() : 0;
      even->broadcast(std::span(&evens, 1));
    }
    if (all.size() > 1) {
      muster::Store store = world.store();
      if (world.rank() == 0) store.set("greeting", "hello");
      if (store.get("greeting") != "hello") return 1;
      world.barrier("greeted");
    }
    if (world.rank() == 0)
      std::printf("ring: %d ranks, sum %.0f of %.0f, %lld even, last rank %lld\n", all.size(), theirs[999],
                  all.size() * (all.size() - 1) / 2.0, static_cast<long long>(evens),
                  static_cast<long long>(ranks.back()));
    world.finalize();
  } catch (const muster::Error& error) {
    std::fprintf(stderr, "ring: %s\n", error.what());
    return 1;
  }
}
