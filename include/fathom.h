/* Marks regions and moments of a program for Fathom, the memory profiler. Header only: nothing to link.
 *
 *   fathom_begin("solve");  ...  fathom_end();     a region: how often, how long, what in it
 *   fathom_mark("second phase");                   a moment on the timeline
 *   fathom_pause();  ...  fathom_resume();         nothing in between is observed (see also --start-paused)
 *
 * In C++ also: { fathom::region here("solve"); ... }
 *
 * Regions nest, per thread; fathom_end() ends the one that this thread began last. Names are texts of your choice, the fewer
 * the better: 255 different ones have room. Not for signal handlers.
 *
 * Without Fathom a call is a load and a branch. Under Fathom the first call loads a library of it, which the variable
 * FATHOM_REGIONS names; begin and end then take some 50 ns each, a mark or a pause some 50 microseconds. Where there is no
 * dlopen (static programs, old C libraries without -ldl) calls do nothing. -DFATHOM_DISABLE removes them.
 *
 * Licence: MIT or Apache-2.0, as Fathom. */
#ifndef FATHOM_H
#define FATHOM_H

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && defined(__GNUC__) && !defined(FATHOM_DISABLE)

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/auxv.h>

/* A program that does not link them gets null. */
#pragma weak dlopen
#pragma weak dlsym

#ifdef __cplusplus
extern "C" {
#endif

struct fathom_hooks_1 {
    int state; /* 0: not looked for yet, 1: there, -1: not there */
    void (*begin)(const char *);
    void (*end)(void);
    void (*mark)(const char *);
    void (*pause)(void);
    void (*resume)(void);
};

/* One for all files of a program or library. */
__attribute__((weak, visibility("hidden"))) struct fathom_hooks_1 fathom_hooks_1;

__attribute__((unused, noinline, cold)) static int fathom_find(void)
{
    struct fathom_hooks_1 *hooks = &fathom_hooks_1;
    /* A static program has no loader (AT_BASE): what it has of dlopen is not safe to use. */
    int is_able = getauxval(AT_BASE) != 0 && !getauxval(AT_SECURE);
    const char *path = is_able ? getenv("FATHOM_REGIONS") : NULL;
    void *library = path && *path && dlopen && dlsym ? dlopen(path, RTLD_NOW) : NULL;
    int found = 0;
    if (library) {
        /* Through void **: ISO C knows no conversion of an object's address into a function's. */
        *(void **)&hooks->begin = dlsym(library, "fathom_hook_begin");
        *(void **)&hooks->end = dlsym(library, "fathom_hook_end");
        *(void **)&hooks->mark = dlsym(library, "fathom_hook_mark");
        *(void **)&hooks->pause = dlsym(library, "fathom_hook_pause");
        *(void **)&hooks->resume = dlsym(library, "fathom_hook_resume");
        found = hooks->begin && hooks->end && hooks->mark && hooks->pause && hooks->resume;
    }
    /* Threads that come at once find the same. */
    __atomic_store_n(&hooks->state, found ? 1 : -1, __ATOMIC_RELEASE);
    return found;
}

__attribute__((unused)) static inline int fathom_is_there(void)
{
    int state = __atomic_load_n(&fathom_hooks_1.state, __ATOMIC_ACQUIRE);
    return state ? state > 0 : fathom_find();
}

__attribute__((unused)) static inline void fathom_begin(const char *name)
{
    if (fathom_is_there())
        fathom_hooks_1.begin(name);
}

__attribute__((unused)) static inline void fathom_end(void)
{
    if (fathom_is_there())
        fathom_hooks_1.end();
}

__attribute__((unused)) static inline void fathom_mark(const char *name)
{
    if (fathom_is_there())
        fathom_hooks_1.mark(name);
}

__attribute__((unused)) static inline void fathom_pause(void)
{
    if (fathom_is_there())
        fathom_hooks_1.pause();
}

__attribute__((unused)) static inline void fathom_resume(void)
{
    if (fathom_is_there())
        fathom_hooks_1.resume();
}

#ifdef __cplusplus
}
#endif

#else

#define fathom_begin(name) ((void)(name))
#define fathom_end() ((void)0)
#define fathom_mark(name) ((void)(name))
#define fathom_pause() ((void)0)
#define fathom_resume() ((void)0)

#endif

#ifdef __cplusplus
namespace fathom {
/* A region that ends with its block. */
struct region {
    explicit region(const char *name) { fathom_begin(name); }
    ~region() { fathom_end(); }
    region(const region &) = delete;
    region &operator=(const region &) = delete;
};
} // namespace fathom
#endif

#endif
