/* An NVIDIA driver library made of a text file: real NVML bindings load it and believe it.
 *
 * FAKE_NVML_DIR names a folder with
 *     state     lines "<key> <device> <value>", read at every call, the last line of a key wins
 *                   gpus - 4      how many GPUs               init - 9      what nvmlInit answers
 *                   total 0 MiB   used 0 MiB                  util 0 percent
 *                   temp 0 C      power 0 mW                  lost 2 1      GPU 2 answers GPU_IS_LOST
 *                   mig 1 2       GPU 1 is in MIG mode with 2 instances, called 1.0 and 1.1
 *                   keep - 1      memory of dead processes is not freed
 *     claims/   one file per process and device, "<device>-<pid>", holding MiB: what that process has allocated.
 *               As with a real driver it is free again when the process is gone, a zombie included.
 *
 * Without FAKE_NVML_DIR it answers LIBRARY_NOT_FOUND, so a process that once loaded it is as if it had not.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NO_DRIVER = 9,
       NO_LIBRARY = 12, LOST = 15 };
enum { MOST_GPUS = 64, MOST_INSTANCES = 7, MIG_OFF = 0, MIG_ON = 1 };

typedef int Result;
typedef struct { int gpu, instance; } Device; /* instance -1: the whole GPU */
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;

static Device wholes[MOST_GPUS], parts[MOST_GPUS][MOST_INSTANCES];
static int initialized;

static void name_of(const Device *d, char *out, size_t size) {
    if (d->instance < 0) snprintf(out, size, "%d", d->gpu);
    else snprintf(out, size, "%d.%d", d->gpu, d->instance);
}

static double setting(const char *key, const char *device, double fallback) {
    const char *folder = getenv("FAKE_NVML_DIR");
    char path[4096], line[256], found_key[64], found_device[64];
    double value;
    if (!folder) return fallback;
    snprintf(path, sizeof path, "%s/state", folder);
    FILE *file = fopen(path, "r");
    if (!file) return fallback;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %63s %lf", found_key, found_device, &value) == 3
            && !strcmp(found_key, key) && !strcmp(found_device, device)) fallback = value;
    fclose(file);
    return fallback;
}

static double of_device(const char *key, const Device *d, double fallback) {
    char name[32];
    name_of(d, name, sizeof name);
    return setting(key, name, fallback);
}

static unsigned gpu_count(void) {
    double count = setting("gpus", "-", 4);
    return count < 0 ? 0 : count > MOST_GPUS ? MOST_GPUS : (unsigned)count;
}

static int instances_of(int gpu) {
    char name[32];
    snprintf(name, sizeof name, "%d", gpu);
    double count = setting("mig", name, -1);
    return count > MOST_INSTANCES ? MOST_INSTANCES : (int)count;
}

static Result check(const Device *d) {
    if (!initialized) return UNINITIALIZED;
    if (!d) return INVALID;
    return of_device("lost", &wholes[d->gpu], 0) ? LOST : SUCCESS;
}

static Result put(char *out, unsigned size, const char *text) {
    if (size <= strlen(text)) return TOO_SMALL;
    strcpy(out, text);
    return SUCCESS;
}

static int is_running(int pid) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int read = fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return read == 1 && state != 'Z' && state != 'X';
}

/* What processes hold on a device: their number, and up to `room` of them. An instance's memory is its GPU's as well. */
static unsigned claims(const Device *d, Process *out, unsigned room, unsigned long long *bytes) {
    const char *folder = getenv("FAKE_NVML_DIR");
    char path[4096], wanted[32], named[32];
    unsigned count = 0;
    *bytes = 0;
    name_of(d, wanted, sizeof wanted);
    snprintf(path, sizeof path, "%s/claims", folder ? folder : "");
    DIR *listing = opendir(path);
    if (!listing) return 0;
    int keep = setting("keep", "-", 0) != 0;
    for (struct dirent *entry; (entry = readdir(listing));) {
        int pid;
        double mib = 0;
        if (sscanf(entry->d_name, "%31[0-9.]-%d", named, &pid) != 2) continue;
        size_t length = strlen(wanted);
        if (strncmp(named, wanted, length) || (named[length] && (named[length] != '.' || d->instance >= 0))) continue;
        if (!keep && !is_running(pid)) continue;
        char claim[8192];
        snprintf(claim, sizeof claim, "%s/%s", path, entry->d_name);
        FILE *file = fopen(claim, "r");
        if (!file) continue;
        if (fscanf(file, "%lf", &mib) != 1) mib = 0;
        fclose(file);
        unsigned long long held = (unsigned long long)mib << 20;
        if (out && count < room) out[count] = (Process){(unsigned)pid, held, 0xFFFFFFFF, 0xFFFFFFFF};
        *bytes += held;
        count++;
    }
    closedir(listing);
    return count;
}

Result nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!getenv("FAKE_NVML_DIR")) return NO_LIBRARY;
    Result result = (Result)setting("init", "-", SUCCESS);
    if (result != SUCCESS) return result;
    initialized++;
    for (int gpu = 0; gpu < MOST_GPUS; gpu++) {
        wholes[gpu] = (Device){gpu, -1};
        for (int part = 0; part < MOST_INSTANCES; part++) parts[gpu][part] = (Device){gpu, part};
    }
    return SUCCESS;
}
Result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
Result nvmlShutdown(void) { return initialized ? (initialized--, SUCCESS) : UNINITIALIZED; }

const char *nvmlErrorString(Result result) {
    switch (result) {
    case SUCCESS: return "Success";
    case NO_DRIVER: return "Driver Not Loaded";
    case NO_LIBRARY: return "NVML Shared Library Not Found";
    case LOST: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}
Result nvmlSystemGetDriverVersion(char *out, unsigned size) { return put(out, size, "999.99"); }

Result nvmlDeviceGetCount_v2(unsigned *count) { *count = gpu_count(); return initialized ? SUCCESS : UNINITIALIZED; }
Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
    if (!initialized) return UNINITIALIZED;
    if (index >= gpu_count()) return INVALID;
    *out = &wholes[index];
    return check(*out);
}
static void uuid_of(const Device *d, char *out, size_t size) {
    if (d->instance < 0) snprintf(out, size, "GPU-%04x5e1f-0000-4000-8000-%012d", 0xa000 + d->gpu, d->gpu);
    else snprintf(out, size, "MIG-%02x%02x5e1f-0000-5000-8000-%012d", d->gpu, d->instance, d->instance);
}
Result nvmlDeviceGetUUID(const Device *d, char *out, unsigned size) {
    Result result = check(d);
    char uuid[96];
    if (result) return result;
    uuid_of(d, uuid, sizeof uuid);
    return put(out, size, uuid);
}
Result nvmlDeviceGetHandleByUUID(const char *uuid, Device **out) {
    char own[96];
    if (!initialized) return UNINITIALIZED;
    for (int gpu = 0; gpu < (int)gpu_count(); gpu++)
        for (int part = -1; part < 0 || part < instances_of(gpu); part++) {
            *out = part < 0 ? &wholes[gpu] : &parts[gpu][part];
            uuid_of(*out, own, sizeof own);
            if (!strcmp(own, uuid)) return check(*out);
        }
    return NOT_FOUND;
}
Result nvmlDeviceGetName(const Device *d, char *out, unsigned size) {
    Result result = check(d);
    if (result) return result;
    return put(out, size, d->instance < 0 ? "Fake A100-SXM4-40GB" : "Fake A100-SXM4-40GB MIG 1g.5gb");
}
Result nvmlDeviceGetIndex(const Device *d, unsigned *index) { Result r = check(d); if (!r) *index = d->gpu; return r; }

Result nvmlDeviceGetMemoryInfo(const Device *d, Memory *out) {
    Result result = check(d);
    if (result) return result;
    unsigned long long claimed;
    claims(d, NULL, 0, &claimed);
    out->total = (unsigned long long)of_device("total", d, d->instance < 0 ? 40960 : 4864) << 20;
    out->used = ((unsigned long long)of_device("used", d, 0) << 20) + claimed;
    if (out->used > out->total) out->used = out->total;
    out->free = out->total - out->used;
    return SUCCESS;
}
Result nvmlDeviceGetUtilizationRates(const Device *d, Utilization *out) {
    Result result = check(d);
    if (result) return result;
    if (d->instance >= 0) return UNSUPPORTED;
    out->gpu = (unsigned)of_device("util", d, 0);
    out->memory = out->gpu / 2;
    return SUCCESS;
}
Result nvmlDeviceGetTemperature(const Device *d, int sensor, unsigned *out) {
    Result result = check(d);
    (void)sensor;
    if (!result) *out = (unsigned)of_device("temp", d, 40);
    return result;
}
Result nvmlDeviceGetPowerUsage(const Device *d, unsigned *out) {
    Result result = check(d);
    if (!result) *out = (unsigned)of_device("power", d, 60000);
    return result;
}
Result nvmlDeviceGetPciInfo_v3(const Device *d, Pci *out) {
    Result result = check(d);
    if (result) return result;
    memset(out, 0, sizeof *out);
    out->bus = (unsigned)d->gpu + 0x3a;
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus & 0xff);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus & 0xff);
    return SUCCESS;
}
Result nvmlDeviceGetComputeRunningProcesses_v3(const Device *d, unsigned *count, Process *out) {
    Result result = check(d);
    unsigned long long bytes;
    if (result) return result;
    unsigned room = *count;
    *count = claims(d, out, room, &bytes);
    return *count > room ? TOO_SMALL : SUCCESS;
}

Result nvmlDeviceGetMigMode(const Device *d, unsigned *current, unsigned *pending) {
    Result result = check(d);
    if (result) return result;
    if (d->instance >= 0) return UNSUPPORTED;
    *current = *pending = instances_of(d->gpu) < 0 ? MIG_OFF : MIG_ON;
    return SUCCESS;
}
Result nvmlDeviceGetMaxMigDeviceCount(const Device *d, unsigned *count) { *count = MOST_INSTANCES; return check(d); }
Result nvmlDeviceGetMigDeviceHandleByIndex(const Device *d, unsigned index, Device **out) {
    Result result = check(d);
    if (result) return result;
    if ((int)index >= instances_of(d->gpu)) return NOT_FOUND;
    *out = &parts[d->gpu][index];
    return SUCCESS;
}
Result nvmlDeviceGetGpuInstanceId(const Device *d, unsigned *id) {
    Result result = check(d);
    if (!result) *id = 7 + d->instance;
    return d && d->instance < 0 ? INVALID : result;
}
Result nvmlDeviceGetComputeInstanceId(const Device *d, unsigned *id) {
    Result result = check(d);
    if (!result) *id = 0;
    return d && d->instance < 0 ? INVALID : result;
}
