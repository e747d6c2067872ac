// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/python_answer.hpp"

#include <nlohmann/json.hpp>

namespace muster::launcher {

const char* const kPythonQuestion = R"(
import sys
sys.path[:] = [place for place in sys.path if place]  # not from the current folder, as a script does not
import json
said = {"executable": sys.executable or "", "version": "%d.%d.%d" % sys.version_info[:3]}
try:
    import importlib.util, os, runpy
    found = importlib.util.find_spec("torch")
    if found is not None and found.origin:
        made = runpy.run_path(os.path.join(os.path.dirname(found.origin), "version.py"))
        for name, key in (("torch", "__version__"), ("torch_cuda", "cuda"), ("torch_hip", "hip")):
            said[name] = str(made.get(key) or "")
        if said["torch_cuda"]:
            from importlib import metadata
            try:
                said["nccl"] = metadata.version("nvidia-nccl-cu" + said["torch_cuda"].split(".")[0])
            except metadata.PackageNotFoundError:
                pass
except Exception as error:
    said["error"] = "torch cannot be looked at: %s: %s" % (type(error).__name__, error)
print("\n" + json.dumps(said))
)";

namespace {

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
}

std::string short_text(const nlohmann::json& answer, const char* key) {
  return answer.value(key, std::string()).substr(0, kPythonTextMax);
}

}  // namespace

void take_python_answer(const std::string& out, const std::string& errors, PythonFacts& facts) {
  try {
    const auto answer = nlohmann::json::parse(last_line(out));
    facts.version = short_text(answer, "version");
    facts.executable = short_text(answer, "executable");
    facts.torch = short_text(answer, "torch");
    facts.torch_cuda = short_text(answer, "torch_cuda");
    facts.torch_hip = short_text(answer, "torch_hip");
    facts.nccl = short_text(answer, "nccl");
    facts.error = short_text(answer, "error");
  } catch (const nlohmann::json::exception&) {
    facts.version.clear();
    const std::string said = last_line(errors).substr(0, kPythonTextMax);
    facts.error = said.empty() ? "it printed no answer" : said;
  }
}

}  // namespace muster::launcher
