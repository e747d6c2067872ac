// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/parse_options.hpp"

#include "launcher/cli/flag_table.hpp"
#include "launcher/cli/misplaced_flag.hpp"
#include "launcher/cli/normalize_arguments.hpp"
#include "launcher/cli/parse_flags.hpp"
#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <set>
#include <sstream>
#include <utility>

namespace muster::launcher {
namespace {

constexpr std::size_t kHelpColumn = 34;
constexpr std::size_t kHelpWidth = 100;
constexpr const char* kRunFooter =
    "\n"
    "Flags are those of torchrun 2.15: --a-b and --a_b, unique prefixes, PET_A_B variables as defaults\n"
    "(switches: 1 or 0), ${local_rank} in the program's arguments. SECONDS may have a unit: 5m, 2h, 1d.\n"
    "An executable that is not *.py runs directly, anything else through PYTHON_EXEC, else python3 of\n"
    "the virtual environment that muster is in, else of PATH.\n\n"
    "Exit codes: 0 success; a failed worker's own code, or 128 + its signal; 2 usage; 124 --timeout;\n"
    "125 launcher failure; 126 not executable; 127 not found; 130, 143 interrupted.\n\n"
    "Examples:\n"
    "  muster run --nproc-per-node gpu train.py --epochs 10\n"
    "  muster run --nproc-per-node 2 --max-restarts 3 --log-dir logs --tee 3 ./my_program\n"
    "  muster run -H n0:8,n1:8 train.py                      # all hosts from here, by ssh\n"
    "  muster run --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint n0:29400 train.py\n";
constexpr const char* kRendezvousFooter =
    "\n"
    "Prints {\"endpoint\":\"HOST:PORT\"} on stdout when ready and runs until SIGTERM or SIGINT. Jobs of\n"
    "muster come with the key (~/.config/muster/key, or --secret-file), several at once, each with its\n"
    "--rdzv-id.\n\n"
    "Examples:\n"
    "  muster rendezvous --listen 127.0.0.1:0\n"
    "  muster rendezvous --listen 10.0.0.5:29400 --allow-from 10.0.0.0/24\n"
    "  muster run --nnodes 2 --rdzv-backend c10d --rdzv-id A --rdzv-endpoint 10.0.0.5:29400 train.py\n"
    "  muster rendezvous --status 10.0.0.5:29400\n"
    "  torchrun --rdzv-backend c10d --rdzv-endpoint 10.0.0.5:29400 --rdzv-conf is_host=0 ...\n";

/// CLI11's own usage line does not know about the program that follows.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) { column_width(kHelpColumn); }

  std::string make_usage(const CLI::App*, std::string) const override { return "Usage: " + usage_ + "\n"; }

  /// CLI11 2.1 does not wrap what stands behind the flag.
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const std::string indent(kHelpColumn - 1, ' ');
    std::string line = "  " + make_option_name(option, is_positional) + make_option_opts(option);
    std::string text;
    if (line.size() < kHelpColumn)
      line.resize(indent.size(), ' ');
    else
      text = std::exchange(line, indent) + "\n";
    std::istringstream words(make_option_desc(option));
    for (std::string word; words >> word; line += " " + word)
      if (line.size() + 1 + word.size() > kHelpWidth) text += std::exchange(line, indent) + "\n";
    return text + line + "\n";
  }

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    std::string text = CLI::Formatter::make_group(std::move(group), is_positional, std::move(options));
    while (text.ends_with('\n')) text.pop_back();  // make_groups() adds a newline
    return text;
  }

 private:
  std::string usage_;
};

/// Declares one option for each flag; what is given ends up in `options`.
void declare_flags(CLI::App& app, CliOptions& options, std::set<std::string_view>& given) {
  for (const Flag& flag : flag_table()) {
    std::string names = flag.spelled();
    if (flag.short_name != 0) names = std::string("-") + flag.short_name + "," + names;
    const auto apply = [&options, &given, &flag](const std::string& text) {
      given.insert(flag.name);
      flag.apply(options, {text, flag.spelled()});
    };
    CLI::Option* option = flag.takes_value()
                              ? app.add_option_function<std::string>(names, apply, std::string(flag.help))
                              : app.add_flag_callback(
                                    names, [apply] { apply("1"); }, std::string(flag.help));
    option->group(std::string(flag.group))->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (flag.takes_value()) option->type_name(std::string(flag.value_name));
  }
}

void apply_variables(CliOptions& options, const std::set<std::string_view>& given,
                     const VariableLookup& variable) {
  for (const Flag& flag : flag_table()) {
    if (!flag.from_environment || given.contains(flag.name)) continue;
    const std::string name = variable_of(flag);
    if (const auto text = variable(name)) flag.apply(options, {*text, name});
  }
}

/// In a pod of an Indexed Job of Kubernetes its index is the rank of the node, where nothing else says that
/// or where the nodes are.
void apply_completion_index(CliOptions& options, const VariableLookup& variable) {
  constexpr const char* kIndex = "JOB_COMPLETION_INDEX";
  const bool told = options.node_rank.given || options.standalone.value || options.host.given ||
                    options.hostfile.given || options.rdzv_backend.value != "static";
  if (told || options.nnodes.value.max < 2) return;
  const auto text = variable(kIndex);
  if (!text) return;
  const GivenText given{*text, kIndex};
  options.node_rank = {parse_whole_number(given, 0, kMaxNodeRank), given};
}

void describe_rendezvous(CLI::App& app, RendezvousOptions& options, std::string& admission) {
  app.set_help_flag();
  app.add_flag("-h,--help", options.help, "Print this text");
  app.add_option("--listen", options.listen, "Where it listens; port 0 picks a free one")
      ->type_name("HOST:PORT");
  app.add_option_function<std::string>(
         "--allow-from",
         [&options](const std::string& text) {
           for (std::string& part : split(text, ',')) options.allow_from.push_back(std::move(part));
         },
         "Networks that may connect; needed beyond loopback")
      ->type_name("CIDR,...");
  app.add_flag("--listen-any", options.listen_any, "Allow a wildcard address in --listen");
  app.add_option("--store-admission", admission, "On loopback: this user's processes only, or any [user]")
      ->type_name("user|off");
  app.add_option("--secret-file", options.secret_file, "The key of the jobs [~/.config/muster/key]")
      ->type_name("FILE");
  app.add_flag("--insecure-no-secret", options.insecure_no_secret,
               "Host jobs without a key; on loopback only");
  app.add_option("--status", options.status, "Print what the daemon there hosts, and end")
      ->type_name("HOST:PORT");
  app.add_option("--log-level", options.log_level, "debug, info, warning or error [warning]")
      ->type_name("LEVEL");
  app.footer(kRendezvousFooter);
  app.formatter(std::make_shared<HelpFormatter>("muster rendezvous --listen HOST:PORT [flags]"));
}

}  // namespace

CliOptions parse_run_options(const std::vector<std::string>& arguments, const VariableLookup& variable) {
  CliOptions options;
  NormalizedArguments normalized = normalize_arguments(flag_table(), arguments);
  options.help = normalized.help;
  if (options.help) return options;
  CLI::App app("", "muster run");
  app.set_help_flag();
  std::set<std::string_view> given;
  declare_flags(app, options, given);
  parse_flags(app, normalized.flags);
  apply_variables(options, given, variable);
  apply_completion_index(options, variable);
  options.program = std::move(normalized.program);
  // A module may be a launcher, as torch.distributed.run is.
  if (!options.module.value) options.misplaced = misplaced_flag(options.program, given);
  return options;
}

std::string run_help() {
  CliOptions options;
  std::set<std::string_view> given;
  CLI::App app(
      "Starts the workers of a training job on this machine or on many hosts, watches them and ends them.",
      "muster run");
  app.set_help_flag();
  declare_flags(app, options, given);
  app.add_flag("-h,--help", options.help, "Print this text")->group("Reports and help");
  app.footer(kRunFooter);
  app.formatter(std::make_shared<HelpFormatter>("muster run [flags] PROGRAM [arguments of the program]"));
  return app.help();
}

RendezvousOptions parse_rendezvous_options(const std::vector<std::string>& arguments) {
  RendezvousOptions options;
  std::string admission = "user";
  CLI::App app("", "muster rendezvous");
  describe_rendezvous(app, options, admission);
  parse_flags(app, arguments);
  if (options.help) return options;
  if (options.listen.empty() && options.status.empty())
    throw UsageError("--listen is missing; give --listen HOST:PORT, or --status HOST:PORT to ask a daemon");
  if (!options.listen.empty() && !options.status.empty())
    throw UsageError("--listen starts a daemon, and --status asks one that runs; give one of them");
  if (!options.secret_file.empty() && options.insecure_no_secret)
    throw UsageError("--secret-file and --insecure-no-secret contradict each other; leave one out");
  if (!options.log_level.empty())
    parse_choice({options.log_level, "--log-level"}, {"debug", "info", "warning", "error"});
  options.same_user_only = parse_choice({admission, "--store-admission"}, {"user", "off"}) == "user";
  return options;
}

std::string rendezvous_help() {
  RendezvousOptions options;
  std::string admission = "user";
  CLI::App app(
      "Runs the place where the nodes of jobs meet: several jobs of muster run at once, and a key-value\n"
      "store in PyTorch's TCPStore protocol for agents of torchrun or your own programs.",
      "muster rendezvous");
  describe_rendezvous(app, options, admission);
  return app.help();
}

}  // namespace muster::launcher
