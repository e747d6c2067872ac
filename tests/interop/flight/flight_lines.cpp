// SPDX-License-Identifier: Apache-2.0
// Prints what we say of dumps of NCCL's flight recorder. usage: flight_lines FOLDER RANKS: FOLDER/rank0, ...
#include "agent/core/flight_record.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/core/flight_match.hpp"

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    std::vector<muster::agent::FlightRank> ranks;
    for (int rank = 0; rank < std::atoi(argv[2]); ++rank)
      if (const auto bytes = muster::read_file(std::string(argv[1]) + "/rank" + std::to_string(rank)))
        ranks.push_back(muster::agent::read_flight_record(*bytes, rank, {}));
    for (const std::string& line : muster::rendezvous::match_flight_records(ranks)) std::cout << line << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
