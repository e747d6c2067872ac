// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/resolve_program.hpp"

#include "agent/core/program_file.hpp"
#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"

#include <utility>

namespace muster::launcher {
namespace {

/// Python's code for --run-path: run_path() in an interpreter of its own; sys.argv is then the script and its
/// arguments, as under torchrun.
constexpr const char* kRunPath =
    "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')";

bool has_slash(const std::string& name) {
  return name.find('/') != std::string::npos;
}

LaunchError not_found(const std::string& text) {
  return LaunchError(kExitNotFound, text);
}

LaunchError not_executable(const std::string& text) {
  return LaunchError(kExitNotExecutable, text);
}

struct Found {
  FileKind kind = FileKind::missing;
  std::string path;
};

ProgramCommand with_arguments(std::vector<std::string> command, const std::vector<std::string>& program,
                              std::string file = "") {
  const std::size_t first = command.size();
  command.insert(command.end(), program.begin() + 1, program.end());
  return {std::move(command), first, std::move(file)};
}

class Resolver {
 public:
  /// `as_here`: hosts have what we are installed with at the same place.
  Resolver(const System& system, const std::string& directory, bool runs_here, bool as_here)
      : system_(system), directory_(directory), runs_here_(runs_here), as_here_(as_here) {}

  std::string interpreter() const {
    const auto chosen = system_.variable("PYTHON_EXEC");
    const std::string own = as_here_ ? system_.environment_python() : std::string();
    const std::string python = chosen && !chosen->empty() ? *chosen : own.empty() ? "python3" : own;
    check_command(python, chosen ? "correct the variable PYTHON_EXEC"
                                 : "install Python, or name an interpreter by the variable PYTHON_EXEC");
    return python;
  }

  /// Checks a file that Python is to run.
  void check_script(const std::string& script) const {
    if (!runs_here_) return;
    const FileKind kind = kind_of(script);
    if (kind == FileKind::missing)
      throw not_found("program '" + script + "' does not exist" + where() + "; check the path" +
                      (has_slash(script) ? "" : ", or use --module for a Python module"));
    if (kind == FileKind::unreadable)
      throw not_executable("program '" + script + "' cannot be read; check its permissions");
    if (kind == FileKind::directory && kind_of(script + "/__main__.py") == FileKind::missing)
      throw not_executable("program '" + script +
                           "' is a directory without __main__.py; give the program in it");
  }

  /// Checks `program` as a command, with or without a slash. Returns its file; "" where it runs elsewhere.
  std::string check_command(const std::string& program, const std::string& advice) const {
    if (!runs_here_) return "";
    const Found found = has_slash(program) ? Found{kind_of(program), program} : find_in_path(program);
    if (found.kind == FileKind::missing)
      throw not_found("program '" + program + "' does not exist" +
                      (has_slash(program) ? where() : std::string(" in PATH")) + "; " + advice);
    if (found.kind == FileKind::directory)
      throw not_executable("program '" + program + "' is a directory; give the program in it");
    if (found.kind != FileKind::executable)
      throw not_executable("program '" + found.path + "' is not executable; run chmod +x on it, or " +
                           advice);
    check_shebang(program, found.path);
    return in_directory(found.path);
  }

  /// Decides without any flag that says how: a command, or a file for Python.
  ProgramCommand guess(const std::vector<std::string>& program) const {
    const std::string& name = program.front();
    if (!name.ends_with(".py")) {
      if (!has_slash(name) && find_in_path(name).kind == FileKind::executable)
        return with_arguments({name}, program, check_command(name, ""));
      const FileKind kind = kind_of(name);
      if (kind == FileKind::executable) {
        if (runs_here_) check_shebang(name, name);
        return with_arguments({has_slash(name) ? name : "./" + name}, program, in_directory(name));
      }
      if (!runs_here_ && kind == FileKind::missing) return with_arguments({name}, program);
    }
    check_script(name);
    return with_arguments({interpreter(), "-u", name}, program);
  }

 private:
  FileKind kind_of(const std::string& path) const { return system_.file_kind(in_directory(path)); }

  std::string in_directory(const std::string& path) const {
    return directory_.empty() || path.starts_with('/') ? path : directory_ + "/" + path;
  }

  std::string where() const { return directory_.empty() ? "" : " in '" + directory_ + "'"; }

  /// Finds a command without a slash as a shell does: the first executable file of PATH.
  Found find_in_path(const std::string& name) const {
    Found best;
    if (name.empty()) return best;
    for (const std::string& directory :
         split(system_.variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin"), ':')) {
      const std::string path = (directory.empty() ? "." : directory) + "/" + name;
      const FileKind kind = kind_of(path);
      if (kind == FileKind::executable) return {kind, path};
      if (kind != FileKind::missing && kind != FileKind::directory && best.kind == FileKind::missing)
        best = {kind, path};
    }
    return best;
  }

  void check_shebang(const std::string& program, const std::string& path) const {
    const agent::Shebang line = agent::shebang_of(system_.program_head(in_directory(path)));
    const bool missing =
        line.interpreter.starts_with('/') && system_.file_kind(line.interpreter) == FileKind::missing;
    if (const std::string obstacle = agent::shebang_obstacle(line, missing); !obstacle.empty())
      throw not_found("program '" + program + "': " + obstacle);
  }

  const System& system_;
  const std::string& directory_;
  bool runs_here_;
  bool as_here_;
};

}  // namespace

ProgramCommand resolve_program(const CliOptions& options, const System& system, const std::string& directory,
                               bool runs_here) {
  const std::vector<std::string>& program = options.program;
  if (program.empty() || program.front().empty())
    throw UsageError(
        "no program given; write it after the flags, as in 'muster run --nproc-per-node 2 train.py'");
  const std::string& name = program.front();
  const bool as_here = runs_here || !(options.remote_muster.given || options.push.value);
  const Resolver resolver(system, directory, runs_here, as_here);
  if (options.run_path.value) {
    resolver.check_script(name);
    return with_arguments({resolver.interpreter(), "-u", "-c", kRunPath, name}, program);
  }
  if (options.module.value && options.no_python.value)
    throw UsageError(options.no_python.given->source + " and " + options.module.given->source +
                     " contradict each other; give one of them");
  if (options.module.value) return with_arguments({resolver.interpreter(), "-u", "-m", name}, program);
  if (options.no_python.value) {
    return with_arguments({name}, program, resolver.check_command(name, "check the name"));
  }
  return resolver.guess(program);
}

}  // namespace muster::launcher
