// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/program_findings.hpp"

#include "catch.hpp"
#include "tests/unit/launcher/doctor/healthy_host.hpp"

using namespace muster::launcher;
using namespace muster::launcher::doctor_test;

TEST_CASE("Python and PyTorch") {
  using F = HostFacts;
  constexpr auto kNote = Verdict::note;
  constexpr auto kProblem = Verdict::problem;
  check_rows({
      {"Python", kNote, "3.15.0", "3.9 to 3.14", [](F& f) { f.python.version = "3.15.0"; }},
      {"Python", kNote, "3.8.10", "3.9 to 3.14", [](F& f) { f.python.version = "3.8.10"; }},
      {"torch", kProblem, "2.4.1+cpu, without CUDA", "CUDA 12.4",
       [](F& f) {
         f.python.torch = "2.4.1+cpu";
         f.python.torch_cuda = "";
       }},
      {"torch", Verdict::ok, "for HIP 6.0", "",
       [](F& f) {
         f.python.torch_cuda = "";
         f.python.torch_hip = "6.0";
       }},
      {"torch", kProblem, "CUDA 13.0", "update it, or", [](F& f) { f.python.torch_cuda = "13.0"; }},
      {"torch", kNote, "CUDA 12.8", "newer features", [](F& f) { f.python.torch_cuda = "12.8"; }},
      {"torch", Verdict::ok, "not installed", "", [](F& f) { f.python.torch = ""; }},
      {"torch", kProblem, "torch cannot be looked at", "anew",
       [](F& f) {
         f.python.torch = "";
         f.python.error = "torch cannot be looked at: x";
       }},
  });
}

TEST_CASE("GPUs and NCCL") {
  using F = HostFacts;
  constexpr auto kNote = Verdict::note;
  constexpr auto kProblem = Verdict::problem;
  check_rows({
      {"GPUs", kProblem, "8 of NVIDIA on the bus, but none can be used: no library", "driver",
       [](F& f) {
         f.gpu.count = 0;
         f.gpu.error = "no library";
       }},
      {"GPUs", kNote, "of 9 on the bus", "nvidia-smi", [](F& f) { f.gpu.on_bus = 9; }},
      {"GPUs", Verdict::ok, "none", "", [](F& f) { f.gpu = {}; }},
      {"NCCL", kNote, "2.21.5 of torch", "2.28.7", [](F& f) { f.python.nccl = "2.21.5"; }},
      {"NCCL", kNote, "not found", "libnccl.so.2", [](F& f) { f.python.nccl = ""; }},
      {"NCCL", Verdict::ok, "2.29.1 (/p/libnccl.so.2)", "",
       [](F& f) {
         f.python.nccl = "";
         f.found_nccl = {"2.29.1", "", "/p/libnccl.so.2"};
       }},
      {"cuDNN", Verdict::ok, "9.1.0 for CUDA 12.4 (/p/libcudnn.so.9)", "", [](F&) {}},
      {"cuDNN", kNote, "9.19.0 for CUDA 13.0", "the driver here serves CUDA 12.4",
       [](F& f) {
         f.found_cudnn = {"9.19.0", "13.0", "/p"};
       }},
      {"cuDNN", kNote, "not found", "pip install nvidia-cudnn-cu12", [](F& f) { f.found_cudnn = {}; }},
  });
}

TEST_CASE("An interpreter that is missing is a problem only where somebody named it") {
  HostFacts facts = healthy();
  facts.python = {};
  facts.python.program = "python3";
  CHECK(find(judge(facts), "Python").verdict == Verdict::note);
  facts.python.named = true;
  CHECK(find(judge(facts), "Python").verdict == Verdict::problem);
  CHECK(find(judge(facts), "torch").verdict == Verdict::ok);
  facts.python.found = true;
  facts.python.error = "no answer within 10 s";
  const Finding finding = find(judge(facts), "Python");
  CHECK(finding.verdict == Verdict::problem);
  CHECK(finding.found == "'python3' does not answer: no answer within 10 s");
  CHECK(find(judge(facts), "torch").verdict == Verdict::ok);
}

TEST_CASE("Versions are compared by their numbers") {
  CHECK(compare_versions("3.9", "3.14", 2) < 0);
  CHECK(compare_versions("12.10", "12.4", 2) > 0);
  CHECK(compare_versions("12.8", "12.4", 1) == 0);
  CHECK(compare_versions("2.28.7", "2.28.7", 3) == 0);
  CHECK(compare_versions("2.28", "2.28.7", 3) < 0);
  CHECK(compare_versions("", "1", 1) < 0);
  CHECK(compare_versions("x.y", "0.0", 2) == 0);
}
