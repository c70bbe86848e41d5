/* POSIX as C programs use it: threads and their locks, signals and timers, processes, shared memory, semaphores, queues of messages. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER;
static int turns, total;

static void *take_turns(void *mine) {
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&lock);
        while (turns % 4 != (int)(long)mine) pthread_cond_wait(&changed, &lock);
        turns++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        pthread_rwlock_rdlock(&readers);
        __atomic_add_fetch(&total, 1, __ATOMIC_RELAXED);
        pthread_rwlock_unlock(&readers);
    }
    return mine;
}

static void threads(void) {
    pthread_t all[4];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 * 1024);
    for (long i = 0; i < 4; i++) assert(pthread_create(&all[i], &small, take_turns, (void *)i) == 0);
    pthread_setname_np(all[0], "taker");
    for (long i = 0; i < 4; i++) {
        void *back;
        assert(pthread_join(all[i], &back) == 0 && back == (void *)i);
    }
    assert(turns == 200 && total == 200);
}

static volatile sig_atomic_t alarms, told;
static sigjmp_buf out;

static void handle(int number, siginfo_t *info, void *context) {
    (void)context;
    if (number == SIGSEGV) siglongjmp(out, 1);
    if (number == SIGALRM) alarms++;
    if (number == SIGRTMIN) told += info->si_value.sival_int;
}

static void signals(void) {
    stack_t aside = {.ss_sp = malloc(65536), .ss_size = 65536};
    assert(sigaltstack(&aside, NULL) == 0);
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    for (int i = 0; i < 3; i++) sigaction((int[]){SIGSEGV, SIGALRM, SIGRTMIN}[i], &action, NULL);
    volatile int *nowhere = NULL;
    if (sigsetjmp(out, 1) == 0) *nowhere = 1;
    else told = 100;
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 11});
    assert(told == 111);

    struct itimerval often = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &often, NULL);
    while (alarms < 5) pause();
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    assert(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    int before = alarms;
    timer_settime(timer, 0, &(struct itimerspec){{0, 0}, {0, 1000000}}, NULL);
    while (alarms == before) usleep(500);
    timer_delete(timer);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, 5000000}, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert((end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec >= 5000000);
}

static void processes(void) {
    int pipes[2], status;
    assert(pipe(pipes) == 0);
    for (int i = 0; i < 20; i++)
        if (fork() == 0) _exit(i);
    int sum = 0;
    while (wait(&status) > 0) sum += WEXITSTATUS(status);
    assert(sum == 190 && errno == ECHILD);
    pid_t child = vfork();
    if (child == 0) {
        dup2(pipes[1], 1);
        execlp("echo", "echo", "child", NULL);
        _exit(127);
    }
    siginfo_t info;
    assert(waitid(P_PID, child, &info, WEXITED) == 0 && info.si_status == 0);
    char text[16] = "";
    assert(read(pipes[0], text, sizeof text) == 6 && !strcmp(text, "child\n"));
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    assert(setrlimit(RLIMIT_NOFILE, &limit) == 0 && nice(1) != -1);
    cpu_set_t set;
    assert(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 1 && sched_setaffinity(0, sizeof set, &set) == 0);
    assert(sched_yield() == 0 && sysconf(_SC_NPROCESSORS_ONLN) >= 1);
}

static void sharing(void) {
    int *numbers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int shared = shm_open("/ordinary", O_CREAT | O_RDWR, 0600);
    assert(shared >= 0 && ftruncate(shared, 4096) == 0 && shm_unlink("/ordinary") == 0);
    sem_t *semaphore = sem_open("/ordinary", O_CREAT, 0600, 0);
    int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600), sems = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
    int messages = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    assert(semaphore != SEM_FAILED && segment >= 0 && sems >= 0 && messages >= 0);
    int *attached = shmat(segment, NULL, 0);
    struct { long type; char text[8]; } message = {1, "hello"};
    if (fork() == 0) {
        numbers[0] = attached[0] = 7;
        msgsnd(messages, &message, sizeof message.text, 0);
        semop(sems, &(struct sembuf){0, 1, 0}, 1);
        sem_post(semaphore);
        _exit(0);
    }
    assert(sem_wait(semaphore) == 0 && semop(sems, &(struct sembuf){0, -1, 0}, 1) == 0);
    assert(numbers[0] == 7 && attached[0] == 7);
    assert(msgrcv(messages, &message, sizeof message.text, 1, 0) == sizeof message.text);
    wait(NULL);
    sem_unlink("/ordinary");
    shmctl(segment, IPC_RMID, NULL);
    semctl(sems, 0, IPC_RMID);
    msgctl(messages, IPC_RMID, NULL);
}

int main(void) {
    threads();
    signals();
    processes();
    sharing();
    puts("done");
}
