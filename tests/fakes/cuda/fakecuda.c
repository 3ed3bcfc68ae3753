/* A libcuda.so.1 that answers from the file named by FAKE_CUDA, for tests of the real CUDA path.
 *
 * One record a line: "system KEY=VALUE;…" then "gpu KEY=VALUE;…" for each GPU, in order.
 *   system: init (cuInit's return code), hang (seconds), crash
 *   gpu: bus, context (return code of taking one), alloc (of taking memory), copy (of a copy), alone=1 (no peers)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GPUS = 16, TEXT = 512, INVALID = 101 };

static char machine[TEXT], gpus[GPUS][TEXT];
static int count, current;

static const char *get(const char *record, const char *key) {
    static char value[TEXT];
    size_t n = strlen(key);
    for (const char *p = record; p && *p; p = strchr(p, ';') ? strchr(p, ';') + 1 : NULL)
        if (!strncmp(p, key, n) && p[n] == '=') {
            snprintf(value, sizeof value, "%s", p + n + 1);
            value[strcspn(value, ";\n")] = 0;
            return value;
        }
    return NULL;
}
static int num(const char *record, const char *key) {
    const char *v = get(record, key);
    return v ? atoi(v) : 0;
}
static int load(void) {
    const char *path = getenv("FAKE_CUDA");
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[TEXT];
    if (!f) return INVALID;
    while (fgets(line, sizeof line, f)) {
        char *to = !strncmp(line, "system ", 7) ? machine : !strncmp(line, "gpu ", 4) && count < GPUS ? gpus[count++] : NULL;
        if (to) strcpy(to, strchr(line, ' ') + 1);
    }
    fclose(f);
    return 0;
}
int cuInit(unsigned flags) {
    (void)flags;
    if (load()) return INVALID;
    if (num(machine, "hang")) sleep(num(machine, "hang"));
    if (num(machine, "crash")) abort();
    return num(machine, "init");
}
int cuGetErrorName(int code, const char **name) {
    if (code != 802) return 1;
    *name = "CUDA_ERROR_SYSTEM_NOT_READY";
    return 0;
}
int cuDeviceGetCount(int *n) { return *n = count, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetPCIBusId(char *text, int n, int device) {
    const char *bus = get(gpus[device], "bus");
    if (!bus) return INVALID;
    return snprintf(text, n, "%s", bus), 0;
}
int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = !num(gpus[device], "alone") && !num(gpus[peer], "alone");
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = gpus[device];
    current = device;
    return num(gpus[device], "context");
}
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
int cuCtxSetCurrent(void *context) { return context ? 0 : INVALID; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(uint64_t *pointer, size_t size) {
    *pointer = size;
    return num(gpus[current], "alloc");
}
int cuMemFree_v2(uint64_t pointer) { return (void)pointer, 0; }
int cuMemHostAlloc(void **pointer, size_t size, unsigned flags) { return (void)flags, !(*pointer = malloc(size)); }
int cuMemFreeHost(void *pointer) { return free(pointer), 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    (void)to, (void)from, (void)size;
    return num(gpus[current], "copy");
}
