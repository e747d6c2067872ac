// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/shard_layout.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/shm_ranks.hpp"
#include "worker_sdk/parallel/reducer.hpp"
#include "worker_sdk/parallel/unit_values.hpp"

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster::parallel {
namespace {

const std::vector<ParameterSpec> kUnits = {
    {"a.weight", {9000}}, {"a.bias", {10}}, {"b.weight", {100}}, {"b.bias", {3}}, {"c", {50}}};

ReducerOptions in_units(Form form, std::size_t unit_bytes = 0) {
  ReducerOptions options;
  options.bucket_bytes = options.first_bucket_bytes = options.last_bucket_bytes = 64;
  options.sharding = {form, {0, 2, 4}, unit_bytes, 1, {}};
  return options;
}

std::vector<std::vector<std::size_t>> numbers_of(const BucketLayout& layout) {
  std::vector<std::vector<std::size_t>> found;
  for (const Bucket& bucket : layout.buckets) found.push_back(bucket.parameters);
  return found;
}

}  // namespace

TEST_CASE("Buckets of zero2 and fsdp hold whole units, and divide into one part for each rank") {
  const std::vector<std::vector<std::size_t>> units = {{4}, {3, 2}, {1, 0}};
  CHECK(numbers_of(plan_buckets(kUnits, in_units(Form::zero2), 3)) == units);
  CHECK(numbers_of(plan_buckets(kUnits, in_units(Form::fsdp), 3)) == units);
  const std::vector<std::vector<std::size_t>> merged = {{4, 3, 2}, {1, 0}};
  CHECK(numbers_of(plan_buckets(kUnits, in_units(Form::fsdp, 1024), 3)) == merged);
  const BucketLayout layout = plan_buckets(kUnits, in_units(Form::fsdp), 3);
  std::vector<std::size_t> taken(layout.elements);
  for (int rank = 0; rank < 3; ++rank) {
    const ShardLayout shards = plan_shards(layout, rank, 3);
    CHECK(shards.elements * 3 == layout.elements);
    for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
      CHECK(shards.parts[b].size() % kAlignElements == 0);
      CHECK(shards.parts[b].size() == shards.whole[b].size());
      for (std::size_t i = shards.whole[b].begin; i < shards.whole[b].end; ++i) ++taken[i];
    }
  }
  CHECK(taken == std::vector<std::size_t>(layout.elements, 1));
}

TEST_CASE("A range of the arena is cut into what each rank has of it") {
  const BucketLayout layout = plan_buckets(kUnits, in_units(Form::fsdp), 4);
  const FloatRange range = {layout.offsets[3], layout.offsets[0] + 5000};
  std::size_t found = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const ShardLayout shards = plan_shards(layout, rank, 4);
    std::size_t before = 0;
    for (const FloatRange& piece : in_shards(shards, range)) {
      CHECK(piece.begin >= before);
      CHECK(piece.end <= shards.elements);
      before = piece.end;
      found += piece.size();
    }
  }
  CHECK(found == range.size());
}

TEST_CASE("Blocks that are used beside each other have places apart, in as little memory as there can be") {
  const std::vector<std::size_t> sizes = {5, 40, 7, 7, 30, 20};
  for (const std::size_t ahead : {0U, 1U, 2U, 7U}) {
    const Places places = plan_places(sizes, ahead);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      CHECK(places.begins[i] + sizes[i] <= places.floats);
      for (std::size_t j = i + 1; j < sizes.size() && j <= i + ahead; ++j)
        CHECK_FALSE(overlap(places, sizes, i, j));
    }
  }
  CHECK(plan_places(sizes, 0).floats == 40);
  CHECK(plan_places(sizes, 1).floats == 50);
  CHECK(plan_places(std::vector<std::size_t>{9}, 1).floats == 9);
}

TEST_CASE("The norm has the same bits however borders cut its blocks") {
  // A block of 4096 floats lies on up to seven ranks.
  const std::vector<ParameterSpec> model = {{"large", {5000}}, {"odd", {1001}}, {"small", {7}}};
  const auto norm_of = [&](int ranks, Form form) {
    std::vector<double> norms(static_cast<std::size_t>(ranks));
    const auto errors = test::run_shm_ranks(ranks, [&](ProcessGroup& group) {
      ReducerOptions options;
      options.max_norm = 1;
      options.sharding = {form, {0, 1, 2}, 0, 1, {}};
      Reducer reducer(model, &group, options);
      reducer.begin_step(group.rank() == 0 ? 1 : 0);
      for (std::size_t i = model.size(); i-- > 0;) {
        reducer.enter(reducer.layout().bucket_of[i]);
        for (std::size_t k = 0; k < model[i].elements(); ++k)
          reducer.gradient(i)[k] = group.rank() == 0 ? 1.0F / static_cast<float>(k + i + 3) : 0.0F;
        reducer.gradient_ready(i);
      }
      reducer.finish_step();
      norms[static_cast<std::size_t>(group.rank())] = reducer.gradient_norm();
    });
    CHECK(errors == std::vector<std::string>(errors.size()));
    for (const double norm : norms) CHECK(norm == norms[0]);
    return norms[0];
  };
  const double wanted = norm_of(2, Form::ddp);
  CHECK(wanted > 0.5);
  for (const int ranks : {2, 3, 8})
    for (const Form form : {Form::zero1, Form::zero2, Form::fsdp}) CHECK(norm_of(ranks, form) == wanted);
}

TEST_CASE("Parameters are gathered for each use, in both directions, and so often") {
  const BucketLayout layout = plan_buckets(kUnits, in_units(Form::fsdp), 3);
  for (const std::size_t ahead : {0U, 1U, 2U}) {
    const auto errors = test::run_shm_ranks(3, [&](ProcessGroup& group) {
      const ShardLayout shards = plan_shards(layout, group.rank(), 3);
      UnitValues units(layout, shards, group, ahead);
      std::vector<float> values(shards.elements);
      const std::vector<std::size_t> bucket_of = {2, 1, 0};
      const auto use = [&](std::span<const std::size_t> uses, float pass) {
        const std::size_t bucket = uses.front();
        units.begin(values.data(), uses);
        for (std::size_t i = 0; i < layout.buckets[bucket].elements; ++i)
          if (units.place(bucket)[i] != pass + static_cast<float>(layout.buckets[bucket].offset + i))
            throw std::runtime_error("bucket " + std::to_string(bucket) + " was not gathered");
      };
      for (int pass = 0; pass < 3; ++pass) {
        for (std::size_t b = 0; b < shards.parts.size(); ++b)
          for (std::size_t i = 0; i < shards.parts[b].size(); ++i)
            values[shards.parts[b].begin + i] =
                static_cast<float>(pass) + static_cast<float>(shards.whole[b].begin + i);
        // In the last pass the first two units are computed again.
        const std::vector<std::size_t> segment_of = {0, 0, pass == 2 ? 1U : 0U};
        const std::vector<std::size_t> uses = plan_uses(bucket_of, segment_of, true);
        units.begin_pass();
        for (std::size_t i = 0; i < uses.size(); ++i)
          use(std::span(uses).subspan(i), static_cast<float>(pass));
        group.barrier();
      }
      // Each bucket twice, but for the last unit, at which forward turns; in the last pass the first unit
      // three times, and the second, at which its segment turns, twice.
      const auto part = [&](std::size_t b) { return shards.parts[b].size(); };
      const std::size_t floats = 3 * part(0) + 2 * (2 * part(1) + 2 * part(2)) + 2 * part(1) + 3 * part(2);
      if (units.payload() != floats * sizeof(float) * 2)
        throw std::runtime_error(std::to_string(units.payload()) + " bytes were sent");
    });
    CHECK(errors == std::vector<std::string>(3));
  }
}

TEST_CASE("A pass uses its units forward, again by segments, and backward") {
  const std::vector<std::size_t> bucket_of = {4, 3, 2, 1, 0};
  using Uses = std::vector<std::size_t>;
  CHECK(plan_uses(bucket_of, Uses{0, 0, 0, 0, 0}, false) == Uses{4, 3, 2, 1, 0});
  CHECK(plan_uses(bucket_of, Uses{0, 0, 0, 0, 0}, true) == Uses{4, 3, 2, 1, 0, 0, 1, 2, 3, 4});
  CHECK(plan_uses(bucket_of, Uses{0, 0, 1, 1, 2}, true) == Uses{4, 3, 2, 1, 0, 0, 2, 1, 1, 2, 4, 3, 3, 4});
  CHECK(plan_uses(Uses{1, 1, 0}, Uses{0, 2, 5}, true) == Uses{1, 1, 0, 0, 1, 1, 1, 1});
  CHECK(plan_uses(Uses{0}, Uses{0}, true) == Uses{0, 0});
}

TEST_CASE("More ranks than parameters are refused") {
  const auto errors = test::run_shm_ranks(3, [&](ProcessGroup& group) {
    ReducerOptions options;
    options.sharding.form = Form::zero1;
    Reducer reducer({{"two", {2}}}, &group, options);
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, Contains("cannot give each of 3 ranks a part of 2 parameters"));
}

}  // namespace muster::parallel
