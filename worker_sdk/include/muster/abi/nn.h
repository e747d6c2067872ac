/* SPDX-License-Identifier: Apache-2.0 */
/* Training of a network that a program describes, on samples that it gives. Not a part of muster.h: these
 * calls are in libmuster_nn.so (CMake: Muster::nn), which holds those of muster.h, too, and takes the place
 * of libmuster.so. The rules of muster.h hold here.
 *
 * A network is a JSON text: {"name": ..., "input": {...}, "loss": ..., "layers": [{"layer": "linear", "out":
 * 10}, ...]}; docs/nn.md has all layers and fields, muster/nn.hpp writes the text. Every rank has a replica.
 * A step is: each rank is asked for its share of the step's samples, by a callback; forward, loss, backward;
 * gradients are summed over the ranks in buckets while backward runs; the optimizer makes each bucket's step
 * with the mean over the samples of all ranks.
 *
 * Samples of a step have numbers from 0 on over all ranks. Without deterministic_micro_batches sample i is
 * asked of rank i modulo ranks; with them the bits of the parameters do not depend on the number of ranks.
 * Dropout draws a function of seed, step, sample and layer.
 *
 * A learner belongs to its group: no other call on that while a call of the learner runs. Calls are
 * collective but where they say otherwise: all ranks make them with the same arguments, and each ends by the
 * deadline of the group. Where a step or an evaluation fails on one rank behind its checks of arguments, the
 * group is aborted with the reason, and no other call can follow. One thread. */
#ifndef MUSTER_ABI_NN_H
#define MUSTER_ABI_NN_H

#include "muster/abi/reducer.h"
#include "muster/abi/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network in training, on this rank. */
typedef struct muster_nn_learner muster_nn_learner;

/* A batch that is wanted. Samples lie one after the other in each array; all arrays hold zeros. Of inputs and
 * ids, and of labels and targets, one is NULL, by the network's input and loss. */
typedef struct muster_nn_batch {
  uint32_t size;        /* sizeof(muster_nn_batch) in the library */
  int32_t training;     /* 1: the batch is for a step; 0: for an evaluation */
  int64_t steps;        /* steps of the learner that were made before: with it, sample i of step k is known */
  uint64_t samples;     /* number of samples, 1 or more */
  uint64_t inputs_each; /* values of one sample */
  uint64_t targets_each;   /* targets of a sample: outputs of the network, or 0 */
  const uint32_t* numbers; /* [samples]: their numbers in the step, or in the evaluation, over all ranks */
  float* inputs;           /* [samples * inputs_each]: images as height x width x channels, or features */
  int32_t* ids;            /* [samples * inputs_each]: numbers of tokens, 0 to vocabulary - 1 */
  int32_t* labels;         /* [samples]: for cross entropy, 0 to outputs - 1 */
  float* targets;          /* [samples * targets_each]: for mean squared error */
} muster_nn_batch;

/* Fills a batch, on the thread that calls the learner. Anything but MUSTER_OK ends the call on all ranks,
 * with that code. No call on the learner or its group. */
typedef muster_rc (*muster_nn_fill)(const muster_nn_batch* batch, void* user);

typedef int32_t muster_nn_device;

enum {
  MUSTER_NN_CPU = 0,
  MUSTER_NN_CUDA = 1 /* the GPU of the local rank; needs libmuster_cuda.so */
};

/* The type in which a network computes; parameters and results are 32-bit floats in each. */
typedef int32_t muster_nn_precision;

enum {
  MUSTER_NN_F32 = 0,
  MUSTER_NN_TF32 = 1, /* on GPUs only */
  MUSTER_NN_BF16 = 2, /* MUSTER_E_UNSUPPORTED on a processor without instructions for it */
  MUSTER_NN_F16 =
      3 /* on GPUs only; the loss is scaled, and a step whose gradients are too large is left out */
};

/* Names and formulas are PyTorch's: torch.optim.SGD, Adam, AdamW. Weight decay leaves out biases and norms,
   which PyTorch's examples do not, but with MUSTER_NN_DECAY_ALL. */
typedef int32_t muster_nn_optimizer;

enum { MUSTER_NN_SGD = 0, MUSTER_NN_ADAM = 1, MUSTER_NN_ADAMW = 2 };

enum {
  MUSTER_NN_NESTEROV = 1,        /* Nesterov's form of sgd with a momentum */
  MUSTER_NN_SYNC_BATCH_NORM = 2, /* batch norm over the batch of all ranks */
  MUSTER_NN_DECAY_ALL = 4        /* weight decay of biases and norms, too */
};

typedef struct muster_nn_options {
  uint32_t size; /* sizeof(muster_nn_options) */
  muster_nn_device device;
  muster_nn_precision precision;
  int32_t threads; /* threads of this process's computations. Default: OMP_NUM_THREADS, else all processors */
  uint64_t batch_size;   /* samples that a rank computes at once, at most. Default: 64 */
  uint32_t accumulation; /* micro-batches of batch_size of a rank in a step, at most. Default: 1 */
  int32_t deterministic_micro_batches; /* micro-batches of a step of all ranks; see reducer.h. Default: 0 */
  uint64_t seed;                       /* seed of the first parameters, and of dropout */
  muster_nn_optimizer optimizer;
  uint32_t flags;         /* MUSTER_NN_NESTEROV ... */
  double momentum;        /* momentum of sgd. Default: 0 */
  double weight_decay;    /* L2 for sgd and adam, decoupled for adamw. Default: 0 */
  double beta1;           /* for adam and adamw. Default: 0.9 */
  double beta2;           /* for adam and adamw. Default: 0.999 */
  double epsilon;         /* for adam and adamw. Default: 1e-8 */
  double ema_decay;       /* of an average of the weights, which is what is scored, asked and saved in their
                             place. Default: 0, none */
  double label_smoothing; /* cross entropy, as PyTorch's. Default: 0 */
  double max_norm;        /* L2 norm to which the mean gradient is scaled down. Default: 0, no clipping */
  muster_compression compression; /* compression of gradients: none, bf16 or f16. Default: none */
  int32_t reserved;
} muster_nn_options;

/* Makes a learner of `group`, or a world of one where that is NULL: then it belongs to nobody and is to be
 * freed. `options` may be NULL. Every rank starts with rank 0's parameters, which PyTorch's defaults draw
 * from the seed. MUSTER_E_ARG names the layer that cannot be, what it gets and what it needs;
 * MUSTER_E_MISMATCH the rank with another network or other options, and both; MUSTER_E_UNSUPPORTED what this
 * machine, or the device, does not compute. */
MUSTER_API muster_rc muster_nn_learner_create(muster_group* group, const char* network,
                                              const muster_nn_options* options, muster_nn_fill fill,
                                              void* user, muster_nn_learner** learner);

typedef struct muster_nn_info {
  uint32_t size;         /* sizeof(muster_nn_info) */
  uint32_t parameters;   /* number of tensors */
  uint64_t values;       /* floats in all tensors */
  uint64_t inputs;       /* values of one sample */
  uint64_t outputs;      /* results of the network for one sample */
  uint64_t global_batch; /* samples of a step of all ranks, at most: batch_size * accumulation * ranks */
  int64_t steps;         /* steps made so far */
} muster_nn_info;

/* Fills *info. Not collective. */
MUSTER_API muster_rc muster_nn_get_info(muster_nn_learner* learner, muster_nn_info* info);

/* The score over the samples of all ranks, the same on all of them. */
typedef struct muster_nn_score {
  uint32_t size; /* sizeof(muster_nn_score) */
  uint32_t reserved;
  int64_t samples;
  double loss;     /* the mean over the samples */
  double accuracy; /* share of samples whose largest result is that of the label; 0 without labels */
} muster_nn_score;

/* One step over `samples` samples of all ranks together, 1 to global_batch. *score (may be NULL) is that of
 * the network before the step. MUSTER_E_ARG also where the loss is no longer a number: it names step, rank
 * and the first layer, and no parameter has changed. MUSTER_E_MISMATCH where the ranks do not give the same
 * number of samples. */
MUSTER_API muster_rc muster_nn_step(muster_nn_learner* learner, uint64_t samples, float learning_rate,
                                    muster_nn_score* score);

/* Scores `samples` samples of all ranks together, 1 to 2^32 - 1, without training; running statistics are
 * rank 0's. */
MUSTER_API muster_rc muster_nn_evaluate(muster_nn_learner* learner, uint64_t samples, muster_nn_score* score);

/* Fills outputs[samples * outputs] with the network's results for inputs[samples * inputs], which are floats,
 * or int32_t for numbers of tokens; the results are logits where the loss is cross entropy. Not collective;
 * running statistics are this rank's. */
MUSTER_API muster_rc muster_nn_predict(muster_nn_learner* learner, const void* inputs, uint64_t samples,
                                       float* outputs);

/* Rank 0 writes a safetensors file under its name at once: parameters and running statistics, under
 * PyTorch's names. `whole` 1: with the state of the optimizer and the number of steps, from which
 * muster_nn_load() goes on with the bits of a learner that never stopped. */
MUSTER_API muster_rc muster_nn_save(muster_nn_learner* learner, const char* path, int32_t whole);

/* Rank 0 reads a file of muster_nn_save(), or one of PyTorch's with these names and shapes (other tensors are
 * left out), and all ranks get it. *whole (may be NULL): 1 where the file was saved with `whole` 1.
 * MUSTER_E_ARG names the tensor that is missing or has another shape, and nothing has changed. */
MUSTER_API muster_rc muster_nn_load(muster_nn_learner* learner, const char* path, int32_t* whole);

/* Compares the parameters of all ranks, bit for bit; *hash (may be NULL) is their hash. MUSTER_E_MISMATCH
 * names parameter and rank. */
MUSTER_API muster_rc muster_nn_check(muster_nn_learner* learner, uint64_t* hash);

/* Frees the learner; in the middle of a step that has failed, this aborts the group. NULL is fine. */
MUSTER_API muster_rc muster_nn_learner_free(muster_nn_learner* learner);

typedef int32_t muster_nn_schedule_kind;

enum {
  MUSTER_NN_CONSTANT = 0,
  MUSTER_NN_STEP = 1,     /* times gamma after every step_steps (PyTorch's StepLR) */
  MUSTER_NN_COSINE = 2,   /* half a cosine down to the minimum (CosineAnnealingLR) */
  MUSTER_NN_ONE_CYCLE = 3 /* up from rate / 25, then down to rate / 250,000 (OneCycleLR, momentum apart) */
};

/* A learning rate over the steps of a run. */
typedef struct muster_nn_schedule {
  uint32_t size; /* sizeof(muster_nn_schedule) */
  muster_nn_schedule_kind kind;
  double rate; /* the base rate; one cycle: the highest */
  int64_t total_steps;
  int64_t step_steps;   /* for MUSTER_NN_STEP: steps between two changes of the rate */
  double gamma;         /* for MUSTER_NN_STEP: factor of each change. Default: 0.1 */
  double minimum;       /* for MUSTER_NN_COSINE: the rate down to which it goes */
  double peak_share;    /* one cycle: share of the steps up to the highest rate. Default: 0.3 */
  int64_t warmup_steps; /* a straight line from warmup_start * rate; not with one cycle */
  double warmup_start;
} muster_nn_schedule;

/* Gives in *rate the rate of step `step`; 0 is the first. No state, so a run that goes on has the rates of
 * one that was never stopped. Not collective; any thread. */
MUSTER_API muster_rc muster_nn_rate(const muster_nn_schedule* schedule, int64_t step, float* rate);

/* Fills order[count] with the numbers 0 to count - 1 in the order in which pass `epoch` (0 or more) over that
 * many samples uses them: a permutation that depends on the arguments alone. Not collective; any thread. */
MUSTER_API muster_rc muster_nn_order(uint32_t count, uint64_t seed, int32_t epoch, uint32_t* order);

#ifdef __cplusplus
}
#endif

#endif
