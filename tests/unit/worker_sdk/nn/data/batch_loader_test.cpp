// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/data/batch_loader.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"
#include "worker_sdk/nn/data/images.hpp"

#include <algorithm>
#include <numeric>

using namespace muster::data;

namespace {

using Batches = std::vector<std::vector<std::uint32_t>>;

Images small_set() {
  SyntheticOptions options;
  options.train_images = 64;
  options.test_images = 10;
  return make_synthetic(options).train;
}

/// Batches of 7, with an empty one in the middle.
Batches plan_of(std::size_t images) {
  Batches plan;
  for (std::uint32_t i = 0; i < images; ++i) {
    if (i % 7 == 0) plan.emplace_back();
    if (i == 28) plan.emplace_back();
    plan.back().push_back((i * 5) % 64);
  }
  return plan;
}

LoaderOptions with_threads(int threads, int prefetch) {
  LoaderOptions options;
  options.threads = threads;
  options.prefetch = prefetch;
  options.augmentation = {4, true, 1};
  return options;
}

/// Every float and label of two passes, of which the first is given up half way.
std::vector<float> all_of(BatchLoader& loader, const Batches& plan) {
  std::vector<float> all;
  loader.begin(plan, 0);
  for (std::size_t i = 0; i < plan.size() / 2; ++i) loader.next();
  loader.begin(plan, 1);
  for (const auto& indices : plan) {
    const Batch batch = loader.next();
    CHECK(std::equal(batch.indices.begin(), batch.indices.end(), indices.begin(), indices.end()));
    all.insert(all.end(), batch.images, batch.images + batch.size() * kImageBytes);
    all.insert(all.end(), batch.labels, batch.labels + batch.size());
  }
  return all;
}

}  // namespace

TEST_CASE("Batches are the same whoever prepares them") {
  const Images images = small_set();
  const Batches plan = plan_of(60);
  BatchLoader alone(images, with_threads(0, 1));
  const std::vector<float> wanted = all_of(alone, plan);
  std::vector<float> direct;
  for (const auto& indices : plan) {
    std::vector<float> out(indices.size() * kImageBytes);
    std::vector<std::uint8_t> labels(indices.size());
    gather(images, indices, kCifar10Normalization, {4, true, 1}, 1, out.data(), labels.data());
    direct.insert(direct.end(), out.begin(), out.end());
    direct.insert(direct.end(), labels.begin(), labels.end());
  }
  CHECK((wanted == direct));
  for (const int threads : {1, 3})
    for (const int prefetch : {1, 4}) {
      BatchLoader loader(images, with_threads(threads, prefetch));
      CHECK((all_of(loader, plan) == wanted));
      CHECK((all_of(loader, plan) == wanted));
    }
}

TEST_CASE("A loader that is dropped with batches under way ends") {
  const Images images = small_set();
  for (int i = 0; i < 20; ++i) {
    BatchLoader loader(images, with_threads(2, 3));
    loader.begin(plan_of(60), 0);
    if (i % 2 == 0) loader.next();
  }
}

TEST_CASE("There is no batch after the last, and none before the first pass") {
  const Images images = small_set();
  BatchLoader loader(images, with_threads(1, 2));
  CHECK_THROWS_AS(loader.next(), muster::Error);
  loader.begin({{1}, {}}, 0);
  CHECK(loader.next().size() == 1);
  CHECK(loader.next().size() == 0);
  CHECK_THROWS_AS(loader.next(), muster::Error);
  CHECK_THROWS_AS(BatchLoader(images, with_threads(-1, 2)), muster::Error);
  CHECK_THROWS_AS(BatchLoader(images, with_threads(1, 0)), muster::Error);
}
