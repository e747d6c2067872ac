// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/train_options.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/nearest_name.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/muster_train/config_file.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"
#include "worker_sdk/muster_train/flag_rules.hpp"
#include "worker_sdk/muster_train/flags.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <sstream>

namespace muster::examples {
namespace {

constexpr const char* kDescription =
    "Trains a network (convolutional, linear, vision transformer) on 32x32 images, alone or on all ranks of "
    "a "
    "job, on CPUs or GPUs.\n"
    "Start it alone, under 'muster run' or under torchrun; the environment says how many ranks there are.\n";

constexpr const char* kFooter =
    "\nThe same data, options, seed and number of ranks give the same parameters, bit for bit, on the same\n"
    "number of threads and processors with the same instructions.\n"
    "'muster-train --version' tells which GPU and which of NVIDIA's libraries are used here, or why none; "
    "with\n"
    "--json as JSON.\n"
    "Exit codes: 0 done, 1 an error (one line on stderr), 2 a wrong command line.";

/// Each flag on a line of its own, what it does wrapped below it.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool) const override {
    std::string text = "  " + option->get_name(false, true);
    if (option->get_items_expected() > 0) {
      text += " X";
      if (!option->get_default_str().empty()) text += "=" + option->get_default_str();
      if (option->get_required()) text += "   (required)";
    }
    return text + "\n" + wrapped(option->get_description());
  }

 private:
  static std::string wrapped(const std::string& description) {
    constexpr std::size_t kWidth = 78;
    std::istringstream words(description);
    std::string text;
    std::string line = "     ";
    for (std::string word; words >> word; line += " " + word)
      if (line.size() + 1 + word.size() > kWidth) {
        text += line + "\n";
        line = "     ";
      }
    return text + line + "\n";
  }
};

/// What the parser refuses is told in one line that ends with what to do.
EarlyExit usage_error(const std::string& text) {
  return {2, "muster-train: " + text + "; see muster-train --help\n"};
}

std::string after_comma(const std::string& text) {
  return text.empty() ? "" : ", " + text;
}

/// The last --config of the command line, in either of its spellings.
std::string config_of(const std::vector<std::string>& words) {
  std::string path;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--config" && i + 1 < words.size()) path = words[i + 1];
    if (words[i].starts_with("--config=")) path = words[i].substr(9);
  }
  return path;
}

/// The flags of a configuration file as words of a command line.
std::vector<std::string> words_of(const std::string& path, const std::vector<std::string>& names) {
  std::vector<std::string> words;
  for (const ConfigEntry& entry : read_config(path)) {
    if (entry.name == "config" || entry.name == "help")
      throw Error(ErrorCode::invalid_argument, "--config " + path + ": \"" + entry.name +
                                                   "\" belongs on the command line, not into a file");
    if (std::find(names.begin(), names.end(), entry.name) == names.end())
      throw Error(ErrorCode::invalid_argument, "--config " + path + ": there is no flag \"" + entry.name +
                                                   "\"" + after_comma(did_you_mean(entry.name, names)));
    words.push_back("--" + entry.name + "=" + entry.value);
  }
  return words;
}

/// The first word that is unknown, with the nearest flag.
std::string unknown_flag(const std::vector<std::string>& words, const std::vector<std::string>& names) {
  const std::string& word = words.front();
  return "there is no " + word.substr(0, word.find('=')) + after_comma(did_you_mean_flag(word, names));
}

}  // namespace

std::optional<data::SyntheticOptions> synthetic_images(const std::string& data) {
  constexpr std::string_view kName = "synthetic";
  const std::string_view name = data;
  if (!name.starts_with(kName) || (name.size() > kName.size() && name[kName.size()] != ':'))
    return std::nullopt;
  data::SyntheticOptions synthetic;
  if (name.size() == kName.size()) return synthetic;
  synthetic.train_images = parse_number<std::size_t>(name.substr(kName.size() + 1)).value_or(0);
  if (synthetic.train_images < 10 || synthetic.train_images > 1'000'000)
    throw Error(ErrorCode::invalid_argument,
                "--data " + data + ": give synthetic:N with N from 10 to 1000000");
  synthetic.test_images = synthetic.train_images / 5;
  return synthetic;
}

std::variant<TrainOptions, EarlyExit> parse_train_options(int argc, const char* const* argv) {
  TrainOptions options;
  Words words;
  CLI::App app(kDescription, "muster-train");
  app.footer(kFooter);
  app.formatter(std::make_shared<HelpFormatter>());
  // So that the command line, which comes after the words of a configuration file, wins.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_model_flags(app, options, words);
  add_data_flags(app, options, words);
  add_optimizer_flags(app, options, words);
  add_parallel_flags(app, options, words);
  add_run_flags(app, options, words);
  require_plain_values(app);
  const std::vector<std::string> names = flag_names(app);
  try {
    const std::vector<std::string> given(argv + 1, argv + argc);
    const std::string config = config_of(given);
    std::vector<std::string> all = config.empty() ? std::vector<std::string>() : words_of(config, names);
    all.insert(all.end(), given.begin(), given.end());
    require_values(app, all);
    std::reverse(all.begin(), all.end());  // as the parser wants them
    app.parse(all);
    refuse_contradictions(app);
    refuse_with_replicas(app);
    options.notes = flags_without_effect(app);
    options.common = flags_to_agree_on(app);
    apply(words, options);
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{0, app.help()};
  } catch (const CLI::ExtrasError&) {
    return usage_error(unknown_flag(app.remaining(), names));
  } catch (const CLI::ParseError& error) {
    // What is said to be missing may be a flag that was misspelt.
    if (!app.remaining().empty()) return usage_error(unknown_flag(app.remaining(), names));
    return usage_error(error.what());
  } catch (const Error& error) {
    return usage_error(error.what());
  }
  return options;
}

std::string reason_against(const TrainOptions& options, int ranks) {
  if (options.run.trainer.learner.replicas < 2 || ranks < 2) return "";
  return "--parallel dp is one process with replicas, and this job has " + std::to_string(ranks) +
         " ranks; start one, or leave --parallel out";
}

void complete(TrainOptions& options, int ranks) {
  train::TrainerOptions& trainer = options.run.trainer;
  const std::string reason = reason_against(options, ranks);
  if (!reason.empty()) throw Error(ErrorCode::invalid_argument, reason);
  if (trainer.recipe.schedule == optim::ScheduleKind::one_cycle && trainer.recipe.warmup_epochs > 0)
    throw Error(ErrorCode::invalid_argument,
                "--schedule one-cycle has a warm-up of its own; leave --warmup-epochs out");
  if (options.global_batch == 0) return;
  const std::int64_t parts = std::int64_t{ranks} * trainer.accumulation;
  if (options.global_batch % parts != 0)
    throw Error(
        ErrorCode::invalid_argument,
        "--global-batch " + std::to_string(options.global_batch) + " does not divide by " +
            std::to_string(ranks) + " ranks" +
            (trainer.accumulation > 1 ? " x " + std::to_string(trainer.accumulation) + " batches" : "") +
            "; give a multiple of " + std::to_string(parts));
  trainer.batch_size = static_cast<std::size_t>(options.global_batch / parts);
}

}  // namespace muster::examples
