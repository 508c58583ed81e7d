/* Keeps signals ignored for the command that were ignored when zklock started.

   Rust's runtime ignores SIGPIPE before main, whatever it was before. zklock handles other signals, which an exec then
   sets to their default. So this constructor, which runs before the runtime, notes the ignored signals in a variable.
   The supervisor and the last stage before the command inherit the variable, and the constructor ignores the signals
   again there. The last stage removes the variable. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define VARIABLE "LOCK_SUPERVISOR_IGNORED"
#define LAST 64

__attribute__((constructor)) static void keep_ignored_signals(void)
{
    const char *noted = getenv(VARIABLE);
    unsigned long long mask = noted ? strtoull(noted, NULL, 16) : 0;
    struct sigaction action;
    char text[17];

    for (int number = 1; number <= LAST; number++) {
        unsigned long long bit = 1ULL << (number - 1);
        if (noted && (mask & bit))
            signal(number, SIG_IGN);
        if (!noted && sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            mask |= bit;
    }
    if (!noted && mask) {
        snprintf(text, sizeof text, "%llx", mask);
        setenv(VARIABLE, text, 1);
    }
}
