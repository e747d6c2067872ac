// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/flag_rules.hpp"

#include "muster/error.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace muster::examples {
namespace {

constexpr std::array kYes = {"true", "1", "yes", "on"};
constexpr std::array kNo = {"false", "0", "no", "off"};

bool is_in(const auto& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool takes_no_value(const CLI::Option& option) {
  return option.get_items_expected() == 0;
}

/// What the flag was given last; "" where it was not given, or given as its absence.
std::string given(const CLI::App& app, const char* flag) {
  const CLI::Option* const option = app.get_option(flag);
  if (option->count() == 0) return "";
  const std::string& value = option->results().back();
  return value == "0" || (takes_no_value(*option) && is_in(kNo, value)) ? "" : value;
}

/// What holds, given or by default.
std::string value_of(const CLI::App& app, const char* flag) {
  const CLI::Option* const option = app.get_option(flag);
  return option->count() == 0 ? option->get_default_str() : option->results().back();
}

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::invalid_argument, text);
}

struct Pair {
  const char* one;
  const char* other;
};

/// Two answers to one question.
constexpr std::array<Pair, 5> kRivals = {{{"--lr", "--lr-per-256"},
                                          {"--batch-size", "--global-batch"},
                                          {"--init-from", "--resume-from"},
                                          {"--export", "--eval-only"},
                                          {"--no-resume", "--eval-only"}}};

/// Without the second one there would not be what the first one asks for.
constexpr std::array<Pair, 5> kNeeds = {{{"--checkpoint-every", "--checkpoint-dir"},
                                         {"--keep", "--checkpoint-dir"},
                                         {"--no-resume", "--checkpoint-dir"},
                                         {"--deterministic-world", "--global-batch"},
                                         {"--json", "--dry-run"}}};

/// `flag` does something only where `other` is `value`.
struct Use {
  const char* flag;
  const char* other;
  const char* value;
};

constexpr std::array<Use, 13> kUses = {{{"--nesterov", "--optimizer", "sgd"},
                                        {"--momentum", "--optimizer", "sgd"},
                                        {"--beta1", "--optimizer", "adam"},
                                        {"--beta2", "--optimizer", "adam"},
                                        {"--epsilon", "--optimizer", "adam"},
                                        {"--lr-step-epochs", "--schedule", "step"},
                                        {"--lr-gamma", "--schedule", "step"},
                                        {"--lr-min", "--schedule", "cosine"},
                                        {"--lr-peak-share", "--schedule", "one-cycle"},
                                        {"--unit-mb", "--parallel", "fsdp"},
                                        {"--prefetch-units", "--parallel", "fsdp"},
                                        {"--powersgd-rank", "--compress", "powersgd"},
                                        {"--replicas", "--parallel", "dp"}}};

/// What replicas in one process cannot do.
struct Refusal {
  const char* flag;
  const char* why;
};

constexpr std::array<Refusal, 2> kNotWithReplicas = {
    {{"--deterministic-world", "sums of replicas depend on their number"},
     {"--sync-batch-norm", "batch norm takes the statistics of each replica, as PyTorch's DataParallel"}}};

/// Names what a model in shards cannot have.
void refuse_with_shards(const CLI::App& app) {
  const std::string form = value_of(app, "--parallel");
  if (form != "zero1" && form != "zero2" && form != "fsdp") {
    if (value_of(app, "--shard-within") == "host")
      refuse("--shard-within host says where shards are, and --parallel " + form +
             " has none; give --parallel zero1, zero2 or fsdp, or leave it out");
    return;
  }
  const auto refuse_flag = [&form](const std::string& flag, const std::string& why,
                                   const std::string& other) {
    refuse("--parallel " + form + " cannot have " + flag + ": " + why + "; leave it out, or give " + other);
  };
  if (value_of(app, "--compress") != "none")
    refuse_flag("--compress " + value_of(app, "--compress"), "shards are summed in fp32", "--parallel ddp");
  if (!given(app, "--deterministic-world").empty())
    refuse_flag("--deterministic-world", "its sums need whole gradients", "--parallel ddp");
  if (value_of(app, "--device") == "cuda")
    refuse_flag("--device cuda", "shards are kept in the memory of the host", "--parallel ddp");
}

/// Each rank may have its own, or only rank 0's counts.
constexpr std::array kOwn = {"--help",           "--config",        "--data",      "--threads",
                             "--loader-threads", "--prefetch",      "--log-every", "--metrics",
                             "--tensorboard",    "--metrics-every", "--keep",      "--no-resume"};
/// Places, which may have other names on each host: whether there is one is the same.
constexpr std::array kPlaces = {"--checkpoint-dir", "--resume-from", "--init-from", "--export", "--profile"};

/// The same text for the same value, however it was written.
std::string canonical_value(const CLI::App& app, const CLI::Option& option, const std::string& name) {
  if (is_in(kPlaces, name)) return given(app, name.c_str()).empty() ? "(not given)" : "(given)";
  if (takes_no_value(option)) return given(app, name.c_str()).empty() ? "(off)" : "(on)";
  const std::string value = value_of(app, name.c_str());
  if (!option.get_type_name().starts_with("FLOAT")) return value;
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", std::strtod(value.c_str(), nullptr));
  return text;
}

bool is_finite(const std::string& text) {
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  return error == std::errc() && end == last && std::isfinite(number);
}

/// In decimal digits: the parser would take "010" for 8 and "0x10" for 16.
bool is_whole(const std::string& text) {
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  return text.size() > first && text.find_first_not_of("0123456789", first) == std::string::npos &&
         (text[first] != '0' || text.size() == first + 1);
}

/// The same for flags of which one has to be given.
constexpr std::array<Pair, 2> kIdleWithout = {
    {{"--micro-batches", "--deterministic-world"}, {"--warmup-start", "--warmup-epochs"}}};

}  // namespace

void require_plain_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (option->get_name() == "--help") continue;
    if (takes_no_value(*option))
      option->check([](const std::string& text) {
        return is_in(kYes, text) || is_in(kNo, text) ? std::string() : text + " is neither true nor false";
      });
    else if (type.starts_with("FLOAT"))
      option->check([](const std::string& text) {
        return is_finite(text) ? std::string() : text + " is no finite number";
      });
    else if (type.starts_with("INT") || type.starts_with("UINT"))
      option->check(
          [](const std::string& text) { return is_whole(text) ? "" : text + " is no whole number"; });
  }
}

void require_values(const CLI::App& app, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (!name.starts_with("--") || name.size() < 3) continue;
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) continue;
    if (words[i].size() == name.size() + 1) refuse(name + "= has no value; give one, or leave it out");
    if (words[i].size() > name.size() || option->get_items_expected() == 0) continue;
    if (i + 1 < words.size() && words[i + 1].starts_with("--"))
      refuse(name + " needs a value, and " + words[i + 1] + " looks like the next flag; write " + name +
             "=VALUE for one that begins with dashes");
    ++i;
  }
}

void refuse_contradictions(const CLI::App& app) {
  for (const auto& [one, other] : kRivals)
    if (!given(app, one).empty() && !given(app, other).empty())
      refuse(std::string(one) + " and " + other + " exclude each other; give one of them");
  for (const auto& [flag, other] : kNeeds)
    if (!given(app, flag).empty() && given(app, other).empty())
      refuse(std::string(flag) + " needs " + other + "; give that, too, or leave it out");
  refuse_with_shards(app);
  if (!given(app, "--eval-only").empty() && given(app, "--checkpoint-dir").empty() &&
      given(app, "--resume-from").empty() && given(app, "--init-from").empty())
    refuse("--eval-only needs weights; give --checkpoint-dir, --resume-from or --init-from");
}

void refuse_with_replicas(const CLI::App& app) {
  if (value_of(app, "--parallel") != "dp") return;
  if (value_of(app, "--device") == "cuda")
    refuse(
        "--parallel dp computes on processors, not on several GPUs of one process; give --device cpu, or "
        "start "
        "a rank for each GPU and leave --parallel out");
  for (const auto& [flag, why] : kNotWithReplicas)
    if (!given(app, flag).empty())
      refuse(std::string(flag) + " cannot be had with --parallel dp: " + why + "; leave one of them out");
}

std::string flags_to_agree_on(const CLI::App& app) {
  std::string lines;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (!is_in(kOwn, name)) lines += name + " " + canonical_value(app, *option, name) + "\n";
  }
  return lines;
}

std::vector<std::string> flags_without_effect(const CLI::App& app) {
  std::vector<std::string> notes;
  for (const Use& use : kUses) {
    const std::string value = value_of(app, use.other);
    // "adam" stands for adamw, too.
    if (given(app, use.flag).empty() || value.starts_with(use.value)) continue;
    notes.push_back(std::string(use.flag) + " has no effect with " + use.other + " " + value);
  }
  for (const auto& [flag, other] : kIdleWithout)
    if (!given(app, flag).empty() && given(app, other).empty())
      notes.push_back(std::string(flag) + " has no effect without " + other);
  if (!given(app, "--no-graph").empty() && value_of(app, "--device") == "cpu")
    notes.push_back("--no-graph has no effect with --device cpu");
  if (!given(app, "--metrics-every").empty() && given(app, "--metrics").empty() &&
      given(app, "--tensorboard").empty())
    notes.push_back("--metrics-every has no effect without --metrics or --tensorboard");
  return notes;
}

}  // namespace muster::examples
