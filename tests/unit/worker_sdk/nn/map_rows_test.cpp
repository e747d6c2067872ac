// SPDX-License-Identifier: Apache-2.0
// What stands between maps and rows, in every format.
#include "worker_sdk/nn/cpu/map_rows.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/maps.hpp"

#include <vector>

namespace map_rows_test {

using namespace muster::test;
using namespace muster::nn;
using cpu::MapFormat;
using Values = std::vector<float>;

namespace {

constexpr std::int64_t kBatch = 2;
constexpr MapExtent kExtent = {32, 3};
constexpr std::size_t kPixels = 9, kChannels = 32;

/// Maps of such numbers in a format, and a room of it.
struct Setup {
  explicit Setup(const MapFormat& format)
      : room(NetworkOptions{}, format),
        nhwc(rounded(random_floats(kBatch * kPixels * kChannels, 1), format)),
        map(room.shape(kExtent), kBatch, nhwc),
        result(room.shape(kExtent), kBatch) {}

  cpu::Room room;
  Values nhwc;
  TestMap map, result;
};

}  // namespace

TEST_CASE("Tokens are the pixels of a map, and their gradients go back there") {
  for (const MapFormat& format : formats()) {
    Setup s(format);
    const cpu::Tokens layer(s.room, kExtent);
    Values rows(s.nhwc.size());
    layer.forward(s.map.data(), kBatch, rows.data());
    CHECK(rows == s.nhwc);
    layer.backward(rows.data(), kBatch, s.result.data());
    CHECK(s.result.nhwc() == s.nhwc);
  }
}

TEST_CASE("Flattened maps are in the order channels, height, width") {
  for (const MapFormat& format : formats()) {
    Setup s(format);
    const cpu::Flatten layer(s.room, kExtent);
    Values rows(s.nhwc.size());
    layer.forward(s.map.data(), kBatch, rows.data());
    Values wanted(rows.size());
    for (std::size_t n = 0; n < kBatch; ++n)
      for (std::size_t p = 0; p < kPixels; ++p)
        for (std::size_t c = 0; c < kChannels; ++c)
          wanted[(n * kChannels + c) * kPixels + p] = s.nhwc[(n * kPixels + p) * kChannels + c];
    CHECK(rows == wanted);
    layer.backward(rows.data(), kBatch, s.result.data());
    CHECK(s.result.nhwc() == s.nhwc);
  }
}

TEST_CASE("The bias of a map: result in place, gradient summed over images and pixels") {
  for (const MapFormat& format : formats()) {
    Setup s(format);
    cpu::MapBias layer(s.room, kExtent);
    Values bias = random_floats(kChannels, 2), gradient(kChannels, 1e30F);
    layer.bind({bias.data(), gradient.data()});
    layer.backward(s.map.data(), kBatch);
    layer.forward(s.map.data(), kBatch, s.map.data());
    Doubles sums(kChannels), wanted;
    for (std::size_t i = 0; i < s.nhwc.size(); ++i) {
      sums[i % kChannels] += static_cast<double>(s.nhwc[i]);
      wanted.push_back(static_cast<double>(rounded(s.nhwc[i] + bias[i % kChannels], format)));
    }
    CHECK(distance(wanted, s.map.nhwc()) == 0);
    CHECK(distance(sums, gradient) < 1e-5);
  }
}

TEST_CASE("Grey is the mean of three colours") {
  cpu::Room room(NetworkOptions{});
  const Values images = {1, 2, 6, 0, 0, 0, -3, 3, 3, 10, 20, 30, 1, 1, 1, 3, 0, 0, 0, 3, 0, 0, 0, 3};
  Values rows(8);
  cpu::Grey(room, {3, 2}).forward(images.data(), 2, rows.data());
  CHECK(rows == Values{3, 0, 1, 20, 1, 1, 1, 1});
}

}  // namespace map_rows_test
