/* Folders of files for tests: made, listed and compared. Included by one test each. */
#ifndef TESTS_FILE_TREE_H
#define TESTS_FILE_TREE_H

#include "store_fixture.h"

#include <dirent.h>
#include <sys/mman.h>

/* Takes the place of the C library's: these tests are about bytes, and a disk that others keep busy would make them
 * take minutes. Durability is what tests/crash proves. */
static size_t folders_synced;

int fsync(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return -1;
    folders_synced += S_ISDIR(st.st_mode);
    return 0;
}

static inline void join(char out[FILE_PATH_MAX], const char *dir, const char *name)
{
    MUST(path_join(out, dir, name, ERR));
}

static inline struct stat stat_in(const char *dir, const char *name)
{
    char path[FILE_PATH_MAX];
    struct stat st;
    join(path, dir, name);
    if (lstat(path, &st))
        fail_msg("%s is missing", path);
    return st;
}

static inline void make_dir(const char *dir, const char *name)
{
    char path[FILE_PATH_MAX];
    join(path, dir, name);
    MUST(dir_make_all(path, ERR));
}

static inline void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(size ? fwrite(data, 1, size, file) : 0, size);
    assert_int_equal(fclose(file), 0);
}

static inline void write_in(const char *dir, const char *name, const void *data, size_t size)
{
    char path[FILE_PATH_MAX];
    join(path, dir, name);
    write_bytes(path, data, size);
}

/* A file in memory, never changed by what happens to it later. */
typedef struct file_bytes {
    char *data;
    size_t size;
} file_bytes;

static inline file_bytes file_load(const char *path)
{
    file_bytes bytes = {0};
    MUST(file_read_all(&bytes.data, &bytes.size, path, (size_t)256 << 20, ERR));
    return bytes;
}

static inline void file_copy(const char *to, const char *from)
{
    const file_bytes bytes = file_load(from);
    write_bytes(to, bytes.data, bytes.size);
    free(bytes.data);
}

static inline const void *file_map(const char *path, size_t size)
{
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    const void *const bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(bytes != MAP_FAILED);
    close(fd);
    return bytes;
}

static inline void assert_same_bytes(const char *a, const char *b)
{
    struct stat sa, sb;
    assert_int_equal(stat(a, &sa), 0);
    if (stat(b, &sb))
        fail_msg("%s is missing", b);
    if (sa.st_size != sb.st_size)
        fail_msg("%s has %lld bytes, %s %lld", a, (long long)sa.st_size, b, (long long)sb.st_size);
    const size_t size = (size_t)sa.st_size;
    if (size == 0)
        return;
    void *const x = (void *)(uintptr_t)file_map(a, size), *const y = (void *)(uintptr_t)file_map(b, size);
    if (memcmp(x, y, size) != 0)
        fail_msg("%s and %s differ", a, b);
    munmap(x, size);
    munmap(y, size);
}

static inline void assert_same_link(const char *a, const char *b)
{
    char x[FILE_PATH_MAX] = "", y[FILE_PATH_MAX] = "";
    assert_true(readlink(a, x, sizeof x - 1) > 0);
    assert_true(readlink(b, y, sizeof y - 1) > 0);
    assert_string_equal(x, y);
}

/* All that is in folder `a`, and nothing else, is in `b`: kinds, modes, bytes and targets of links. */
static inline void assert_same_tree(const char *a, const char *b)
{
    struct dirent **entries = NULL, **others = NULL;
    const int count = scandir(a, &entries, NULL, alphasort), other_count = scandir(b, &others, NULL, alphasort);
    assert_true(count >= 2);
    if (count != other_count)
        fail_msg("%s has %d entries, %s %d", a, count, b, other_count);
    for (int i = 0; i < count; i++) {
        const char *const name = entries[i]->d_name;
        char x[FILE_PATH_MAX], y[FILE_PATH_MAX];
        struct stat sx, sy;
        assert_string_equal(name, others[i]->d_name);
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        join(x, a, name);
        join(y, b, name);
        assert_int_equal(lstat(x, &sx), 0);
        assert_int_equal(lstat(y, &sy), 0);
        if (sx.st_mode != sy.st_mode)
            fail_msg("%s has mode %o, %s %o", x, (unsigned)sx.st_mode, y, (unsigned)sy.st_mode);
        if (S_ISDIR(sx.st_mode))
            assert_same_tree(x, y);
        else if (S_ISLNK(sx.st_mode))
            assert_same_link(x, y);
        else
            assert_same_bytes(x, y);
    }
    for (int i = 0; i < count; i++) {
        free(entries[i]);
        free(others[i]);
    }
    free(entries);
    free(others);
}

/* Calls `each` for every file of a folder, in the order of names. */
static inline void files_each(const char *dir, void (*each)(void *payload, const char *path), void *payload)
{
    struct dirent **entries = NULL;
    const int count = scandir(dir, &entries, NULL, alphasort);
    if (count < 0)
        fail_msg("cannot list %s", dir);
    for (int i = 0; i < count; i++) {
        char path[FILE_PATH_MAX];
        struct stat st;
        join(path, dir, entries[i]->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            each(payload, path);
        free(entries[i]);
    }
    free(entries);
}

/* ---- Saves and restores that must succeed ---- */

/* A store as by fixture_setup; the current folder is an empty one beside it, so that saved files keep their last
 * component only. */
static inline int tree_setup(void **state)
{
    char here[FILE_PATH_MAX];
    if (fixture_setup(state))
        return -1;
    const fixture *const f = *state;
    join(here, f->root, "here");
    return mkdir(here, 0700) || chdir(here);
}

static inline int tree_teardown(void **state)
{
    const int rc = chdir("/");
    return fixture_teardown(state) || rc;
}

static inline ckpt_save_result save_path(fixture *f, const char *path)
{
    ckpt_save_result result;
    MUST(ckpt_save_files(&result, f->store, &path, 1, NULL, ERR));
    return result;
}

static inline ckpt_save_result save_bytes(fixture *f, const char *name, const void *data, size_t size)
{
    char path[FILE_PATH_MAX];
    join(path, f->root, name);
    write_bytes(path, data, size);
    return save_path(f, path);
}

static inline void restore_to(fixture *f, const char *name, const char *dir)
{
    const ckpt_restore_options options = {.size = sizeof options, .dir = dir};
    ckpt_restore_result result;
    MUST(ckpt_restore_files(&result, f->store, name, &options, ERR));
    assert_false(result.fell_back);
}

/* The checkpoint holds exactly this file, under its last component. */
static inline void assert_restores(fixture *f, const char *id, const char *path)
{
    char out[FILE_PATH_MAX], restored[FILE_PATH_MAX];
    join(out, f->root, "restored");
    restore_to(f, id, out);
    join(restored, out, path_base(path));
    assert_same_bytes(path, restored);
    assert_int_equal(count_files(out), 1);
    assert_int_equal(temp_dir_remove(out), 0);
}

/* What no save may leave behind. */
static inline void assert_nothing_left(const fixture *f)
{
    assert_int_equal(count_files(f->store->tmp_dir), 0);
    assert_int_equal(count_files(f->store->intents_dir), 0);
}

#endif
