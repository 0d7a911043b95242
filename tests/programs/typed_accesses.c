// What types say about memory accesses: each line that is marked touches the members that its mark names, and whatever
// local variables it uses. The marks are the known answer: `type: T.FIELD ...` lists all that may be said of memory of the
// line; `local NAME: T` what a variable of that name is, on any line.
// Prints a checksum, so that nothing is optimised away. What not: speed.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// local list: node*
// local one: node*
// local next: node*
// local sum: long int
// local i: int
// local j: int
// local count: int
// local count: long int
// local left: tree*
// local root: tree*
// local all: particle*
// local last: particle*
// local a: double*
// local b: double*
// local g: grid*
// local p: packet*
// local f: flags*
// local m: mixed*
// local bytes: unsigned char*
// local t: text*
// local key: int
// local depth: int
// local total: double
// local matrix: double[]*
// local n: int
// local where: node**
// local table: table*
// local operation: int
// local counters: counters
// local second: counters*
// local value: long int
// local result: long int
// local from: particle*
// local to: particle*
// local size: int
// local local_array: int
// local s: state*
// local steps: int

struct node {
    long value;
    struct node *next;
    char pad[48];
};
typedef struct node node_t;

struct tree {
    int key;
    struct tree *children[2];
};

struct vec3 {
    double x, y, z;
};

typedef struct {
    struct vec3 position;
    struct vec3 velocity;
} particle;

struct grid {
    int rows;
    struct vec3 cells[16];
    double weights_sum;
};

struct packet {
    int kind;
    union {
        long number;
        struct {
            int low, high;
        };
        double real;
    };
};

struct flags {
    unsigned first : 3;
    unsigned second : 7;
    unsigned whole;
};

struct mixed {
    char tag;
    short small;
    float ratio;
    node_t *owner;
    node_t inner;
};

struct text {
    int length;
    int letters[];
};

struct counters {
    long reads, writes;
};

struct table {
    struct node **slots;
    int size;
};

struct state {
    int mode;
    long ticks;
    struct node *current;
};

static struct counters statistics;
static double weights[1000];
static particle cloud[64];
static int histogram[7];
struct state machine;

#define APART __attribute__((noinline, noclone))

APART static struct node *make_list(int count)
{
    struct node *list = 0;
    for (int i = 0; i < count; i++) {
        struct node *one = calloc(1, sizeof *one);
        one->value = i;                          // type: node.value
        one->next = list;                        // type: node.next
        list = one;
    }
    return list;
}

APART static long sum_list(const struct node *list)
{
    long sum = 0;
    while (list) {
        sum += list->value;                      // type: node.value
        list = list->next;                       // type: node.next
    }
    return sum;
}

APART static struct node *find(struct node *list, long value)
{
    while (list && list->value != value)         // type: node.value
        list = list->next;                       // type: node.next
    return list;
}

APART static long second_of(struct node *list)
{
    return find(list, 3)->next->value;           // type: node.next node.value
}

APART static long sum_tree(const struct tree *root, int depth)
{
    if (!root)
        return 0;
    long sum = root->key * depth;                // type: tree.key
    sum += sum_tree(root->children[0], depth + 1); // type: tree.children[]
    sum += sum_tree(root->children[1], depth + 1); // type: tree.children[]
    return sum;
}

APART static struct tree *make_tree(int depth)
{
    struct tree *root = calloc(1, sizeof *root);
    root->key = depth;                           // type: tree.key
    if (depth > 0)
        for (int i = 0; i < 2; i++)
            root->children[i] = make_tree(depth - 1); // type: tree.children[]
    return root;
}

APART static void move_all(particle *all, int count)
{
    for (int i = 0; i < count; i++) {
        all[i].position.x += all[i].velocity.x;  // type: particle.position.x particle.velocity.x particle particle.velocity.y|z particle.position.x|y
        all[i].position.y += all[i].velocity.y;  // type: particle.position.y particle.velocity.y particle particle.velocity.y|z particle.position.x|y
    }
}

APART static double height(const particle *all, const particle *last)
{
    double total = 0;
    for (; all != last; all++)
        total += all->position.z;                // type: particle.position.z
    return total;
}

APART static void copy_one(particle *to, const particle *from)
{
    // The compiler copies it in pieces of two members.
    *to = *from;                                 // type: particle particle.position.x|y particle.position particle.position.x particle.position.y particle.position.z particle.velocity.x particle.velocity.y particle.velocity.z particle.position.z|velocity.x particle.velocity.y|z particle.position|velocity
}

APART static double cell(const struct grid *g, int i)
{
    return g->cells[i].y + g->weights_sum + g->rows; // type: grid.cells[].y grid.weights_sum grid.rows
}

APART static double fixed_cell(const struct grid *g)
{
    return g->cells[3].z;                        // type: grid.cells[].z
}

APART static long unpack(const struct packet *p)
{
    switch (p->kind) {                           // type: packet.kind
    case 0: return p->number;                    // type: packet.number|real
    case 1: return p->high;                      // type: packet.number|high|real
    default: return (long)p->real;               // type: packet.number|real
    }
}

APART static unsigned flag(struct flags *f)
{
    f->whole++;                                  // type: flags.whole
    return f->second;                            // type: flags.first|second flags.second
}

APART static float mix(struct mixed *m)
{
    m->small++;                                  // type: mixed.small
    m->tag = 'x';                                // type: mixed.tag
    m->owner->value++;                           // type: mixed.owner node.value
    return m->ratio + m->inner.value;            // type: mixed.ratio mixed.inner.value
}

APART static long letters(const struct text *t)
{
    long sum = 0;
    for (int i = 0; i < t->length; i++)          // type: text.length
        sum += t->letters[i];                    // type: text.letters[]
    return sum;
}

APART static double dot(const double *a, const double *b, int count)
{
    double total = 0;
    for (int i = 0; i < count; i++)
        total += a[i] * b[i];                    // type: double
    return total;
}

APART static double trace(double matrix[][8], int n)
{
    double total = 0;
    for (int i = 0; i < n; i++)
        total += matrix[i][i];                   // type: double
    return total;
}

APART static void count_up(int i)
{
    statistics.reads++;                          // type: counters.reads counters
    statistics.writes += i;                      // type: counters.writes counters
    weights[i] += 1.5;                           // type: double
    histogram[i % 7]++;                          // type: int
    cloud[i].velocity.z = i;                     // type: particle.velocity.z
}

APART static long on_stack(int i)
{
    struct counters counters = { i, 2 };         // type: counters.reads counters.writes counters counters.reads|writes
    struct counters *volatile second = &counters;
    second->writes += i;                         // type: counters.writes
    return counters.reads + counters.writes;     // type: counters.reads counters.writes
}

APART static int local_sum(int n)
{
    volatile int local_array[16];
    int count = 0;
    for (int i = 0; i < 16; i++)
        local_array[i] = n;                      // type: int
    for (int i = 0; i < 16; i++)
        count += local_array[i];                 // type: int
    return count;
}

APART static void append(struct node **where, struct node *one)
{
    while (*where)                               // type: node* node.next
        where = &(*where)->next;                 // type: node.next node*
    *where = one;                                // type: node* node.next
}

APART static long slots(const struct table *table)
{
    long sum = 0;
    for (int i = 0; i < table->size; i++)        // type: table.size table.slots
        sum += table->slots[i]->value;           // type: table.slots node.value node*
    return sum;
}

APART static long interpret(struct state *s, int steps)
{
    for (int i = 0; i < steps; i++) {
        switch (s->mode) {                       // type: state.mode state.current
        case 0: s->ticks += 1; s->mode = 3; break; // type: state.ticks state.mode
        case 1: s->ticks += 2; s->mode = 5; break; // type: state.ticks state.mode
        case 2: s->ticks *= 3; s->mode = 1; break; // type: state.ticks state.mode
        case 3: s->current->value++; s->mode = 4; break; // type: state.current node.value state.mode
        case 4: s->ticks ^= s->current->value; s->mode = 6; break; // type: state.ticks state.current node.value state.mode
        case 5: s->current = s->current->next; s->mode = 0; break; // type: state.current node.next state.mode
        case 6: s->ticks -= 7; s->mode = 2; break; // type: state.ticks state.mode
        }
    }
    return s->ticks;                             // type: state.ticks
}

// A buffer that is read as something else: no type can be right, so none may be told.
APART static long punned(unsigned char *bytes)
{
    long value;
    memcpy(&value, bytes + 16, sizeof value);     // type:
    return value + ((struct node *)bytes)->value; // type: node.value
}

// end of marks
int main(void)
{
    struct node *list = make_list(10);
    struct node *end = make_list(2);
    append(&list, end);
    long result = sum_list(list) + second_of(list);
    result += sum_tree(make_tree(4), 1);
    move_all(cloud, 64);
    copy_one(&cloud[1], &cloud[2]);
    struct grid *g = calloc(1, sizeof *g);
    struct packet packet = { 1, { 5 } };
    struct flags flags = { 1, 2, 3 };
    struct mixed mixed = { .owner = list };
    struct text *text = calloc(1, sizeof *text + 10 * sizeof(int));
    text->length = 10;
    struct table table = { &list, 1 };
    double matrix[8][8] = { { 1 } };
    for (int i = 0; i < 7; i++)
        count_up(i);
    machine.current = list;
    machine.mode = 3;
    result += (long)(height(cloud, cloud + 64) + cell(g, 2) + fixed_cell(g) + unpack(&packet));
    result += flag(&flags) + (long)mix(&mixed) + letters(text) + on_stack(3) + local_sum(4);
    result += (long)(dot(weights, weights + 500, 500) + trace(matrix, 8)) + slots(&table);
    result += interpret(&machine, 9) + punned((unsigned char *)list);
    printf("%ld\n", result);
    return 0;
}
