/* A clock that is set back all the time: CLOCK_REALTIME goes a second back in every second; other clocks are right.
   Preloaded (LD_PRELOAD), it stands for a machine whose clock is set while programs run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static struct timespec began, began_monotonic;

static int real(clockid_t clock, struct timespec *now) {
    static int (*call)(clockid_t, struct timespec *);
    if (!call)
        call = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return call(clock, now);
}

__attribute__((constructor)) static void begin(void) {
    real(CLOCK_REALTIME, &began);
    real(CLOCK_MONOTONIC, &began_monotonic);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (clock != CLOCK_REALTIME)
        return real(clock, now);
    struct timespec monotonic;
    real(CLOCK_MONOTONIC, &monotonic);
    now->tv_sec = began.tv_sec - (monotonic.tv_sec - began_monotonic.tv_sec);
    now->tv_nsec = began.tv_nsec - (monotonic.tv_nsec - began_monotonic.tv_nsec);
    for (; now->tv_nsec < 0; now->tv_nsec += 1000000000)
        now->tv_sec--;
    for (; now->tv_nsec >= 1000000000; now->tv_nsec -= 1000000000)
        now->tv_sec++;
    return 0;
}
