/* Near-miss of oversubscribed and barrier-waits: a server with 24 threads on two cores, but 23 are sessions that wait for
   a message all the time, as sessions do; one computes and wakes one of them once in a while. Fewer threads would bring
   nothing. */
#include "finding.h"

enum { SESSIONS = 23 };

struct session { pthread_mutex_t lock; pthread_cond_t arrived; int messages, closed; long handled; };

static void *serve(void *argument) {
    struct session *s = argument;
    pthread_mutex_lock(&s->lock);
    while (!s->closed) {
        while (s->messages > 0) {
            s->messages--;
            s->handled++;
        }
        pthread_cond_wait(&s->arrived, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void tell(struct session *s, int messages, int closed) {
    pthread_mutex_lock(&s->lock);
    s->messages += messages;
    s->closed = closed;
    pthread_cond_signal(&s->arrived);
    pthread_mutex_unlock(&s->lock);
}

int main(int argc, char **argv) {
    double limit = limit_of(argc, argv);
    static struct session sessions[SESSIONS];
    pthread_t threads[SESSIONS];
    for (int t = 0; t < SESSIONS; t++) {
        pthread_mutex_init(&sessions[t].lock, NULL);
        pthread_cond_init(&sessions[t].arrived, NULL);
        if (pthread_create(&threads[t], NULL, serve, &sessions[t])) return 2;
    }
    long rounds = 0;
    for (; seconds() < limit; rounds++) {
        compute_for(0.02);
        tell(&sessions[rounds % SESSIONS], 1, 0);
    }
    for (int t = 0; t < SESSIONS; t++) {
        tell(&sessions[t], 0, 1);
        pthread_join(threads[t], NULL);
    }
    printf("%ld rounds\n", rounds);
    return 0;
}
