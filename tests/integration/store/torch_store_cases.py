# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own store clients against `muster rendezvous`, run by a Python that has torch (see torch_store_test.py).

Every test starts a store of its own, so that exact key counts hold. On torch 1.13, what it lacks is skipped.
"""
import os
import resource
import signal
import threading
import time
import unittest
from datetime import timedelta

from torch.distributed import PrefixStore, TCPStore

import interop

MODERN = hasattr(TCPStore, "append")
modern_only = unittest.skipUnless(MODERN, "torch without this call")


class StoreCase(unittest.TestCase):
    def setUp(self):
        self.port = int(self.enterContext(interop.Rendezvous()).port)
        self.store = self.connect(world_size=1)

    def tearDown(self):
        # A client of 1.13 ends its process when the server goes before it has taken in the client's second connection.
        self.store = None

    def connect(self, world_size=None, seconds=20.0):
        return TCPStore("127.0.0.1", self.port, world_size if world_size or MODERN else 1, False,
                        timedelta(seconds=seconds))


class Keys(StoreCase):
    def test_set_get_and_binary_values(self):
        for value in ("", "value", "x" * 100_000, "y" * (8 << 20)):
            self.store.set("key", value)
            self.assertEqual(self.store.get("key"), value.encode())
        self.store.set("nul\0key", b"\0\xff\n".decode("latin1"))
        self.assertEqual(self.store.get("nul\0key"), b"\0\xff\n".decode("latin1").encode())

    def test_add(self):
        self.assertEqual(self.store.add("n", 5), 5)
        self.assertEqual(self.store.add("n", -7), -2)
        self.assertEqual(self.store.get("n"), b"-2")
        self.store.set("n", "12abc")
        self.assertEqual(self.store.add("n", 1), 13)

    def test_compare_set(self):
        self.assertEqual(self.store.compare_set("missing", "expected", "new"), b"expected")
        self.assertEqual(self.store.compare_set("key", "", "first"), b"first")
        self.assertEqual(self.store.compare_set("key", "wrong", "second"), b"first")
        self.assertEqual(self.store.compare_set("key", "first", "second"), b"second")
        self.assertEqual(self.store.get("key"), b"second")

    def test_num_keys_and_delete(self):
        self.assertEqual(self.store.num_keys(), 1)  # init/, made by the client
        self.store.set("a", "1")
        self.store.set("b", "2")
        self.assertEqual(self.store.num_keys(), 3)
        self.assertTrue(self.store.delete_key("a"))
        self.assertFalse(self.store.delete_key("a"))
        self.assertEqual(self.store.num_keys(), 2)

    def test_prefixes(self):
        prefixed = PrefixStore("inner", PrefixStore("outer", self.store))
        prefixed.set("key", "value")
        self.assertEqual(prefixed.get("key"), b"value")
        self.assertEqual(self.store.get("outer/inner/key"), b"value")
        self.assertEqual(prefixed.add("n", 2), 2)
        prefixed.wait(["key", "n"], timedelta(seconds=5))
        self.assertTrue(prefixed.delete_key("n"))

    @modern_only
    def test_prefixed_extended_calls(self):
        prefixed = PrefixStore("p", self.store)
        prefixed.multi_set(["a", "b"], ["1", "2"])
        prefixed.append("a", "x")
        self.assertEqual(prefixed.multi_get(["a", "b"]), [b"1x", b"2"])
        self.assertTrue(prefixed.check(["a"]))
        self.assertEqual(self.store.get("p/a"), b"1x")

    @modern_only
    def test_append_multi_and_check(self):
        self.store.append("key", "one")
        self.store.append("key", "two")
        self.assertEqual(self.store.get("key"), b"onetwo")
        self.store.multi_set(["a", "b"], ["1", "22"])
        self.assertEqual(self.store.multi_get(["b", "a"]), [b"22", b"1"])
        self.assertTrue(self.store.check(["a", "b"]))
        self.assertFalse(self.store.check(["a", "missing"]))
        self.assertTrue(self.store.has_extended_api())

    @unittest.skipUnless(hasattr(TCPStore, "list_keys"), "torch without this call")
    def test_list_keys(self):
        self.store.set("a", "1")
        PrefixStore("p", self.store).set("b", "2")
        self.assertEqual(sorted(self.store.list_keys()), ["a", "p/b"])
        self.assertEqual(PrefixStore("p", self.store).list_keys(), ["b"])

    @unittest.skipUnless(hasattr(TCPStore, "barrier"), "torch without this call")
    def test_barrier(self):
        clones = [self.store.clone() for _ in range(4)]
        passed = []
        threads = [threading.Thread(target=lambda s=s: (s.barrier("b", 4, timedelta(seconds=10)), passed.append(1)))
                   for s in clones]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(passed), 4)
        self.store.barrier("b", 4, timedelta(seconds=1))  # not reset


class Waits(StoreCase):
    def test_wait_for_another_client(self):
        other = self.connect()
        timer = threading.Timer(0.2, lambda: other.set("late", "value"))
        timer.start()
        self.store.wait(["late"], timedelta(seconds=10))
        self.assertEqual(self.store.get("late"), b"value")
        timer.join()

    def test_time_out_says_what_it_waited_for_and_leaves_the_connection_usable(self):
        with self.assertRaises(RuntimeError) as caught:
            self.store.wait(["missing"], timedelta(milliseconds=100))
        if MODERN:
            self.assertIn("wait timeout after 100ms, keys: /missing", str(caught.exception))
        self.store.set("key", "value")
        self.assertEqual(self.store.get("key"), b"value")
        self.store.set("missing", "x")
        self.assertEqual(self.store.get("missing"), b"x")
        self.assertEqual(self.store.add("n", 3), 3)

    def test_many_time_outs_do_not_shift_later_answers(self):
        other = self.connect()
        for i in range(20):
            timer = threading.Timer(0.02, lambda key=f"k{i}": other.set(key, "v"))
            timer.start()
            try:
                self.store.wait([f"k{i}"], timedelta(milliseconds=20))
            except RuntimeError:
                pass
            timer.join()
            if MODERN:
                self.assertEqual(self.store.add("n", 1), i + 1)

    @modern_only
    def test_interrupted_wait_goes_on(self):
        signal.signal(signal.SIGUSR1, lambda *_: None)
        timers = [threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1)),
                  threading.Timer(0.4, lambda: self.connect().set("late", "v"))]
        for timer in timers:
            timer.start()
        self.store.wait(["late"], timedelta(seconds=10))
        for timer in timers:
            timer.join()

    @unittest.skipIf(MODERN, "a habit of torch 1.13")
    def test_second_silent_connection_of_the_old_client_costs_nothing(self):
        time.sleep(6)  # past the server's deadline for silent clients; if that one is cut, the client spins
        before = resource.getrusage(resource.RUSAGE_SELF)
        time.sleep(1)
        after = resource.getrusage(resource.RUSAGE_SELF)
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 0.25)
        self.store.set("key", "still usable")


@unittest.skipUnless(hasattr(TCPStore, "queue_push"), "torch without queues")
class Queues(StoreCase):
    def test_order_length_and_check(self):
        self.assertFalse(self.store.check(["q"]))
        for item in ("a", "b", ""):
            self.store.queue_push("q", item)
        self.assertTrue(self.store.check(["q"]))
        self.assertEqual(self.store.queue_len("q"), 3)
        self.assertEqual([self.store.queue_pop("q") for _ in range(3)], [b"a", b"b", b""])
        self.assertEqual(self.store.queue_len("q"), 0)
        self.assertEqual(self.store.num_keys(), 1)

    def test_empty(self):
        with self.assertRaises(Exception) as caught:
            self.store.queue_pop("q", False)
        self.assertIn("queue is empty", str(caught.exception))
        self.store.set_timeout(timedelta(milliseconds=100))
        with self.assertRaises(Exception) as caught:
            self.store.queue_pop("q")
        self.assertIn("wait timeout after 100ms, keys: /q", str(caught.exception))

    def test_two_ways_between_threads(self):
        def echo(store):
            for _ in range(200):
                store.queue_push("back", store.queue_pop("there"))

        thread = threading.Thread(target=echo, args=(self.store.clone(),))
        thread.start()
        for i in range(200):
            self.store.queue_push("there", str(i))
            self.assertEqual(self.store.queue_pop("back"), str(i).encode())
        thread.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
