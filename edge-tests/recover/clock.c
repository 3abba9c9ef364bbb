/*
 * Preloaded into a process, moves its wall clock while it runs: the file CLOCK_OFFSET_FILE holds the offset as a 64-bit
 * count of nanoseconds. The monotonic clock, and with it every timeout, stays as it is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NANOSECONDS 1000000000LL

static const volatile int64_t unmoved = 0;
static const volatile int64_t *offset_ns = &unmoved;

__attribute__((constructor)) static void map_offset(void)
{
  const char *path = getenv("CLOCK_OFFSET_FILE");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return;
  void *mapped = mmap(NULL, sizeof *offset_ns, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED)
    offset_ns = mapped;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
  /* Not the C library's function, which this one hides. */
  if (syscall(SYS_clock_gettime, clock, now) != 0)
    return -1;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
    int64_t moved_ns = now->tv_sec * NANOSECONDS + now->tv_nsec + *offset_ns;
    now->tv_sec = moved_ns / NANOSECONDS;
    now->tv_nsec = moved_ns % NANOSECONDS;
  }
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
  struct timespec precise;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &precise) != 0)
    return -1;
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds)
{
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0)
    return (time_t)-1;
  if (seconds != NULL)
    *seconds = now.tv_sec;
  return now.tv_sec;
}
