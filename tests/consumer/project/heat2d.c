/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heat2d: steady temperature of a plate, Jacobi iteration on an nx x ny grid, rows divided among the
 * processes.
 *
 *   usage: heat2d NX NY MAXITER OUTFILE
 *
 * A program as people have it: globals, one file, serial or MPI (-DWITH_MPI). What Muster needed is between
 * "#ifdef WITH_MUSTER" and its end: six places that had an MPI call already.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif
#ifdef WITH_MUSTER
#include <muster/muster.h>
static muster_world* world;
static muster_group* all;
#endif

#define TOL 1.0e-9
#define IDX(i, j) ((size_t)(i) * (size_t)ny + (size_t)(j))

static int myrank = 0, nprocs = 1;
static int nx, ny, nrows; /* nrows: interior rows of this process, between two ghost rows */

static void die(const char* msg) {
  fprintf(stderr, "heat2d: rank %d: %s\n", myrank, msg);
#ifdef WITH_MPI
  MPI_Abort(MPI_COMM_WORLD, 1);
#endif
#ifdef WITH_MUSTER
  if (world) muster_abort(world, msg);
#endif
  exit(1);
}

static int first_row(int rank) {
  return rank * (nx / nprocs) + (rank < nx % nprocs ? rank : nx % nprocs);
}

static void start_up(int* argc, char*** argv) {
#ifdef WITH_MPI
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &myrank);
  MPI_Comm_size(MPI_COMM_WORLD, &nprocs);
#endif
#ifdef WITH_MUSTER
  muster_world_info info = {.size = sizeof info};
  if (muster_init(NULL, &world) || muster_info(world, &info) || muster_group_world(world, &all))
    die(muster_error_text(NULL));
  myrank = info.rank;
  nprocs = info.world_size;
#endif
  (void)argc;
  (void)argv;
}

/* Fills the two ghost rows with the neighbours' outermost rows. */
static void exchange_halo(double* u) {
#if defined(WITH_MPI) || defined(WITH_MUSTER)
  int up = myrank - 1, down = myrank + 1;
#else
  (void)u;
#endif
#ifdef WITH_MPI
  if (up < 0) up = MPI_PROC_NULL;
  if (down == nprocs) down = MPI_PROC_NULL;
  MPI_Sendrecv(&u[IDX(1, 0)], ny, MPI_DOUBLE, up, 0, &u[IDX(nrows + 1, 0)], ny, MPI_DOUBLE, down, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&u[IDX(nrows, 0)], ny, MPI_DOUBLE, down, 1, &u[IDX(0, 0)], ny, MPI_DOUBLE, up, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#endif
#ifdef WITH_MUSTER
  muster_batch_begin(all);
  if (up >= 0) {
    muster_send(all, &u[IDX(1, 0)], (uint64_t)ny, MUSTER_F64, up, 0, NULL, NULL);
    muster_recv(all, &u[IDX(0, 0)], (uint64_t)ny, MUSTER_F64, up, 1, NULL, NULL);
  }
  if (down < nprocs) {
    muster_send(all, &u[IDX(nrows, 0)], (uint64_t)ny, MUSTER_F64, down, 1, NULL, NULL);
    muster_recv(all, &u[IDX(nrows + 1, 0)], (uint64_t)ny, MUSTER_F64, down, 0, NULL, NULL);
  }
  if (muster_batch_end(all, NULL)) die(muster_error_text(NULL));
#endif
}

static double global_max(double mine) {
  double all_max = mine;
#ifdef WITH_MPI
  MPI_Allreduce(&mine, &all_max, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
#endif
#ifdef WITH_MUSTER
  if (muster_all_reduce(all, &mine, &all_max, 1, MUSTER_F64, MUSTER_MAX, NULL, NULL))
    die(muster_error_text(NULL));
#endif
  return all_max;
}

/* The whole field on rank 0, rows of all ranks one after another. */
static void collect(double* u, double* field) {
  int r;
  int *counts = malloc((size_t)nprocs * sizeof *counts), *displs = malloc((size_t)nprocs * sizeof *displs);
  if (!counts || !displs) die("out of memory");
  for (r = 0; r < nprocs; r++) {
    displs[r] = first_row(r) * ny;
    counts[r] = (first_row(r + 1) - first_row(r)) * ny;
  }
#if defined(WITH_MPI)
  MPI_Gatherv(&u[IDX(1, 0)], nrows * ny, MPI_DOUBLE, field, counts, displs, MPI_DOUBLE, 0, MPI_COMM_WORLD);
#elif defined(WITH_MUSTER)
  {
    uint64_t* n = malloc((size_t)nprocs * sizeof *n);
    for (r = 0; r < nprocs; r++) n[r] = (uint64_t)counts[r];
    if (muster_all_gather_v(all, &u[IDX(1, 0)], field, n, MUSTER_F64, NULL, NULL))
      die(muster_error_text(NULL));
    free(n);
  }
#else
  memcpy(field, &u[IDX(1, 0)], (size_t)counts[0] * sizeof *field);
#endif
  free(counts);
  free(displs);
}

int main(int argc, char** argv) {
  int i, j, iter, maxiter;
  double *u, *unew, *tmp, *field, diff = 0.0;

  start_up(&argc, &argv);
  if (argc != 5) die("usage: heat2d NX NY MAXITER OUTFILE");
  nx = atoi(argv[1]);
  ny = atoi(argv[2]);
  maxiter = atoi(argv[3]);
  if (nx < nprocs || ny < 3) die("the grid is too small");
  nrows = first_row(myrank + 1) - first_row(myrank);

  u = calloc((size_t)(nrows + 2) * (size_t)ny, sizeof *u);
  unew = calloc((size_t)(nrows + 2) * (size_t)ny, sizeof *unew);
  field = malloc((size_t)nx * (size_t)ny * sizeof *field);
  if (!u || !unew || !field) die("out of memory");
  /* hot left edge, a warm spot on the upper one */
  for (i = 0; i < nrows + 2; i++) u[IDX(i, 0)] = unew[IDX(i, 0)] = 100.0;
  if (myrank == 0)
    for (j = 0; j < ny; j++) u[IDX(0, j)] = unew[IDX(0, j)] = 50.0 * sin(3.14159265358979 * j / (ny - 1));

  for (iter = 0; iter < maxiter; iter++) {
    exchange_halo(u);
    diff = 0.0;
    for (i = 1; i <= nrows; i++)
      for (j = 1; j < ny - 1; j++) {
        double d;
        unew[IDX(i, j)] = 0.25 * (u[IDX(i - 1, j)] + u[IDX(i + 1, j)] + u[IDX(i, j - 1)] + u[IDX(i, j + 1)]);
        d = fabs(unew[IDX(i, j)] - u[IDX(i, j)]);
        if (d > diff) diff = d;
      }
    tmp = u, u = unew, unew = tmp;
    if (iter % 10 == 9 && (diff = global_max(diff)) < TOL) break;
  }
  collect(u, field);

  if (myrank == 0) {
    FILE* out = fopen(argv[4], "wb");
    if (!out || fwrite(field, sizeof *field, (size_t)nx * (size_t)ny, out) != (size_t)nx * (size_t)ny ||
        fclose(out))
      die("cannot write the output");
    printf("heat2d: %d processes, %d iterations, last change %.17g\n", nprocs, iter, global_max(diff));
  } else {
    global_max(diff);
  }
  free(u);
  free(unew);
  free(field);
#ifdef WITH_MPI
  MPI_Finalize();
#endif
#ifdef WITH_MUSTER
  if (muster_finalize(world, 0)) die(muster_error_text(NULL));
#endif
  return 0;
}
