// SPDX-License-Identifier: Apache-2.0

#include "catch.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"
#include "worker_sdk/nn/data/images.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

using namespace muster::data;

namespace {

constexpr Augmentation kUsual = {4, true, 7};

std::vector<std::uint8_t> numbered_image() {
  std::vector<std::uint8_t> pixels(kImageBytes);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(1 + i % 255);
  return pixels;
}

std::vector<std::uint8_t> seen(const Draw& draw, const std::vector<std::uint8_t>& pixels) {
  std::vector<std::uint8_t> out(kImageBytes, 77);
  apply(draw, pixels.data(), out.data());
  return out;
}

/// What the window shows at (y, x), by its definition: black outside of the image.
std::uint8_t wanted(const Draw& draw, const std::vector<std::uint8_t>& pixels, int y, int x, int c) {
  const int from_y = y + draw.down;
  const int from_x = (draw.flip ? kImageSide - 1 - x : x) + draw.right;
  if (from_y < 0 || from_x < 0 || from_y >= kImageSide || from_x >= kImageSide) return 0;
  return pixels[static_cast<std::size_t>((from_y * kImageSide + from_x) * kChannels + c)];
}

}  // namespace

TEST_CASE("A window shows the image where it covers it and black elsewhere") {
  const auto pixels = numbered_image();
  for (const Draw& draw : {Draw{0, 0, false}, Draw{4, -4, false}, Draw{-3, 2, true}, Draw{0, 4, true}}) {
    const auto out = seen(draw, pixels);
    int differing = 0;
    std::size_t i = 0;
    for (int y = 0; y < kImageSide; ++y)
      for (int x = 0; x < kImageSide; ++x)
        for (int c = 0; c < kChannels; ++c) differing += out[i++] == wanted(draw, pixels, y, x, c) ? 0 : 1;
    CHECK(differing == 0);
  }
}

TEST_CASE("Draws reach every place and both sides equally often") {
  std::array<std::array<int, 9>, 9> places{};
  int flips = 0;
  constexpr int kDraws = 16200;  // 200 for each of 81 places
  for (std::uint32_t index = 0; index < kDraws; ++index) {
    const Draw draw = draw_for(kUsual, 3, index);
    ++places.at(static_cast<std::size_t>(draw.down + 4)).at(static_cast<std::size_t>(draw.right + 4));
    flips += draw.flip ? 1 : 0;
  }
  int least = kDraws;
  for (const auto& row : places)
    for (const int count : row) least = std::min(least, count);
  CHECK(least > 140);  // four deviations below 200
  CHECK(std::abs(flips - kDraws / 2) < 300);
}

TEST_CASE("A draw is a function of seed, epoch and index") {
  const auto drawn = [](const Augmentation& augmentation, int epoch) {
    std::vector<int> all;
    for (std::uint32_t index = 0; index < 50; ++index) {
      const Draw draw = draw_for(augmentation, epoch, index);
      all.push_back(draw.down * 100 + draw.right * 10 + (draw.flip ? 1 : 0));
    }
    return all;
  };
  CHECK(drawn(kUsual, 0) == drawn(kUsual, 0));
  CHECK(drawn(kUsual, 0) != drawn(kUsual, 1));
  CHECK(drawn(kUsual, 0) != drawn({4, true, 8}, 0));
  CHECK(drawn({0, false, 7}, 0) == std::vector<int>(50, 0));
}

TEST_CASE("Black at the edges is black before it is normalized") {
  SyntheticOptions options;
  options.train_images = 20;
  const Images images = make_synthetic(options).train;
  std::uint32_t index = 0;
  while (draw_for(kUsual, 0, index).down >= 0) ++index;  // its first row lies above the image
  std::vector<float> out(kImageBytes);
  std::uint8_t label = 0;
  gather(images, std::array{index}, kCifar10PerImageNormalization, kUsual, 0, out.data(), &label);
  CHECK(label == images.labels[index]);
  CHECK(out[0] == Approx(-0.4914 / 0.2023));
  CHECK(out[1] == Approx(-0.4822 / 0.1994));
}
