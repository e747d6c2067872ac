// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/batches/host_batches.hpp"

#include "muster/error.hpp"

#include <span>
#include <string>
#include <utility>

namespace muster::train {
namespace {

class ImageBatches final : public HostBatches {
 public:
  ImageBatches(const data::Images& images, const data::LoaderOptions& options) : loader_(images, options) {}

  void begin(BatchPlan batches, int epoch) override { loader_.begin(std::move(batches), epoch); }

  HostBatch next() override {
    const data::Batch batch = loader_.next();
    labels_.assign(batch.labels, batch.labels + batch.size());
    return {batch.images, labels_.data(), nullptr};
  }

 private:
  data::BatchLoader loader_;
  std::vector<std::int32_t> labels_;
};

/// Numbers of tokens that a network knows; 0: it reads none.
std::int64_t vocabulary_of(const nn::Description& network) {
  if (network.input.kind != nn::InputKind::ids) return 0;
  for (const nn::Layer& layer : network.layers)
    if (layer.kind == nn::LayerKind::embedding) return layer.vocabulary;
  return 0;
}

class FilledBatches final : public HostBatches {
 public:
  FilledBatches(FillBatch fill, const nn::Description& network, std::size_t results, bool training)
      : fill_(std::move(fill)),
        training_(training),
        input_(sample_elements(network.input)),
        results_(results),
        vocabulary_(vocabulary_of(network)),
        has_labels_(network.loss == nn::Loss::cross_entropy) {}

  void begin(BatchPlan batches, int) override {
    batches_ = std::move(batches);
    next_ = 0;
  }

  HostBatch next() override {
    if (next_ == batches_.size())
      throw Error(ErrorCode::invalid_argument, "a batch behind the last one of the pass");
    const std::vector<std::uint32_t>& samples = batches_[next_++];
    const std::size_t count = samples.size();
    const bool has_ids = vocabulary_ > 0;
    // One more: a batch of none still needs a place to point to.
    inputs_.assign(has_ids ? 0 : count * input_ + 1, 0);
    ids_.assign(has_ids ? count * input_ + 1 : 0, 0);
    labels_.assign(has_labels_ ? count + 1 : 0, 0);
    targets_.assign(has_labels_ ? 0 : count * results_ + 1, 0);
    const HostBatch batch = {has_ids ? static_cast<const void*>(ids_.data()) : inputs_.data(), labels_.data(),
                             targets_.data()};
    if (count == 0) return batch;
    fill_({training_, samples, std::span(inputs_).first(has_ids ? 0 : count * input_),
           std::span(ids_).first(has_ids ? count * input_ : 0),
           std::span(labels_).first(has_labels_ ? count : 0),
           std::span(targets_).first(has_labels_ ? 0 : count * results_)});
    if (has_ids) check(samples, ids_, input_, vocabulary_, "token", "numbers of the vocabulary");
    if (has_labels_)
      check(samples, labels_, 1, static_cast<std::int64_t>(results_), "label", "classes of the network");
    return batch;
  }

 private:
  static void check(std::span<const std::uint32_t> samples, const std::vector<std::int32_t>& numbers,
                    std::size_t each, std::int64_t limit, const char* what, const char* range) {
    for (std::size_t i = 0; i < samples.size() * each; ++i)
      if (numbers[i] < 0 || numbers[i] >= limit)
        throw Error(ErrorCode::invalid_argument, "sample " + std::to_string(samples[i / each]) +
                                                     " of a batch was given the " + what + " " +
                                                     std::to_string(numbers[i]) + "; the " + range +
                                                     " are 0 to " + std::to_string(limit - 1));
  }

  const FillBatch fill_;
  const bool training_;
  const std::size_t input_;    ///< values of a sample
  const std::size_t results_;  ///< of the network for a sample
  const std::int64_t vocabulary_;
  const bool has_labels_;
  BatchPlan batches_;
  std::size_t next_ = 0;
  std::vector<float> inputs_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> labels_;
  std::vector<float> targets_;
};

}  // namespace

std::size_t sample_elements(const nn::Input& input) {
  const std::int64_t side = input.kind == nn::InputKind::images ? input.side : 1;
  return static_cast<std::size_t>(input.channels * side * side);
}

std::unique_ptr<HostBatches> make_image_batches(const data::Images& images,
                                                const data::LoaderOptions& options) {
  return std::make_unique<ImageBatches>(images, options);
}

std::unique_ptr<HostBatches> make_filled_batches(FillBatch fill, const nn::Description& network,
                                                 std::size_t results, bool training) {
  return std::make_unique<FilledBatches>(std::move(fill), network, results, training);
}

}  // namespace muster::train
