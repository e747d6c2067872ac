/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that steps until any rank is to stop. It ignores the signal, so that only muster_should_stop()
 * tells. */
#include "muster/muster.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

int main(void) {
  const struct timespec pause = {0, 1000000};
  muster_world* world = NULL;
  muster_group* group = NULL;
  muster_world_info info = {.size = sizeof info};
  int32_t stop = 0;
  uint64_t step = 0;
  signal(SIGTERM, SIG_IGN);
  muster_rc rc = muster_init(NULL, &world);
  if (rc == MUSTER_OK) rc = muster_info(world, &info);
  if (rc == MUSTER_OK) rc = muster_group_world(world, &group);
  while (rc == MUSTER_OK && stop == 0) {
    stop = muster_should_stop(world);
    rc = muster_all_reduce(group, &stop, &stop, 1, MUSTER_I32, MUSTER_MAX, NULL, NULL);
    if (++step == 1 && info.rank == 0) {
      puts("all run");
      fflush(stdout);
    }
    nanosleep(&pause, NULL);
  }
  if (rc == MUSTER_OK) printf("rank %d saves after step %llu\n", (int)info.rank, (unsigned long long)step);
  if (rc == MUSTER_OK) rc = muster_finalize(world, 0);
  if (rc != MUSTER_OK) fprintf(stderr, "stop_worker: %s\n", muster_error_text(NULL));
  return rc != MUSTER_OK;
}
