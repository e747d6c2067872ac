// SPDX-License-Identifier: Apache-2.0
#include "muster/error.hpp"
#include "tests/fuzz/checks.hpp"
#include "worker_sdk/nn/checkpoint/manifest.hpp"
#include "worker_sdk/nn/checkpoint/safetensors_header.hpp"

using namespace muster::checkpoint;
using muster::fuzz::require;

namespace {

void require_survives(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  try {
    const std::string text = format_header(header.tensors, header.metadata);
    const SafetensorsHeader again = parse_header(text.substr(8), data_bytes);
    require(header_length(text, text.size() + data_bytes) == text.size() - 8,
            "our own header has its length");
    require(again.metadata == header.metadata && again.tensors.size() == header.tensors.size(),
            "a header survives the way through JSON");
  } catch (const muster::Error&) {
    require(false, "our own header is one");
  }
}

void check_file(std::string_view file) {
  const std::uint64_t length = header_length(file.substr(0, 8), file.size());
  const std::uint64_t data_bytes = file.size() - 8 - length;
  const SafetensorsHeader header = parse_header(file.substr(8, length), data_bytes);
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : header.tensors) {
    require(tensor.begin == end, "tensors follow one another");
    require(elements_of(tensor.shape).value() * size_of(tensor.type) == tensor.bytes,
            "a shape gives its bytes");
    end += tensor.bytes;
  }
  require(end == data_bytes, "the tensors are the data");
  require_survives(header, data_bytes);
}

/// The hash at its end, which no chance would find, is made here.
void check_manifest(std::string_view text) {
  const std::size_t brace = text.rfind('}');
  const Manifest manifest = manifest_from_json(sealed(text.substr(0, brace)));
  try {
    require(manifest_from_json(to_json(manifest)) == manifest, "a manifest survives the way through JSON");
  } catch (const muster::Error&) {
    require(false, "our own manifest is one");
  }
}

}  // namespace

bool muster::fuzz::check_checkpoint_input(std::string_view input) {
  if (input.empty()) return false;
  try {
    if (input[0] == 'S')
      check_file(input.substr(1));
    else if (input[0] == 'M')
      check_manifest(input.substr(1));
    else
      return false;
    return true;
  } catch (const muster::Error& error) {
    if (error.code() != muster::ErrorCode::invalid_argument) throw;
    return false;
  }
}
