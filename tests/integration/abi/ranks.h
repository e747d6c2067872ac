/* SPDX-License-Identifier: Apache-2.0 */
/* Several ranks in one process: each is a thread with a world of its own. */
#ifndef MUSTER_TESTS_ABI_RANKS_H
#define MUSTER_TESTS_ABI_RANKS_H

#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_RANKS = 8 };

/* What one rank does with its world, which is finalized by the body or left after it. */
typedef void (*rank_body)(muster_world* world, muster_group* group, int32_t rank, int32_t size);

typedef struct rank_thread {
  pthread_t thread;
  rank_body body;
  const char* url;
  int32_t rank;
  int32_t size;
} rank_thread;

static void* run_rank(void* argument) {
  const rank_thread* self = argument;
  muster_options options = {.size = sizeof options,
                            .init_url = self->url,
                            .backend = "shm",
                            .rank = self->rank,
                            .world_size = self->size,
                            .join_deadline_ms = 30000,
                            .timeout_ms = 20000};
  muster_world* world = NULL;
  muster_group* group = NULL;
  CHECK_OK(muster_init(&options, &world));
  if (world == NULL) return NULL;
  CHECK_OK(muster_group_world(world, &group));
  self->body(world, group, self->rank, self->size);
  CHECK_OK(muster_finalize(world, 20000));
  return NULL;
}

/* Runs `body` on `size` ranks that meet through a file of their own. */
static void run_ranks(int32_t size, rank_body body) {
  char folder[] = "/tmp/muster-abi-XXXXXX";
  char url[64];
  rank_thread ranks[MAX_RANKS];
  if (mkdtemp(folder) == NULL) {
    perror("mkdtemp");
    exit(1);
  }
  snprintf(url, sizeof url, "file://%s/meet", folder);
  for (int32_t i = 0; i < size; ++i) {
    ranks[i] = (rank_thread){.body = body, .url = url, .rank = i, .size = size};
    CHECK(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]) == 0);
  }
  for (int32_t i = 0; i < size; ++i) pthread_join(ranks[i].thread, NULL);
  rmdir(folder);
}

#endif
