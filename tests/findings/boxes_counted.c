/* The heart of an interpreter with counted references: each number is a box on the heap, and `[x * a + b for x in
   list]` makes two new boxes per element and lets go of two. 20,000 elements. Cause: malloc and free. FIXED keeps
   boxes that are let go in a list of its own. Measured: 3.4 to 6 times the speed (median 4). */
#include "finding.h"

struct type;
struct box {
    const struct type *type;
    long references;
    double value;
};
struct type {
    const char *name;
    struct box *(*add)(struct box *, struct box *), *(*multiply)(struct box *, struct box *);
    void (*destroy)(struct box *);
};

static const struct type Number;
#ifdef FIXED
static struct box *spare;
#endif

static struct box *number(double value) {
    struct box *box;
#ifdef FIXED
    if (spare != NULL) box = spare, spare = (struct box *)(void *)box->type;
    else
#endif
        box = malloc(sizeof *box);
    if (box == NULL) exit(2);
    *box = (struct box){&Number, 1, value};
    return box;
}
static void let_go(struct box *box) {
    if (--box->references == 0) box->type->destroy(box);
}
static struct box *add(struct box *a, struct box *b) { return number(a->value + b->value); }
static struct box *multiply(struct box *a, struct box *b) { return number(a->value * b->value); }
static void destroy(struct box *box) {
#ifdef FIXED
    box->type = (const struct type *)(void *)spare, spare = box;
#else
    free(box);
#endif
}
static const struct type Number = {"number", add, multiply, destroy};

int main(int argc, char **argv) {
    double until = limit_of(argc, argv), made = 0;
    enum { Size = 20000 };
    static struct box *list[Size], *result[Size];
    struct box *a = number(.999), *b = number(.25);
    for (int i = 0; i < Size; i++) list[i] = number(i);
    for (; seconds() < until; made += Size) {
        for (int i = 0; i < Size; i++) {
            struct box *product = list[i]->type->multiply(list[i], a);
            result[i] = product->type->add(product, b);
            let_go(product);
        }
        for (int i = 0; i < Size; i++) let_go(list[i]), list[i] = result[i];
    }
    keep(list[7]->value);
    printf("%.1f million elements/s\n", made / 1e6 / until);
}
