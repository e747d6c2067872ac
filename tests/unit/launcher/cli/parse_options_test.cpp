// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/parse_options.hpp"

#include "catch.hpp"
#include "launcher/cli/flag_table.hpp"
#include "launcher/cli/normalize_arguments.hpp"
#include "launcher/core/launch_error.hpp"
#include "tests/support/variables.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <vector>

using namespace muster::launcher;

namespace {

using Arguments = std::vector<std::string>;
using Environment = muster::test::Variables;

CliOptions parse(const Arguments& arguments, const Environment& environment = {}) {
  return parse_run_options(arguments, muster::test::lookup_in(environment));
}

/// The message of the usage error that these arguments give; empty if they give none.
std::string error_of(const Arguments& arguments, const Environment& environment = {}) {
  try {
    parse(arguments, environment);
  } catch (const UsageError& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "";
}

/// What torchrun's own command line knows by each abbreviation, its whole names included.
std::map<std::string, const Flag*> prefixes_of_torchrun() {
  const std::string help = "help";
  std::map<std::string, const Flag*> unique;
  for (const Flag& flag : flag_table()) {
    if (flag.own) continue;
    for (std::size_t size = 1; size <= flag.name.size(); ++size) {
      const std::string prefix(flag.name.substr(0, size));
      const auto same = std::count_if(flag_table().begin(), flag_table().end(), [&](const Flag& other) {
        return !other.own && other.name.starts_with(prefix);
      });
      if ((same == 1 && !help.starts_with(prefix)) || prefix == flag.name) unique[prefix] = &flag;
    }
  }
  return unique;
}

/// One acceptable value for each flag that takes one, and how to see that it arrived.
struct Row {
  std::string flag;
  std::string value;
  std::function<bool(const CliOptions&)> arrived;
};

const std::vector<Row>& rows() {
  using O = CliOptions;
  static const std::vector<Row> all = {
      {"nnodes", "1:4",
       [](const O& o) {
         return o.nnodes.value == NodeRange{1, 4};
       }},
      {"nproc-per-node", "gpu", [](const O& o) { return o.nproc_per_node.value == "gpu"; }},
      {"virtual-local-rank", "", [](const O& o) { return o.virtual_local_rank.value; }},
      {"module", "", [](const O& o) { return o.module.value; }},
      {"no-python", "", [](const O& o) { return o.no_python.value; }},
      {"run-path", "", [](const O& o) { return o.run_path.value; }},
      {"allow-singletons", "", [](const O& o) { return o.allow_singletons.value; }},
      {"start-method", "forkserver", [](const O& o) { return o.start_method.value == "forkserver"; }},
      {"role", "trainer", [](const O& o) { return o.role.value == "trainer"; }},
      {"standalone", "", [](const O& o) { return o.standalone.value; }},
      {"rdzv-backend", "c10d", [](const O& o) { return o.rdzv_backend.value == "c10d"; }},
      {"rdzv-endpoint", "localhost:0", [](const O& o) { return o.rdzv_endpoint.value == "localhost:0"; }},
      {"rdzv-id", "job", [](const O& o) { return o.rdzv_id.value == "job"; }},
      {"rdzv-conf", "join_timeout=7",
       [](const O& o) { return o.rdzv_conf.value.join_timeout == std::chrono::milliseconds(7000); }},
      {"node-rank", "3", [](const O& o) { return o.node_rank.value == 3; }},
      {"master-addr", "::1", [](const O& o) { return o.master_addr.value == "::1"; }},
      {"master-port", "1234", [](const O& o) { return o.master_port.value == 1234; }},
      {"local-addr", "127.0.0.1", [](const O& o) { return o.local_addr.value == "127.0.0.1"; }},
      {"store-admission", "off", [](const O& o) { return !o.store_admission.value; }},
      {"max-restarts", "5", [](const O& o) { return o.max_restarts.value == 5; }},
      {"restart-policy", "progress",
       [](const O& o) { return o.restart_policy.value == muster::rendezvous::RestartRule::progress; }},
      {"shutdown-timeout", "1.5", [](const O& o) { return o.shutdown_timeout.value.count() == 1500; }},
      {"hang-timeout", "5", [](const O& o) { return o.hang_timeout.value.count() == 5000; }},
      {"on-hang", "abort",
       [](const O& o) { return o.on_hang.value == muster::rendezvous::HangAction::abort; }},
      {"timeout", "60", [](const O& o) { return o.timeout.value.count() == 60000; }},
      {"end-with", "12", [](const O& o) { return o.end_with.value == 12; }},
      {"signals-to-handle", "SIGUSR1", [](const O& o) { return o.signals_to_handle.value.size() == 1; }},
      {"forward-signals", "USR2",
       [](const O& o) { return o.forward_signals.value == std::vector<int>{SIGUSR2}; }},
      {"stop-target", "group", [](const O& o) { return o.stop_target.value == "group"; }},
      {"monitor-interval", "0.5", [](const O& o) { return o.monitor_interval.value.count() == 500; }},
      {"log-dir", "/logs", [](const O& o) { return o.log_dir.value == "/logs"; }},
      {"redirects", "0:3,11:1", [](const O& o) { return o.redirects.value.of(11) == 1; }},
      {"tee", "2", [](const O& o) { return o.tee.value.of(5) == 2; }},
      {"log-line-prefix-template",
       "- ${rank}: ", [](const O& o) { return o.log_line_prefix_template.value == "- ${rank}: "; }},
      {"log-max-size", "10M", [](const O& o) { return o.log_max_size.value == 10U << 20U; }},
      {"local-ranks-filter", "0,10",
       [](const O& o) {
         return o.local_ranks_filter.value == std::set<int>{0, 10};
       }},
      {"duplicate-stdout-filters", "a,b",
       [](const O& o) { return o.duplicate_stdout_filters.value.size() == 2; }},
      {"duplicate-stderr-filters", "c",
       [](const O& o) { return o.duplicate_stderr_filters.value.size() == 1; }},
      {"gpus", "0,GPU-5a",
       [](const O& o) {
         return o.gpus.value == std::vector<std::string>{"0", "GPU-5a"};
       }},
      {"bind-to", "numa", [](const O& o) { return o.bind_to.value == "numa"; }},
      {"host", "n0:8,n1", [](const O& o) { return o.host.value == "n0:8,n1"; }},
      {"hostfile", "hosts", [](const O& o) { return o.hostfile.value == "hosts"; }},
      {"include", "n0@n1:0,2", [](const O& o) { return o.include.value == "n0@n1:0,2"; }},
      {"exclude", "n1:1", [](const O& o) { return o.exclude.value == "n1:1"; }},
      {"np", "6", [](const O& o) { return o.np.value == 6; }},
      {"oversubscribe", "", [](const O& o) { return o.oversubscribe.value; }},
      {"map-by", "node", [](const O& o) { return o.map_by.value == "node"; }},
      {"slurm", "off", [](const O& o) { return o.slurm.value == "off"; }},
      {"wdir", "/work", [](const O& o) { return o.wdir.value == "/work"; }},
      {"export", "A,B=1", [](const O& o) { return o.exported.value.size() == 2; }},
      {"remote-muster", "/opt/muster", [](const O& o) { return o.remote_muster.value == "/opt/muster"; }},
      {"push", "", [](const O& o) { return o.push.value; }},
      {"ssh-command", "ssh -v", [](const O& o) { return o.ssh_command.value.size() == 2; }},
      {"ssh-config", "config", [](const O& o) { return o.ssh_config.value == "config"; }},
      {"ssh-port", "2222", [](const O& o) { return o.ssh_port.value == 2222; }},
      {"ssh-accept-new", "", [](const O& o) { return o.ssh_accept_new.value; }},
      {"login-timeout", "2.5", [](const O& o) { return o.login_timeout.value.count() == 2500; }},
      {"interface", "eth1", [](const O& o) { return o.interface_name.value == "eth1"; }},
      {"store-proxy", "", [](const O& o) { return o.store_proxy.value; }},
      {"secret-file", "/key", [](const O& o) { return o.secret_file.value == "/key"; }},
      {"insecure-no-secret", "", [](const O& o) { return o.insecure_no_secret.value; }},
      {"raw-output", "", [](const O& o) { return o.raw_output.value; }},
      {"gather-logs", "/all", [](const O& o) { return o.gather_logs.value == "/all"; }},
      {"stdin", "3", [](const O& o) { return o.stdin_rank.value == 3; }},
      {"name", "exp_1.a-b", [](const O& o) { return o.name.value == "exp_1.a-b"; }},
      {"detach", "", [](const O& o) { return o.detach.value; }},
      {"dry-run", "", [](const O& o) { return o.dry_run.value; }},
      {"event-file", "e.jsonl", [](const O& o) { return o.event_file.value == "e.jsonl"; }},
      {"metrics-listen", "[::1]:0",
       [](const O& o) {
         return o.metrics_listen.value == ListenPlace{"::1", 0, ""};
       }},
      {"metrics-textfile", "m.prom", [](const O& o) { return o.metrics_textfile.value == "m.prom"; }},
      {"report", "out.json", [](const O& o) { return o.report.value == "out.json"; }},
      {"log-level", "info", [](const O& o) { return o.log_level.value == "info"; }},
      {"print-completion", "bash", [](const O& o) { return o.print_completion.value == "bash"; }},
      {"numa-binding", "node", [](const O& o) { return o.numa_binding.value == "node"; }},
      {"logs-specs", "x", [](const O& o) { return o.logs_specs.value == "x"; }},
      {"event-log-handler", "console", [](const O& o) { return o.event_log_handler.value == "console"; }},
  };
  return all;
}

std::string underscored(std::string text) {
  for (char& c : text)
    if (c == '-') c = '_';
  return text;
}

}  // namespace

TEST_CASE("Every flag of the table has a test row") {
  CHECK(rows().size() == flag_table().size());
  for (const Flag& flag : flag_table()) {
    const auto has_row = [&](const Row& row) { return row.flag == flag.name; };
    CAPTURE(flag.name);
    CHECK(std::count_if(rows().begin(), rows().end(), has_row) == 1);
  }
}

TEST_CASE("Every flag works in both spellings, with a blank or an equals sign") {
  for (const Row& row : rows()) {
    CAPTURE(row.flag);
    for (const std::string& name : {"--" + row.flag, "--" + underscored(row.flag)}) {
      if (row.value.empty()) {
        CHECK(row.arrived(parse({name, "x.py"})));
        CHECK(error_of({name + "=1", "x.py"}).find("takes no value") != std::string::npos);
      } else {
        CHECK(row.arrived(parse({name, row.value, "x.py"})));
        CHECK(row.arrived(parse({name + "=" + row.value, "x.py"})));
        CHECK(error_of({name}).find("needs a value") != std::string::npos);
      }
      CHECK(parse({name, row.value.empty() ? "x.py" : row.value, "x.py"}).program.front() == "x.py");
    }
    CHECK_FALSE(row.arrived(parse({"x.py"})));
  }
}

TEST_CASE("PET variables are defaults and the command line wins") {
  for (const Flag& flag : flag_table()) {
    const auto row =
        std::find_if(rows().begin(), rows().end(), [&](const Row& r) { return r.flag == flag.name; });
    CAPTURE(flag.name);
    const Environment environment = {{variable_of(flag), row->value.empty() ? "1" : row->value}};
    CHECK(row->arrived(parse({"x.py"}, environment)) == flag.from_environment);
  }
  CHECK(parse({"--role", "a", "x"}, {{"PET_ROLE", "b"}}).role.value == "a");
  CHECK(parse({"x"}, {{"PET_ROLE", "b"}}).role.given->source == "PET_ROLE");
  CHECK_FALSE(parse({"x"}, {{"PET_STANDALONE", "0"}}).standalone.value);
  CHECK(parse({"--max-restarts", "2", "x"}, {{"PET_MAX_RESTARTS", "bad"}}).max_restarts.value == 2);
}

TEST_CASE("The index of a pod is the rank of its node where nothing else says it") {
  const Environment pod = {{"JOB_COMPLETION_INDEX", "2"}};
  const auto rank = [&pod](const Arguments& arguments) { return parse(arguments, pod).node_rank; };
  CHECK(rank({"--nnodes", "3", "x"}).value == 2);
  CHECK(rank({"--nnodes", "3", "x"}).given->quoted() == "JOB_COMPLETION_INDEX=2");
  CHECK(rank({"--nnodes", "3", "--node-rank", "1", "x"}).value == 1);
  for (const Arguments& others : {Arguments{"x"},
                                  {"--nnodes", "3", "-H", "a,b,c", "x"},
                                  {"--nnodes", "3", "--standalone", "x"},
                                  {"--nnodes", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", "a:1", "x"}})
    CHECK_FALSE(rank(others).given);
  CHECK(error_of({"--nnodes", "2", "x"}, {{"JOB_COMPLETION_INDEX", "first"}})
            .find("JOB_COMPLETION_INDEX=first") == 0);
}

TEST_CASE("Errors of PET variables name the variable and its value") {
  const std::string text = error_of({"x"}, {{"PET_MAX_RESTARTS", "many"}});
  CHECK(text == "PET_MAX_RESTARTS=many is not a number; give a whole number from 0 to 1073741824");
  CHECK(error_of({"x"}, {{"PET_RESTART_POLICY", "never"}}).find("PET_RESTART_POLICY=never") == 0);
  CHECK(error_of({"x"}, {{"PET_STANDALONE", "true"}}) ==
        "PET_STANDALONE=true is not a switch; set it to 1 or 0, or unset it");
}

TEST_CASE("Unique prefixes of long options are enough") {
  CHECK(parse({"--redirect=3", "x"}).redirects.value.fallback == 3);
  CHECK(parse({"--standal", "x"}).standalone.value);
  CHECK(parse({"--nproc", "4", "x"}).nproc_per_node.value == "4");
  CHECK(parse({"--nproc_per", "4", "x"}).nproc_per_node.value == "4");
  CHECK(parse({"--rdzv_b=c10d", "x"}).rdzv_backend.value == "c10d");
  CHECK(parse({"--dry", "x"}).dry_run.value);
  CHECK(parse({"--he"}).help);
}

TEST_CASE("A flag of ours never takes a prefix away that is unique under torchrun") {
  CHECK(parse({"--re", "3", "x"}).redirects.value.fallback == 3);             // not --report
  CHECK(parse({"--t=1", "x"}).tee.value.fallback == 1);                       // not --timeout
  CHECK(parse({"--log-l", "p", "x"}).log_line_prefix_template.value == "p");  // not --log-level
}

TEST_CASE("Every prefix that is unique under torchrun keeps its meaning, whatever flags of ours there are") {
  std::vector<Flag> table(flag_table().begin(), flag_table().end());
  std::size_t seen = 0;
  for (const auto& [prefix, flag] : prefixes_of_torchrun()) {
    CAPTURE(prefix);
    // Called so on purpose, as by mpirun: docs/torchrun.md says so.
    if (prefix == "np") continue;
    // One that begins so, too, and stands before torchrun's.
    const std::string longer = prefix + "z";
    Flag added = *flag;
    added.name = longer;
    added.own = true;
    table.insert(table.begin(), added);
    const std::string written = "--" + prefix + (flag->takes_value() ? "=1" : "");
    const NormalizedArguments parsed = normalize_arguments(table, {written, "x"});
    table.erase(table.begin());
    REQUIRE(!parsed.flags.empty());
    CHECK(parsed.flags[0] == flag->spelled());
    ++seen;
  }
  CHECK(seen > 250);
  CHECK(prefixes_of_torchrun().at("signal")->name == "signals-to-handle");
  CHECK(prefixes_of_torchrun().at("event")->name == "event-log-handler");
}

TEST_CASE("An ambiguous prefix names its candidates") {
  CHECK(error_of({"--rdzv", "x"}) ==
        "--rdzv could be any of --rdzv-backend, --rdzv-endpoint, --rdzv-id, --rdzv-conf; write more of it");
  const std::string text = error_of({"--duplicate=x", "y"});
  CHECK(text.find("--duplicate-stdout-filters, --duplicate-stderr-filters") != std::string::npos);
  CHECK(error_of({"--frobnicate", "x"}).find("'--frobnicate' is not a flag") == 0);
  CHECK(error_of({"-y", "z"}).find("'-y' is not a flag") == 0);
}

TEST_CASE("A flag that is misspelt is told with the nearest one") {
  CHECK(error_of({"--nproc-per-nde", "2", "x"}) ==
        "'--nproc-per-nde' is not a flag of muster run; did you mean '--nproc-per-node'? See 'muster run "
        "--help' (flags of the program go after its name)");
  CHECK(error_of({"--standlone", "x"}).find("did you mean '--standalone'?") != std::string::npos);
  CHECK(error_of({"--max_restrats=3", "x"}).find("did you mean '--max-restarts'?") != std::string::npos);
  CHECK(error_of({"--frobnicate", "x"}).find("did you mean") == std::string::npos);
  try {
    parse_rendezvous_options({"--lisen", "127.0.0.1:0"});
    FAIL("taken");
  } catch (const UsageError& error) {
    CHECK(std::string(error.what()) ==
          "'--lisen' is not a flag of muster rendezvous; did you mean '--listen'? See 'muster rendezvous "
          "--help'");
  }
}

TEST_CASE("Variables that look like those of flags and are read by nobody are told") {
  CHECK(unread_variables({"PATH", "PET_MAX_RESTARTS", "PET_NPROC_PER_NODE", "PET_FROBNICATE", "PET_DOG",
                          "PET_", "MAX_RESTART", "pet_max_restart"})
            .empty());
  CHECK(unread_variables({"PET_MAX_RESTART", "PET_NUMA_BINDING", "PET_TIMEOUT"}) ==
        std::vector<std::string>{"the variable PET_MAX_RESTART is not read; did you mean 'PET_MAX_RESTARTS'?",
                                 "the variable PET_NUMA_BINDING is not read; give --numa-binding itself",
                                 "the variable PET_TIMEOUT is not read; give --timeout itself"});
}

TEST_CASE("Short flags, joined and apart") {
  CHECK(parse({"-r", "3", "x"}).redirects.value.fallback == 3);
  CHECK(parse({"-r3", "x"}).redirects.value.fallback == 3);
  CHECK(parse({"-r=3", "x"}).redirects.value.fallback == 3);
  CHECK(parse({"-t", "0:1", "x"}).tee.value.of(0) == 1);
  CHECK(parse({"-m", "pkg.mod"}).module.value);
  const CliOptions joined = parse({"-mr", "1", "pkg"});
  CHECK(joined.module.value);
  CHECK(joined.redirects.value.fallback == 1);
  CHECK(parse({"-h"}).help);
  CHECK(error_of({"-r"}).find("-r needs a value") == 0);
  CHECK(error_of({"-m=1", "x"}).find("-m is a switch") == 0);
}

TEST_CASE("Flags of mpirun: -H, -n, -np and -x, of which lists add up") {
  const CliOptions options =
      parse({"-H", "n0:2", "-np", "3", "-x", "A", "-xB=1", "--host=n1", "./prog", "-n"});
  CHECK(options.host.value == "n0:2,n1");
  CHECK(options.np.value == 3);
  CHECK(options.exported.value == std::vector<ExportItem>{{"A", {}, false}, {"B", "1", false}});
  CHECK(options.program == Arguments{"./prog", "-n"});
  CHECK(parse({"-n4", "x"}).np.value == 4);
  CHECK(parse({"--np=4", "x"}).np.value == 4);
  CHECK(error_of({"-np"}).find("-np needs a value") == 0);
  CHECK(error_of({"-n", "0", "x"}).find("--np=0 is out of range") == 0);
}

TEST_CASE("The program begins at the first positional and keeps all that follows") {
  using Program = std::vector<std::string>;
  CHECK(parse({"x.py", "--role", "b", "--", "-h"}).program == Program{"x.py", "--role", "b", "--", "-h"});
  CHECK(parse({"--role", "a", "--", "--strange", "-1"}).program == Program{"--strange", "-1"});
  CHECK(parse({"--", "x.py"}).program == Program{"x.py"});
  CHECK(parse({"--standalone"}).program.empty());
  CHECK(parse({"-", "y"}).program == Program{"-", "y"});
  CHECK(parse({}).program.empty());
}

TEST_CASE("A dash before a number or a blank is a value, otherwise the value is missing") {
  CHECK(error_of({"--max-restarts", "-1", "x"}).find("--max-restarts=-1 is out of range") == 0);
  CHECK(parse({"--log-line-prefix-template", "- x", "y"}).log_line_prefix_template.value == "- x");
  CHECK(error_of({"--role", "--standalone", "x"}).find("--role needs a value") == 0);
  CHECK(parse({"--role=--standalone", "x"}).role.value == "--standalone");
  CHECK(parse({"--role=", "x"}).role.value.empty());
  CHECK(parse({"--role", "a", "--role", "b", "x"}).role.value == "b");
}

TEST_CASE("The help names every flag and fits three screens") {
  const std::string help = run_help();
  for (const Flag& flag : flag_table()) {
    CAPTURE(flag.name);
    CHECK(help.find(flag.spelled()) != std::string::npos);
    CHECK_FALSE(flag.help.empty());
  }
  CHECK(std::count(help.begin(), help.end(), '\n') <= 112);
  CHECK(rendezvous_help().find("--allow-from") != std::string::npos);
}

TEST_CASE("The rendezvous command has its own options") {
  const RendezvousOptions options = parse_rendezvous_options(
      {"--listen", "127.0.0.1:0", "--allow-from=10.0.0.0/8,::1", "--store-admission", "off"});
  CHECK(options.listen == "127.0.0.1:0");
  CHECK(options.allow_from == std::vector<std::string>{"10.0.0.0/8", "::1"});
  CHECK_FALSE(options.same_user_only);
  CHECK_FALSE(options.listen_any);
  CHECK(parse_rendezvous_options({"--status", "n0:29400", "--secret-file", "k"}).status == "n0:29400");
  CHECK(parse_rendezvous_options({"--listen", "x:1", "--insecure-no-secret"}).insecure_no_secret);
  CHECK(parse_rendezvous_options({"--help"}).help);
  CHECK_THROWS_AS(parse_rendezvous_options({}), UsageError);
  CHECK_THROWS_AS(parse_rendezvous_options({"--listen"}), UsageError);
  CHECK_THROWS_AS(parse_rendezvous_options({"--listen", "x:1", "--store-admission", "all"}), UsageError);
  CHECK_THROWS_AS(parse_rendezvous_options({"--listen", "x:1", "more"}), UsageError);
  CHECK_THROWS_AS(parse_rendezvous_options({"--listen", "x:1", "--status", "x:1"}), UsageError);
  CHECK_THROWS_AS(parse_rendezvous_options({"--listen", "x:1", "--insecure-no-secret", "--secret-file", "k"}),
                  UsageError);
}
