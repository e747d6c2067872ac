// SPDX-License-Identifier: Apache-2.0
// Stands in for libnvidia-ml.so.1: MUSTER_FAKE_GPUS devices, or an error code from MUSTER_FAKE_NVML_ERROR.
// The first wait for events returns one of the last GPU that is listened to, with the Xid MUSTER_FAKE_XID;
// all later ones, and without that variable all, last as long as they may, or for ever with
// MUSTER_FAKE_NVML_STUCK.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device);
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size);

struct pci_info {
  char legacy_address[16];
  unsigned numbers[5];
  char address[32];
};

int nvmlDeviceGetPciInfo_v3(void* device, struct pci_info* info);

struct event {
  void* device;
  unsigned long long type;
  unsigned long long data;
  unsigned instances[2];
};

int nvmlEventSetCreate(void** set);
int nvmlEventSetFree(void* set);
int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void* set);
int nvmlEventSetWait_v2(void* set, struct event* event, unsigned timeout_ms);
int nvmlSystemGetDriverVersion(char* version, unsigned size);
int nvmlSystemGetCudaDriverVersion_v2(int* version);

static int number_of(const char* variable) {
  const char* text = getenv(variable);
  return text == NULL ? 0 : atoi(text);
}

int nvmlInit_v2(void) {
  return number_of("MUSTER_FAKE_NVML_ERROR");
}

int nvmlShutdown(void) {
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = (unsigned)number_of("MUSTER_FAKE_GPUS");
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = (void*)(uintptr_t)(index + 1);
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
  snprintf(uuid, size, "GPU-%02u-fake", (unsigned)(uintptr_t)device - 1);
  return 0;
}

int nvmlDeviceGetPciInfo_v3(void* device, struct pci_info* info) {
  snprintf(info->address, sizeof info->address, "0000FFFF:%02X:00.0", (unsigned)(uintptr_t)device + 0x3a);
  return 0;
}

int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  snprintf(version, size, "550.54.15");
  return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 12040;
  return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void* listened = NULL;

int nvmlEventSetCreate(void** set) {
  *set = &listened;
  return 0;
}

int nvmlEventSetFree(void* set) {
  return set == &listened ? 0 : 2;
}

int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void* set) {
  if (set != &listened || (types & 8U) == 0) return 2;
  pthread_mutex_lock(&mutex);
  listened = device;
  pthread_mutex_unlock(&mutex);
  return 0;
}

int nvmlEventSetWait_v2(void* set, struct event* event, unsigned timeout_ms) {
  (void)set;
  pthread_mutex_lock(&mutex);
  event->device = listened;
  listened = NULL;
  pthread_mutex_unlock(&mutex);
  event->type = 8;
  event->data = (unsigned long long)number_of("MUSTER_FAKE_XID");
  if (event->device != NULL && event->data != 0) return 0;
  if (getenv("MUSTER_FAKE_NVML_STUCK") != NULL)
    for (;;) pause();
  const struct timespec time = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};
  nanosleep(&time, NULL);
  return 10;
}
