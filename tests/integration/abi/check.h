/* SPDX-License-Identifier: Apache-2.0 */
/* Checks for tests in C: what fails is printed with its line, and the program exits 1 at its end. */
#ifndef MUSTER_TESTS_ABI_CHECK_H
#define MUSTER_TESTS_ABI_CHECK_H

#include <muster/muster.h>

#include <stdio.h>
#include <string.h>

/* Ranks are threads in some tests; a lost count would still not be 0. */
static volatile int failed_checks = 0;

#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
      fprintf(stderr, "  last failure of this thread: %s\n", muster_error_text(NULL)); \
      failed_checks = 1;                                                               \
    }                                                                                  \
  } while (0)

#define CHECK_OK(call) CHECK((call) == MUSTER_OK)

/* The call fails with `code`, and the thread's text has `part`. */
#define CHECK_FAILS(call, code, part)                     \
  do {                                                    \
    CHECK((call) == (code));                              \
    CHECK(strstr(muster_error_text(NULL), part) != NULL); \
  } while (0)

#endif
