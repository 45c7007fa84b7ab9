/* The floor of P7: looks at every entry below a folder, and does nothing else. Prints how many there are. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static long entries;
static char path[65536];

static void walk(size_t length) {
  DIR *folder = opendir(path);
  struct dirent *entry;
  struct stat facts;
  if (!folder) return;
  path[length] = '/';
  while ((entry = readdir(folder))) {
    size_t size = strlen(entry->d_name);
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    memcpy(path + length + 1, entry->d_name, size + 1);
    if (lstat(path, &facts)) continue;
    entries++;
    if (S_ISDIR(facts.st_mode)) walk(length + 1 + size);
  }
  closedir(folder);
  path[length] = 0;
}

int main(int count, char **arguments) {
  if (count < 2) return 2;
  strcpy(path, arguments[1]);
  walk(strlen(path));
  printf("%ld\n", entries);
  return 0;
}
