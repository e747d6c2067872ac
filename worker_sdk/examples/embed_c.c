/* SPDX-License-Identifier: Apache-2.0 */
/* embed_c: a C program becomes a job. Each rank sums its share of 1/1 - 1/3 + 1/5 ..., and all get pi. */
#include <muster/muster.h>

#include <stdio.h>

int main(void) {
  muster_world* world = NULL;
  muster_group* group = NULL;
  muster_world_info info = {.size = sizeof info};
  if (muster_init(NULL, &world) != MUSTER_OK || muster_info(world, &info) != MUSTER_OK ||
      muster_group_world(world, &group) != MUSTER_OK) {
    fprintf(stderr, "embed_c: %s\n", muster_error_text(NULL));
    return 1;
  }
  double sum = 0;
  for (long i = info.rank; i < 10000000; i += info.world_size)
    sum += (i % 2 == 0 ? 4.0 : -4.0) / (2.0 * (double)i + 1.0);
  if (muster_all_reduce(group, &sum, &sum, 1, MUSTER_F64, MUSTER_SUM, NULL, NULL) != MUSTER_OK) {
    fprintf(stderr, "embed_c: %s\n", muster_error_text(NULL));
    muster_leave(world);
    return 1;
  }
  if (info.rank == 0) printf("%d ranks: pi is %.6f\n", info.world_size, sum);
  return muster_finalize(world, 0) == MUSTER_OK ? 0 : 1;
}
