/*
 * Loads, calls and unloads two libraries of the same layout in turn: the second often comes to lie where the first
 * was, with other code at the same addresses.
 */
#include "checked.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    long rounds = checked_rounds(argc, argv, 2000);
    uint64_t sum = 1;
    for (long round = 0; round < rounds; round++) {
        void *library = dlopen(round % 2 ? "loop_library_b.so" : "loop_library_a.so", RTLD_NOW);
        uint64_t (*work)(uint64_t) = NULL;
        if (library)
            *(void **)&work = dlsym(library, "library_work");
        if (!work) {
            fprintf(stderr, "cannot load the library: %s\n", dlerror());
            return 1;
        }
        sum = work(sum);
        dlclose(library);
    }
    return checked_end(sum, 1);
}
