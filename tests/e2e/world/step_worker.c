/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that tells its steps. Rank r is in step 10 r + k when it makes its k-th call. */
#include "muster/muster.h"

#include <stddef.h>
#include <stdio.h>

int main(void) {
  muster_world* world = NULL;
  muster_group* group = NULL;
  muster_world_info info = {.size = sizeof info};
  muster_rc rc = muster_init(NULL, &world);
  if (rc == MUSTER_OK) rc = muster_info(world, &info);
  if (rc == MUSTER_OK) rc = muster_group_world(world, &group);
  for (uint64_t k = 1; rc == MUSTER_OK && k <= 3; ++k) {
    int32_t one = 1;
    rc = muster_set_step(world, 10 * (uint64_t)info.rank + k);
    if (rc == MUSTER_OK) rc = muster_all_reduce(group, &one, &one, 1, MUSTER_I32, MUSTER_SUM, NULL, NULL);
  }
  if (rc == MUSTER_OK) rc = muster_finalize(world, 0);
  if (rc != MUSTER_OK) fprintf(stderr, "step_worker: %s\n", muster_error_text(NULL));
  return rc != MUSTER_OK;
}
