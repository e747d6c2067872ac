// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/data/images.hpp"

#include "catch.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"

#include <algorithm>
#include <array>
#include <cmath>

using namespace muster::data;

TEST_CASE("Gathering normalises each channel and keeps the order asked for") {
  Images images;
  images.labels = {3, 8};
  for (std::size_t i = 0; i < 2 * kImageBytes; ++i)
    images.pixels.push_back(static_cast<std::uint8_t>(i % 251));
  const std::array<std::uint32_t, 3> indices = {1, 0, 1};
  std::vector<float> out(3 * kImageBytes);
  std::array<std::uint8_t, 3> labels{};
  gather(images, indices, kCifar10Normalization, {}, 0, out.data(), labels.data());
  CHECK(labels == std::array<std::uint8_t, 3>{8, 3, 8});
  double worst = 0;
  for (std::size_t n = 0; n < 3; ++n)
    for (std::size_t i = 0; i < kImageBytes; ++i) {
      const double pixel = images.pixels[indices[n] * kImageBytes + i] / 255.0;
      const std::size_t c = i % 3;
      const double wanted = (pixel - static_cast<double>(kCifar10Normalization.mean[c])) /
                            static_cast<double>(kCifar10Normalization.deviation[c]);
      worst = std::max(worst, std::abs(wanted - static_cast<double>(out[n * kImageBytes + i])));
    }
  CHECK(worst < 1e-6);
}

TEST_CASE("The synthetic set is a function of its seed, balanced, and not the same for training and test") {
  SyntheticOptions options;
  options.train_images = 50;
  options.test_images = 20;
  const ImageData a = make_synthetic(options);
  const ImageData b = make_synthetic(options);
  CHECK(a.train.pixels == b.train.pixels);
  CHECK(a.test.pixels == b.test.pixels);
  CHECK(std::count(a.train.labels.begin(), a.train.labels.end(), 4) == 5);
  CHECK_FALSE(std::equal(a.test.pixels.begin(), a.test.pixels.end(), a.train.pixels.begin()));

  SECTION("an image does not depend on how many there are") {
    options.train_images = 10;
    const ImageData fewer = make_synthetic(options);
    CHECK(std::equal(fewer.train.pixels.begin(), fewer.train.pixels.end(), a.train.pixels.begin()));
  }
  SECTION("another seed is another set") {
    options.seed = 1;
    CHECK(make_synthetic(options).train.pixels != a.train.pixels);
  }
}
