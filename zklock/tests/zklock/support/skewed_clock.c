// A library for LD_PRELOAD: the wall clock of the process is wrong by the seconds in SKEW. Other clocks are right.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int (*right)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = right(clock, time);
    const char *skew = getenv("SKEW");
    if (result == 0 && clock == CLOCK_REALTIME && skew) {
        time->tv_sec += atol(skew);
    }
    return result;
}
