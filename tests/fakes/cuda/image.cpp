// SPDX-License-Identifier: Apache-2.0
// What drivers say of modules: machine code runs on devices of its major architecture and a minor one that is
// not smaller, PTX on all that are not older than its target, and neither on a driver that is older than what
// it is made of (https://docs.nvidia.com/cuda/cuda-c-programming-guide/, "Binary Compatibility";
// https://docs.nvidia.com/cuda/parallel-thread-execution/, "Release Notes"). The header of an ELF file is as
// NVRTC 12.9 writes it, and as LLVM's ELF.h (EF_CUDA_SM) describes it.
#include "tests/fakes/cuda/internal.hpp"

#include <cstdio>

namespace {

constexpr std::string_view kElf = "\177ELF";
constexpr std::size_t kElfHeader = 64;
constexpr unsigned kMachine = 190;  // EM_CUDA
/// CUDA 12.8 came with Blackwell, whose machine code NVRTC 12.9 writes in ABI 8, and that of the others in 7.
constexpr int kDriverOfAbi8 = 12080;

/// The newest PTX that a driver knows, as major * 10 + minor.
struct PtxOfDriver {
  int driver;
  int ptx;
};

constexpr PtxOfDriver kPtxOfDrivers[] = {{12020, 82}, {12030, 83}, {12040, 84}, {12050, 85},
                                         {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}};

int newest_ptx(int driver) {
  int newest = 0;
  for (const PtxOfDriver& each : kPtxOfDrivers)
    if (each.driver <= driver) newest = each.ptx;
  return newest;
}

/// The first driver that knows an architecture, where that is not one of those before CUDA 12.2.
int first_driver_of(int architecture) {
  switch (architecture) {
    case 100:
    case 120:
      return 12080;
    case 103:
    case 121:
      return 12090;
    default:
      return 0;
  }
}

unsigned byte_at(std::string_view image, std::size_t place) {
  return static_cast<unsigned char>(image[place]);
}

CUresult judge_machine_code(std::string_view image, int capability, int driver) {
  if (image.size() < kElfHeader) return CUDA_ERROR_INVALID_IMAGE;
  const unsigned machine = byte_at(image, 18) | byte_at(image, 19) << 8;
  const unsigned abi = byte_at(image, 8);
  if (machine != kMachine || (abi >= 8 && driver < kDriverOfAbi8)) return CUDA_ERROR_INVALID_IMAGE;
  // The lowest byte of the flags, and the next one from ABI 8 on.
  const auto architecture = static_cast<int>(byte_at(image, abi >= 8 ? 49 : 48));
  if (driver < first_driver_of(architecture)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  const bool runs = architecture / 10 == capability / 10 && architecture % 10 <= capability % 10;
  return runs ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

/// What stands behind `name` on the first line that begins with it; "" if there is none.
std::string behind(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1))
    if (at == 0 || text[at - 1] == '\n')
      return std::string(text.substr(at + name.size(), text.find('\n', at) - at - name.size()));
  return "";
}

CUresult judge_ptx(std::string_view text, int capability, int driver) {
  int major = 0;
  int minor = 0;
  int target = 0;
  if (std::sscanf(behind(text, ".version ").c_str(), "%d.%d", &major, &minor) != 2 ||
      std::sscanf(behind(text, ".target ").c_str(), "sm_%d", &target) != 1)
    return CUDA_ERROR_INVALID_IMAGE;
  if (major * 10 + minor > newest_ptx(driver)) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  return target > capability ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

}  // namespace

namespace fake {

CUresult judge_image(std::string_view image, int capability, int driver) {
  return image.starts_with(kElf) ? judge_machine_code(image, capability, driver)
                                 : judge_ptx(image, capability, driver);
}

/// An image does not say how long it is. What is neither ELF nor text is looked at no further than its first
/// byte that is not ASCII.
std::string_view part_to_judge(const void* image) {
  const auto* const text = static_cast<const char*>(image);
  std::size_t length = 0;
  while (length < kElf.size() && text[length] == kElf[length]) ++length;
  if (length == kElf.size()) return {text, kElfHeader};
  length = 0;
  while (static_cast<signed char>(text[length]) > 0) ++length;
  return {text, length};
}

}  // namespace fake
