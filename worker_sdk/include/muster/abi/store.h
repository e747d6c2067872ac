/* SPDX-License-Identifier: Apache-2.0 */
/* Part of muster.h: the key-value store that the ranks of a round share. It speaks PyTorch's TCPStore
 * protocol. The store of a world holds the keys of that world alone; one that was connected to by address
 * holds all keys as PyTorch's own client has them.
 *
 * Values are bytes with a length. What a call gives out is ended by a 0 beyond its length and freed with
 * muster_free(). Deadlines: 0 is the timeout of the world (timeout_ms), or of muster_store_connect().
 * MUSTER_E_DEADLINE names the keys that were waited for, and the store can be used on; MUSTER_E_STORE: the
 * connection broke, and the handle is dead. One thread at a time; muster_store_clone() for another. */
#ifndef MUSTER_ABI_STORE_H
#define MUSTER_ABI_STORE_H

#include "muster/abi/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The store of the world. It belongs to the world: the same handle each time, muster_store_free() refuses it.
 * A world of one that no launcher started has one inside the process. */
MUSTER_API muster_rc muster_store_world(muster_world* world, muster_store** store);

/* Connects to a store ("muster rendezvous", a PyTorch TCPStore) without joining a job. Tries until
 * deadline_ms (default: 300000), which is also the default of its later waits; then MUSTER_E_STORE.
 * Freed with muster_store_free(). */
MUSTER_API muster_rc muster_store_connect(const char* host, int32_t port, int64_t deadline_ms,
                                          muster_store** store);

/* A second connection to the same store, for another thread. Freed with muster_store_free(). */
MUSTER_API muster_rc muster_store_clone(muster_store* store, muster_store** clone);

/* Frees a store. NULL is fine. */
MUSTER_API muster_rc muster_store_free(muster_store* store);

MUSTER_API muster_rc muster_store_set(muster_store* store, const char* key, const void* value,
                                      uint64_t bytes);

/* Waits until the key exists. *value is freed with muster_free(); `bytes` may be NULL. */
MUSTER_API muster_rc muster_store_get(muster_store* store, const char* key, int64_t deadline_ms, void** value,
                                      uint64_t* bytes);

/* Adds to the decimal number at `key` (missing counts as 0); *sum (may be NULL) is the number afterwards. */
MUSTER_API muster_rc muster_store_add(muster_store* store, const char* key, int64_t delta, int64_t* sum);

/* Stores `desired` if the value equals `expected` (an empty `expected` also matches a missing key). *value is
 * the value afterwards, freed with muster_free(); for a missing key and an `expected` that is not empty,
 * `expected` (PyTorch's rule). `value` and `bytes` may be NULL. */
MUSTER_API muster_rc muster_store_compare_set(muster_store* store, const char* key, const void* expected,
                                              uint64_t expected_bytes, const void* desired,
                                              uint64_t desired_bytes, void** value, uint64_t* bytes);

/* Returns when all `count` keys exist. */
MUSTER_API muster_rc muster_store_wait(muster_store* store, const char* const* keys, uint32_t count,
                                       int64_t deadline_ms);

/* *exist becomes 1 if all `count` keys exist, else 0. Never waits for a key. */
MUSTER_API muster_rc muster_store_check(muster_store* store, const char* const* keys, uint32_t count,
                                        int32_t* exist);

/* *deleted (may be NULL) becomes 1 if the key existed. */
MUSTER_API muster_rc muster_store_delete(muster_store* store, const char* key, int32_t* deleted);

/* Adds bytes to the end of the value (missing counts as empty). */
MUSTER_API muster_rc muster_store_append(muster_store* store, const char* key, const void* value,
                                         uint64_t bytes);

/* Sets `count` keys in one message. */
MUSTER_API muster_rc muster_store_multi_set(muster_store* store, const char* const* keys,
                                            const void* const* values, const uint64_t* bytes, uint32_t count);

/* Waits until all `count` keys exist and gets them: values[i], each freed with muster_free(), and bytes[i].
 */
MUSTER_API muster_rc muster_store_multi_get(muster_store* store, const char* const* keys, uint32_t count,
                                            int64_t deadline_ms, void** values, uint64_t* bytes);

/* Adds a value to the end of the queue `key`. */
MUSTER_API muster_rc muster_store_queue_push(muster_store* store, const char* key, const void* value,
                                             uint64_t bytes);

/* Takes the first value of the queue, and waits until there is one. Arguments as for muster_store_get(). */
MUSTER_API muster_rc muster_store_queue_pop(muster_store* store, const char* key, int64_t deadline_ms,
                                            void** value, uint64_t* bytes);

/* Gives in *length the number of values in the queue now. */
MUSTER_API muster_rc muster_store_queue_length(muster_store* store, const char* key, uint64_t* length);

/* Lists all keys that begin with `prefix` (NULL: all keys), sorted. *keys is one block of *count strings,
 * each ended by 0, one after another; it is freed with one muster_free(). */
MUSTER_API muster_rc muster_store_list(muster_store* store, const char* prefix, char** keys, uint64_t* count);

#ifdef __cplusplus
}
#endif

#endif
