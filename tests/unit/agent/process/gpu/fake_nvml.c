// SPDX-License-Identifier: Apache-2.0
// Stands in for libnvidia-ml.so.1: MUSTER_FAKE_GPUS devices, or an error code from MUSTER_FAKE_NVML_ERROR.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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
