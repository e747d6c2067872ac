// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/doctor_json.hpp"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace muster::launcher {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(PythonFacts, program, named, found, executable, version,
                                                error, torch, torch_cuda, torch_hip, nccl)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NetworkFacts, towards, address, interface, mtu, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(FolderFacts, path, name, total, free, inodes_left, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LimitFacts, soft, hard)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AllowanceFacts, processors, affinity, quota_group, memory,
                                                memory_group)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(GpuFacts, on_bus, count, driver, cuda, error, infiniband)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LibraryFacts, version, cuda, path)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(KeepingFacts, old_folders, folder_trouble,
                                                kill_user_processes, lingers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(HostFacts, host, version, is_root, python, network, folders,
                                                open_files, locked_memory, processes, allowance, ptrace_scope,
                                                gpu, found_nccl, found_cudnn, keeping)
NLOHMANN_JSON_SERIALIZE_ENUM(Verdict,
                             {{Verdict::ok, "ok"}, {Verdict::note, "note"}, {Verdict::problem, "problem"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Finding, what, verdict, found, advice)

namespace {

constexpr const char* kSchema = "muster.doctor";
/// With it begins what to_json() writes; a login shell may have printed half a line before.
constexpr const char* kBegin = "{\n  \"differences\":";

Json of_host(const HostReport& host) {
  Json object = {{"host", host.name}, {"findings", host.findings}};
  if (host.facts) object["facts"] = *host.facts;
  return object;
}

}  // namespace

std::string to_json(const DoctorReport& report) {
  Json object = {{"schema", kSchema},
                 {"version", 1},
                 {"hosts", Json::array()},
                 {"differences", report.differences},
                 {"tried", report.tried},
                 {"problems", report.count(Verdict::problem)},
                 {"notes", report.count(Verdict::note)}};
  for (const HostReport& host : report.hosts) object["hosts"].push_back(of_host(host));
  return object.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

HostFacts facts_from_json(const std::string& printed) {
  const std::size_t begin = printed.rfind(kBegin);
  if (begin == std::string::npos) throw std::invalid_argument("it printed no report");
  try {
    const Json object = Json::parse(printed.substr(begin));
    if (object.at("schema") != kSchema || object.at("version") != 1)
      throw std::invalid_argument("its report is of another schema");
    return object.at("hosts").at(0).at("facts").get<HostFacts>();
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("its report cannot be read: ") + error.what());
  }
}

}  // namespace muster::launcher
