/* Objects of a pool of libpmemobj: of one that is created, and of one that is opened again. persistent_objects POOL
   A root object of 64 bytes, an array of 800,000 bytes that is allocated, one of 400,000 that is reserved and published; in the pool
   that exists, these are there, and one of 200,000 is reserved and cancelled. */
#include <libpmemobj.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct root {
    PMEMoid array, more;
    char rest[32];
};

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, pmemobj_errormsg());
    _exit(1);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int exists = access(argv[1], F_OK) == 0;
    PMEMobjpool *pool = exists ? pmemobj_open(argv[1], "objects") : pmemobj_create(argv[1], "objects", 64 << 20, 0600);
    if (pool == NULL) fail(argv[1]);
    struct root *root = pmemobj_direct(pmemobj_root(pool, sizeof *root));
    struct pobj_action action;
    if (exists) {
        PMEMoid other = pmemobj_reserve(pool, &action, 200000, 3);
        if (OID_IS_NULL(other)) fail("reserve");
        pmemobj_cancel(pool, &action, 1);
    } else {
        if (pmemobj_alloc(pool, &root->array, 800000, 1, NULL, NULL) != 0) fail("alloc");
        root->more = pmemobj_reserve(pool, &action, 400000, 2);
        if (OID_IS_NULL(root->more) || pmemobj_publish(pool, &action, 1) != 0) fail("reserve");
        pmemobj_persist(pool, root, sizeof *root);
    }
    memset(pmemobj_direct(root->array), 1, 800000);
    memset(pmemobj_direct(root->more), 2, 400000);
    pmemobj_persist(pool, pmemobj_direct(root->array), 800000);
    pmemobj_close(pool);
}
