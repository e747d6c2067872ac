// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/program_findings.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace muster::launcher {
namespace {

/// Takes the next number from the front of a version; 0 at its end.
long next_number(std::string_view& version) {
  const std::size_t dot = std::min(version.find('.'), version.size());
  const long number = leading_number(version.substr(0, dot)).value_or(0);
  version.remove_prefix(std::min(dot + 1, version.size()));
  return number;
}

Finding python_of(const PythonFacts& facts) {
  const std::string where =
      facts.executable.empty() || facts.executable == facts.program ? "" : " (" + facts.executable + ")";
  Finding finding{"Python", Verdict::ok, facts.version + where, ""};
  if (!facts.found) {
    finding.found = "'" + facts.program + "' was not found";
    finding.verdict = facts.named ? Verdict::problem : Verdict::note;
    finding.advice = facts.named
                         ? "install it here, or correct --python or PYTHON_EXEC"
                         : "install Python, or name an interpreter by PYTHON_EXEC; other programs need "
                           "none";
  } else if (facts.version.empty()) {
    finding.found = "'" + facts.program + "' does not answer: " + facts.error;
    finding.verdict = Verdict::problem;
    finding.advice = "run '" + facts.program + " -c pass', and mend what it says";
  } else if (compare_versions(facts.version, "3.9", 2) < 0 ||
             compare_versions(facts.version, "3.14", 2) > 0) {
    finding.verdict = Verdict::note;
    finding.advice = "'muster stacks' and reports of hangs read Python 3.9 to 3.14 only";
  }
  return finding;
}

Finding torch_of(const HostFacts& facts) {
  const PythonFacts& python = facts.python;
  Finding finding{"torch", Verdict::ok, python.torch.empty() ? "not installed" : python.torch, ""};
  if (python.torch.empty()) {
    if (python.error.empty() || python.version.empty()) return finding;
    return {"torch", Verdict::problem, python.error, "install it anew"};
  }
  if (!python.torch_cuda.empty()) finding.found += ", for CUDA " + python.torch_cuda;
  if (!python.torch_hip.empty()) finding.found += ", for HIP " + python.torch_hip;
  if (facts.gpu.count == 0 || !python.torch_hip.empty()) return finding;
  if (python.torch_cuda.empty()) {
    finding.found += ", without CUDA";
    finding.verdict = Verdict::problem;
    finding.advice = "it does not see the GPUs here; install a build for CUDA " + facts.gpu.cuda;
  } else if (!facts.gpu.cuda.empty() && compare_versions(python.torch_cuda, facts.gpu.cuda, 2) > 0) {
    const bool other_major = compare_versions(python.torch_cuda, facts.gpu.cuda, 1) > 0;
    finding.verdict = other_major ? Verdict::problem : Verdict::note;
    finding.advice = "the driver here serves CUDA " + facts.gpu.cuda +
                     (other_major ? "; update it, or install torch for that version"
                                  : ": newer features may be missing; update it");
  }
  return finding;
}

Finding gpus_of(const GpuFacts& facts) {
  Finding finding{"GPUs", Verdict::ok, std::to_string(facts.count), ""};
  if (!facts.driver.empty()) finding.found += ", driver " + facts.driver;
  if (!facts.cuda.empty()) finding.found += " (CUDA " + facts.cuda + ")";
  if (facts.count == 0 && facts.on_bus == 0) {
    finding.found = "none";
  } else if (facts.count == 0) {
    finding.verdict = Verdict::problem;
    finding.found = std::to_string(facts.on_bus) + " of NVIDIA on the bus, but none can be used" +
                    (facts.error.empty() ? "" : ": " + facts.error);
    finding.advice = "install or load NVIDIA's driver; in a container give it the GPUs (--gpus all)";
  } else if (facts.on_bus > facts.count) {
    finding.verdict = Verdict::note;
    finding.found += ", of " + std::to_string(facts.on_bus) + " on the bus";
    finding.advice =
        "the driver does not list the others; see 'nvidia-smi' and 'dmesg', if they should be here";
  }
  return finding;
}

Finding nccl_of(const HostFacts& facts) {
  const bool by_torch = !facts.python.nccl.empty();
  const std::string& version = by_torch ? facts.python.nccl : facts.found_nccl.version;
  Finding finding{"NCCL", Verdict::ok, version.empty() ? "not found" : version, ""};
  if (!version.empty()) finding.found += by_torch ? " of torch" : " (" + facts.found_nccl.path + ")";
  if (facts.gpu.count == 0) return finding;
  if (version.empty() && facts.gpu.count > 1) {
    finding.verdict = Verdict::note;
    finding.advice =
        "programs of the SDK need libnccl.so.2 for GPUs (pip install nvidia-nccl-cu12); torch may have it "
        "inside";
  } else if (!version.empty() && compare_versions(version, "2.28.7", 3) < 0) {
    finding.verdict = Verdict::note;
    finding.advice = "hangs of GPU programs are explained from NCCL 2.28.7 on";
  }
  return finding;
}

/// What muster-train computes with on GPUs; PyTorch brings its own.
Finding cudnn_of(const HostFacts& facts) {
  const LibraryFacts& library = facts.found_cudnn;
  const std::string cuda = facts.gpu.cuda;
  if (facts.gpu.count == 0 && library.version.empty())
    return {"cuDNN", Verdict::ok, "not looked for, without GPUs", ""};
  const std::string package = "pip install nvidia-cudnn-cu" + cuda.substr(0, cuda.find('.'));
  if (facts.gpu.count > 0 && compare_versions(cuda, "12.2", 2) < 0)
    return {
        "cuDNN", Verdict::note, library.version.empty() ? "not found" : library.version,
        "muster-train computes on GPUs with drivers from CUDA 12.2 on: update the driver to 535 or later"};
  if (library.version.empty())
    return {"cuDNN", Verdict::note, "not found",
            "muster-train needs libcudnn.so.9 for GPUs: " + package + "; PyTorch brings its own"};
  Finding finding{"cuDNN", Verdict::ok,
                  library.version + " for CUDA " + library.cuda + " (" + library.path + ")", ""};
  if (facts.gpu.count > 0 && compare_versions(library.cuda, cuda, 1) > 0) {
    finding.verdict = Verdict::note;
    finding.advice = "the driver here serves CUDA " + cuda +
                     ": muster-train needs another one for GPUs: " + package + ", or update the driver";
  }
  return finding;
}

}  // namespace

int compare_versions(const std::string& one, const std::string& other, int parts) {
  std::string_view left = one;
  std::string_view right = other;
  for (int i = 0; i < parts; ++i) {
    const long mine = next_number(left);
    const long yours = next_number(right);
    if (mine != yours) return mine < yours ? -1 : 1;
  }
  return 0;
}

std::vector<Finding> judge_programs(const HostFacts& facts) {
  return {python_of(facts.python), torch_of(facts), gpus_of(facts.gpu), nccl_of(facts), cudnn_of(facts)};
}

}  // namespace muster::launcher
