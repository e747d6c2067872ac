// SPDX-License-Identifier: Apache-2.0
// The fuzzers' committed inputs, on every compiler and in every preset.
#include "catch.hpp"
#include "tests/fuzz/checks.hpp"
#include "tests/support/folder.hpp"

#include <filesystem>
#include <string>

using namespace muster::fuzz;

namespace {

struct Corpus {
  const char* folder;
  bool (*check)(std::string_view input);
  int least_inputs;
  /// Inputs that are refused, and no others, are called "bad_...".
  bool names_refused;
};

const Corpus kCorpora[] = {
    {"cli/corpus", check_cli_input, 20, false},
    {"error_file/corpus", check_error_file_input, 10, true},
    {"frame/corpus", check_frame_input, 20, true},
    {"hosts/corpus", check_hosts_input, 20, false},
    {"login/corpus", check_login_input, 10, true},
    {"pickle/corpus", check_pickle_input, 10, true},
    {"ranks/corpus", check_ranks_input, 10, true},
    {"stacks/corpus", check_stacks_input, 10, true},
    {"terminal/corpus", check_terminal_input, 8, false},
#ifdef MUSTER_HAS_TRAINER
    {"checkpoint/corpus", check_checkpoint_input, 10, true},
    {"config/corpus", check_config_input, 10, true},
#endif
};

}  // namespace

TEST_CASE("Every input of every corpus keeps what must hold") {
  for (const Corpus& corpus : kCorpora) {
    const std::filesystem::path folder = std::filesystem::path(MUSTER_FUZZ_FOLDER) / corpus.folder;
    int inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      INFO(entry.path());
      const bool taken = corpus.check(muster::test::bytes_of_file(entry.path()));
      const bool bad = entry.path().filename().string().starts_with("bad_");
      if (corpus.names_refused) CHECK(taken == !bad);
      ++inputs;
    }
    INFO(corpus.folder);
    CHECK(inputs >= corpus.least_inputs);
  }
}
