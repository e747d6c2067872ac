/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: handles, numbers, errors, version. */
#ifndef MUSTER_ABI_TYPES_H
#define MUSTER_ABI_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MUSTER_API __attribute__((visibility("default")))
#else
#define MUSTER_API
#endif

/* The version of these headers; muster_version() gives the version of the library. */
#define MUSTER_VERSION_MAJOR 0
#define MUSTER_VERSION_MINOR 1
#define MUSTER_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* A process's place in a job; see world.h. */
typedef struct muster_world muster_world;
/* Ranks that exchange buffers; see group.h. */
typedef struct muster_group muster_group;
/* A call that was started and not waited for; see collectives.h. */
typedef struct muster_work muster_work;
/* A connection to a key-value store; see store.h. */
typedef struct muster_store muster_store;
/* Gradients that are summed while they are made; see reducer.h. */
typedef struct muster_reducer muster_reducer;

/* The code that a call returns, which says what the caller can do about a failure. */
typedef int32_t muster_rc;

enum {
  MUSTER_OK = 0,
  MUSTER_E_ARG = -1,          /* mend the call; nothing has happened and the handle is as before */
  MUSTER_E_STATE = -2,        /* the call does not fit what was done before */
  MUSTER_E_DEADLINE = -3,     /* a wait ended; the text says for what and for whom */
  MUSTER_E_PEER = -4,         /* another rank is gone */
  MUSTER_E_MISMATCH = -5,     /* the ranks made different calls; the text has both */
  MUSTER_E_ABORTED = -6,      /* some rank aborted; the text carries its reason */
  MUSTER_E_BACKEND = -8,      /* a backend's own library failed; the text carries its words */
  MUSTER_E_NOMEM = -9,        /* there is no memory for the call */
  MUSTER_E_IO = -10,          /* a file or the operating system failed */
  MUSTER_E_UNSUPPORTED = -11, /* the call is not possible on this machine or in this build */
  MUSTER_E_STORE = -12        /* the store refused, or its connection broke */
};

/* The type of the elements of a buffer. f16 is IEEE 754 binary16, bf16 the upper half of a binary32; both are
 * reduced in f32 and rounded once, to nearest even. */
typedef int32_t muster_dtype;

enum {
  MUSTER_U8 = 0,
  MUSTER_I32 = 1,
  MUSTER_I64 = 2,
  MUSTER_F16 = 3,
  MUSTER_BF16 = 4,
  MUSTER_F32 = 5,
  MUSTER_F64 = 6
};

/* The way in which elements are combined. MUSTER_AVG: the sum divided by the number of ranks, for floating
 * types. MUSTER_BAND, BOR and BXOR: bit by bit, for integers. Integer sums and products wrap. Ranks are
 * combined in a fixed order: the same inputs give the same bits, run to run. */
typedef int32_t muster_op;

enum {
  MUSTER_SUM = 0,
  MUSTER_PRODUCT = 1,
  MUSTER_MIN = 2,
  MUSTER_MAX = 3,
  MUSTER_AVG = 4,
  MUSTER_BAND = 5,
  MUSTER_BOR = 6,
  MUSTER_BXOR = 7
};

/* The bytes of one element; 0 for a number that is no type. Any thread. */
MUSTER_API size_t muster_dtype_size(muster_dtype dtype);

/* The sentence of the last failure: of the calling thread for NULL, else of the given handle (any kind),
 * whichever thread it came from. "" when there was none. Valid until this thread's next call of
 * muster_error_text(). A call that succeeds does not clear it. Any thread. */
MUSTER_API const char* muster_error_text(const void* handle);

/* Gives the same failure as muster_error_text(), as a JSON object on one line:
 * {"code":-5,"name":"mismatch","call":"muster_all_reduce","text":"..."}, or {} when there was none. Writes at
 * most `capacity` bytes including the final 0 (nothing for capacity 0) and returns the length that the whole
 * text has without it. Any thread. */
MUSTER_API size_t muster_error_json(const void* handle, char* buffer, size_t capacity);

/* The name of a code: "mismatch" for MUSTER_E_MISMATCH; "unknown error" for a number that is no code. Any
 * thread. */
MUSTER_API const char* muster_error_name(muster_rc rc);

/* The version of the library, "0.1.0". Any thread. */
MUSTER_API const char* muster_version(void);

/* Frees memory that a call gave the caller to free (its documentation says so). NULL is fine. Any thread. */
MUSTER_API void muster_free(void* memory);

#ifdef __cplusplus
}
#endif

#endif
