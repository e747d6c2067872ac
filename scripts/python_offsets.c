// SPDX-License-Identifier: Apache-2.0
// Prints the row of one CPython version before 3.13 for agent/stacks/core/python_offsets.hpp. Compiled and
// run by scripts/python_offsets.py against that version's own headers; 3.13 and newer tell their offsets
// themselves.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>

#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#else
#include <frameobject.h>
#endif
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>

static void field(const char* name, size_t value) {
  printf("     .%s = %zu,\n", name, value);
}

static void print_frame_and_code(void) {
#if PY_VERSION_HEX >= 0x030b0000
  field("frame_size", offsetof(_PyInterpreterFrame, localsplus));
  field("frame_previous", offsetof(_PyInterpreterFrame, previous));
  field("frame_code", offsetof(_PyInterpreterFrame, f_code));
  field("frame_instruction", offsetof(_PyInterpreterFrame, prev_instr));
  field("frame_owner", offsetof(_PyInterpreterFrame, owner));
#else
  field("frame_size", offsetof(PyFrameObject, f_lasti) + sizeof(int));
  field("frame_previous", offsetof(PyFrameObject, f_back));
  field("frame_code", offsetof(PyFrameObject, f_code));
  field("frame_instruction", offsetof(PyFrameObject, f_lasti));
#endif
  field("code_filename", offsetof(PyCodeObject, co_filename));
#if PY_VERSION_HEX >= 0x030b0000
  field("code_name", offsetof(PyCodeObject, co_qualname));
#else
  field("code_name", offsetof(PyCodeObject, co_name));
#endif
  field("code_first_line", offsetof(PyCodeObject, co_firstlineno));
#if PY_VERSION_HEX >= 0x030a0000
  field("code_line_table", offsetof(PyCodeObject, co_linetable));
#else
  field("code_line_table", offsetof(PyCodeObject, co_lnotab));
#endif
#if PY_VERSION_HEX >= 0x030b0000
  field("code_instructions", offsetof(PyCodeObject, co_code_adaptive));
#endif
}

int main(void) {
  printf("    {.version = 0x%04x,\n", PY_VERSION_HEX >> 16);
  field("interpreters_head", offsetof(_PyRuntimeState, interpreters.head));
  field("interpreter_next", offsetof(PyInterpreterState, next));
#if PY_VERSION_HEX >= 0x030b0000
  field("threads_head", offsetof(PyInterpreterState, threads.head));
#else
  field("threads_head", offsetof(PyInterpreterState, tstate_head));
#endif
#if PY_VERSION_HEX >= 0x030c0000
  field("gil", offsetof(PyInterpreterState, ceval.gil));
#elif PY_VERSION_HEX >= 0x030b0000
  field("gil", offsetof(_PyRuntimeState, ceval.gil));
#endif
#if PY_VERSION_HEX >= 0x030b0000
  field("gil_holder", offsetof(struct _gil_runtime_state, last_holder));
  field("gil_locked", offsetof(struct _gil_runtime_state, locked));
#endif
  field("thread_next", offsetof(PyThreadState, next));
  field("thread_interpreter", offsetof(PyThreadState, interp));
  field("thread_id", offsetof(PyThreadState, thread_id));
#if PY_VERSION_HEX >= 0x030b0000
  field("thread_native_id", offsetof(PyThreadState, native_thread_id));
  field("thread_frame", offsetof(PyThreadState, cframe));
  field("thread_chunk", offsetof(PyThreadState, datastack_chunk));
  field("cframe_frame", offsetof(_PyCFrame, current_frame));
#else
  field("thread_frame", offsetof(PyThreadState, frame));
#endif
  print_frame_and_code();
  field("text_length", offsetof(PyASCIIObject, length));
  field("text_state", offsetof(PyASCIIObject, state));
  field("text_size", sizeof(PyASCIIObject));
  field("wide_text_size", sizeof(PyCompactUnicodeObject));
  field("bytes_size", offsetof(PyBytesObject, ob_base.ob_size));
  printf("     .bytes_data = %zu},\n", offsetof(PyBytesObject, ob_sval));
  return 0;
}
