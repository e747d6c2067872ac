/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that tells its steps, of 20 ms each, but for argv[2] "untold". Rank 2 takes 100 ms as long as the
 * file argv[1] is not there.
 */
#include "muster/muster.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void work(long milliseconds) {
  const struct timespec time = {0, milliseconds * 1000000};
  nanosleep(&time, NULL);
}

int main(int argc, char** argv) {
  muster_world* world = NULL;
  muster_group* group = NULL;
  muster_world_info info = {.size = sizeof info};
  muster_rc rc = argc == 2 || argc == 3 ? muster_init(NULL, &world) : MUSTER_E_ARG;
  if (rc == MUSTER_OK) rc = muster_info(world, &info);
  if (rc == MUSTER_OK) rc = muster_group_world(world, &group);
  for (uint64_t step = 1; rc == MUSTER_OK; ++step) {
    int32_t one = 1;
    work(info.rank == 2 && access(argv[1], F_OK) != 0 ? 100 : 20);
    rc = muster_all_reduce(group, &one, &one, 1, MUSTER_I32, MUSTER_SUM, NULL, NULL);
    if (rc == MUSTER_OK && argc == 2) rc = muster_set_step(world, step);
  }
  fprintf(stderr, "pace_worker: %s\n", muster_error_text(NULL));
  return 1;
}
