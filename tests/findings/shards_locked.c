/* Near-miss of lock-contention: two threads take and give back locks all the time, but each of a shard that only it uses;
   no lock is ever found taken. Beside the lock a request hashes some two hundred bytes. */
#include "finding.h"

enum { SLOTS = 1024, KEY = 192 };

struct shard { pthread_mutex_t lock; uint64_t slots[SLOTS]; char after[128]; };
struct client { struct shard *shard; double limit; uint8_t key[KEY]; long requests; char after[128]; };

static struct shard shards[2] __attribute__((aligned(128)));
static struct client clients[2] __attribute__((aligned(128)));

static uint64_t hash_of(const uint8_t *key) {
    uint64_t hash = 14695981039346656037ull;
    for (int i = 0; i < KEY; i++) hash = (hash ^ key[i]) * 1099511628211ull;
    return hash;
}

static void *ask(void *argument) {
    struct client *client = argument;
    while (seconds() < client->limit) {
        for (int i = 0; i < 1000; i++) {
            client->key[i % KEY]++;
            uint64_t hash = hash_of(client->key);
            pthread_mutex_lock(&client->shard->lock);
            client->shard->slots[hash % SLOTS] += hash;
            pthread_mutex_unlock(&client->shard->lock);
        }
        client->requests++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    pthread_t threads[2];
    for (int t = 0; t < 2; t++) {
        pthread_mutex_init(&shards[t].lock, NULL);
        clients[t].shard = &shards[t];
        clients[t].limit = limit;
        if (pthread_create(&threads[t], NULL, ask, &clients[t])) return 2;
    }
    for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    printf("%ld rounds\n", clients[0].requests + clients[1].requests);
    return 0;
}
