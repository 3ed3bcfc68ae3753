/* A libnvidia-ml.so.1 that answers from the file named by FAKE_NVML, for tests of the real NVML path.
 *
 * One record a line: "system KEY=VALUE;…" then "gpu KEY=VALUE;…" for each GPU, in order.
 *   system: init (NVML's return code), driver, library, cuda, hang (seconds), crash
 *   gpu: name uuid bus mem used cc cpus node pids mig (current mode) slices, lost (handle fails), mem_rc,
 *        persistence ecc, remapped (rows, "UNC,PENDING,FAILURE"), links (bits of those up) with nlinks, recovery, fabric
 *        (state) with fabric_rc
 * FAKE_NVML.pid receives the process id of whoever initialised it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, DRIVER = 9, LOST = 15 };
enum { GPUS = 16, SLICES = 8, MIB = 1 << 20 };

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;
typedef struct { unsigned id, scope; long long time, latency; unsigned type, rc; union { unsigned ui; double d; } value; } Field;
typedef struct { unsigned version; unsigned char uuid[16]; unsigned status, clique; unsigned state; unsigned health; } Fabric;
typedef struct { char line[2048]; int parent, slice; } Record; /* slice -1: the GPU itself */

static Record machine, gpus[GPUS], slices[GPUS][SLICES];
static unsigned count;

/* The value of KEY in a record; NULL when it is not there. The buffer is overwritten by the next call. */
static const char *get(const Record *r, const char *key) {
    static char value[512];
    size_t n = strlen(key);
    for (const char *p = r->line; p && *p; p = strchr(p, ';') ? strchr(p, ';') + 1 : NULL)
        if (!strncmp(p, key, n) && p[n] == '=') {
            snprintf(value, sizeof value, "%s", p + n + 1);
            value[strcspn(value, ";\n")] = 0;
            return value;
        }
    return NULL;
}
static long long num(const Record *r, const char *key, long long other) {
    const char *v = get(r, key);
    return v ? strtoll(v, NULL, 0) : other;
}
static int text(const Record *r, const char *key, char *out, unsigned n) {
    const char *v = get(r, key);
    if (!v) return NOT_SUPPORTED;
    if (strlen(v) + 1 > n) return TOO_SMALL;
    strcpy(out, v);
    return OK;
}
static int load(void) {
    const char *path = getenv("FAKE_NVML");
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[2048], pid_path[512];
    if (!f) return DRIVER;
    for (count = 0; fgets(line, sizeof line, f);) {
        Record *r = !strncmp(line, "system ", 7) ? &machine : !strncmp(line, "gpu ", 4) && count < GPUS ? &gpus[count++] : NULL;
        if (!r) continue;
        strcpy(r->line, strchr(line, ' ') + 1);
        r->parent = (int)count - 1;
        r->slice = -1;
    }
    fclose(f);
    snprintf(pid_path, sizeof pid_path, "%s.pid", path);
    if ((f = fopen(pid_path, "w"))) {
        fprintf(f, "%d", getpid());
        fclose(f);
    }
    return OK;
}

int nvmlInitWithFlags(unsigned flags) {
    int rc = load();
    (void)flags;
    if (rc) return rc;
    if (num(&machine, "crash", 0)) abort();
    sleep((unsigned)num(&machine, "hang", 0));
    return (int)num(&machine, "init", OK);
}
const char *nvmlErrorString(int rc) { return rc == 18 ? "Driver/library version mismatch" : "fake error"; }
int nvmlSystemGetNVMLVersion(char *out, unsigned n) { return text(&machine, "library", out, n); }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { return text(&machine, "driver", out, n); }
int nvmlSystemGetCudaDriverVersion(int *out) { *out = (int)num(&machine, "cuda", 13000); return OK; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Record **out) {
    if (i >= count || num(&gpus[i], "lost", 0)) return LOST;
    *out = &gpus[i];
    return OK;
}
int nvmlDeviceGetName(Record *r, char *out, unsigned n) { return text(r, "name", out, n); }
int nvmlDeviceGetUUID(Record *r, char *out, unsigned n) { return text(r, "uuid", out, n); }
int nvmlDeviceGetPciInfo_v3(Record *r, Pci *out) { memset(out, 0, sizeof *out); return text(r, "bus", out->bus_id, 32); }
int nvmlDeviceGetCudaComputeCapability(Record *r, int *major, int *minor) {
    const char *v = get(r, "cc");
    return v && sscanf(v, "%d.%d", major, minor) == 2 ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetMemoryInfo(Record *r, Memory *out) {
    int rc = (int)num(r, "mem_rc", OK);
    if (rc) return rc;
    out->total = (unsigned long long)num(r, "mem", 0) * MIB;
    out->used = (unsigned long long)num(r, "used", 0) * MIB;
    out->free = out->total - out->used;
    return OK;
}
int nvmlDeviceGetCpuAffinity(Record *r, unsigned words, unsigned long *out) {
    const char *v = get(r, "cpus"); /* FIRST-LAST */
    unsigned first, last;
    if (!v || sscanf(v, "%u-%u", &first, &last) != 2) return NOT_SUPPORTED;
    memset(out, 0, words * sizeof *out);
    for (unsigned cpu = first; cpu <= last && cpu / 64 < words; cpu++) out[cpu / 64] |= 1UL << cpu % 64;
    return OK;
}
int nvmlDeviceGetNumaNodeId(Record *r, unsigned *out) { *out = (unsigned)num(r, "node", 0); return get(r, "node") ? OK : NOT_SUPPORTED; }
int nvmlDeviceGetComputeRunningProcesses_v3(Record *r, unsigned *n, Process *out) {
    const char *v = get(r, "pid");
    unsigned room = *n;
    *n = v ? 1 : 0;
    if (!v) return OK;
    if (room < 1) return TOO_SMALL;
    *out = (Process){(unsigned)strtoul(v, NULL, 10), 75161927680ULL, ~0U, ~0U};
    return OK;
}
int nvmlDeviceGetMigMode(Record *r, unsigned *current, unsigned *pending) {
    *current = *pending = (unsigned)num(r, "mig", 0);
    return get(r, "mig") ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetMaxMigDeviceCount(Record *r, unsigned *out) { (void)r; *out = SLICES - 1; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Record *r, unsigned i, Record **out) {
    Record *s = &slices[r->parent][i];
    char parent_name[256] = "";
    if (i >= (unsigned)num(r, "slices", 0)) return NOT_FOUND;
    text(r, "name", parent_name, sizeof parent_name);
    snprintf(s->line, sizeof s->line, "name=%s MIG 2g.20gb;uuid=MIG-%d-%u;mem=20096", parent_name, r->parent, i);
    s->parent = r->parent;
    s->slice = (int)i;
    *out = s;
    return OK;
}
int nvmlDeviceGetGpuInstanceId(Record *r, unsigned *out) { *out = (unsigned)r->slice + 3; return OK; }
int nvmlDeviceGetComputeInstanceId(Record *r, unsigned *out) { (void)r; *out = 0; return OK; }
int nvmlDeviceGetPersistenceMode(Record *r, unsigned *out) {
    *out = (unsigned)num(r, "persistence", 0);
    return get(r, "persistence") ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetEccMode(Record *r, unsigned *current, unsigned *pending) {
    *current = *pending = (unsigned)num(r, "ecc", 0);
    return get(r, "ecc") ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetRemappedRows(Record *r, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failure) {
    const char *v = get(r, "remapped");
    *corrected = 0;
    return v && sscanf(v, "%u,%u,%u", uncorrected, pending, failure) == 3 ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetNvLinkState(Record *r, unsigned link, unsigned *out) {
    if (!get(r, "nlinks")) return NOT_SUPPORTED;
    if (link >= (unsigned)num(r, "nlinks", 0)) return INVALID;
    *out = (unsigned)(num(r, "links", 0) >> link & 1);
    return OK;
}
int nvmlDeviceGetFieldValues(Record *r, int n, Field *out) {
    for (int i = 0; i < n; i++) {
        const char *v = out[i].id == 230 ? get(r, "recovery") : NULL;
        out[i].rc = v ? OK : NOT_SUPPORTED;
        out[i].value.ui = v ? (unsigned)strtoul(v, NULL, 10) : 0;
    }
    return OK;
}
int nvmlDeviceGetGpuFabricInfoV(Record *r, Fabric *out) {
    if (!get(r, "fabric")) return NOT_SUPPORTED;
    out->state = (unsigned)num(r, "fabric", 0);
    out->status = (unsigned)num(r, "fabric_rc", 0);
    out->uuid[0] = 0xab;
    out->clique = 7;
    out->health = 1 << 4; /* route unhealthy */
    return OK;
}
