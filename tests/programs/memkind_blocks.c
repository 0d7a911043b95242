/* Blocks of libmemkind on a file: 100 of 40,000 bytes, 50 of them freed, one of 300,000 that becomes 600,000. memkind_blocks FOLDER */
#include <memkind.h>
#include <string.h>

int main(int argc, char **argv) {
    memkind_t kind;
    if (argc != 2 || memkind_create_pmem(argv[1], 0, &kind) != 0) return 2;
    void *blocks[100];
    for (int i = 0; i < 100; i++) {
        blocks[i] = memkind_malloc(kind, 40000);
        if (blocks[i] == NULL) return 1;
        memset(blocks[i], i, 40000);
    }
    for (int i = 0; i < 100; i += 2) memkind_free(kind, blocks[i]);
    char *large = memkind_calloc(kind, 3, 100000);
    large = memkind_realloc(kind, large, 600000);
    if (large == NULL) return 1;
    memset(large, 1, 600000);
    memkind_free(kind, large);
}
