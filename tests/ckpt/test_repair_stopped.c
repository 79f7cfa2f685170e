/* Repair that is killed at each of its calls, or for which the disk is full from one of them on. */
#define _GNU_SOURCE /* renameat2, in place of the C library's calls */
#include "repair_fixture.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- The N-th call ---- */

static long calls_left = -1; /* until the trouble; below 0: none comes */
static bool disk_is_full;    /* then what writes fails; else the process ends */

static bool trouble(void)
{
    if (calls_left < 0)
        return false;
    if (calls_left > 0) {
        calls_left--;
        return false;
    }
    if (!disk_is_full)
        _exit(9);
    errno = ENOSPC;
    return true;
}

ssize_t write(int fd, const void *data, size_t size)
{
    return trouble() ? -1 : syscall(SYS_write, fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return trouble() ? -1 : syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    return pwrite(fd, data, size, offset);
}

int rename(const char *from, const char *to)
{
    if (calls_left == 0 && !disk_is_full)
        _exit(9);
    calls_left -= calls_left > 0;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int link(const char *from, const char *to)
{
    return trouble() ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    if (calls_left == 0 && !disk_is_full)
        _exit(9);
    calls_left -= calls_left > 0;
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* ---- The store ---- */

static void tree_copy(const char *to, const char *from)
{
    struct dirent **entries = NULL;
    const int count = scandir(from, &entries, NULL, alphasort);
    assert_true(count >= 2);
    assert_int_equal(mkdir(to, 0700), 0);
    for (int i = 0; i < count; i++) {
        char a[FILE_PATH_MAX], b[FILE_PATH_MAX];
        struct stat st;
        join(a, from, entries[i]->d_name);
        join(b, to, entries[i]->d_name);
        if (strcmp(entries[i]->d_name, ".") != 0 && strcmp(entries[i]->d_name, "..") != 0) {
            assert_int_equal(lstat(a, &st), 0);
            if (S_ISDIR(st.st_mode))
                tree_copy(b, a);
            else
                file_copy(b, a);
        }
        free(entries[i]);
    }
    free(entries);
}

/* A good checkpoint; one whose pack is damaged within its parity; one with a damaged snapshot and a tag; and a damaged
 * pack that nothing needs. */
typedef struct patient {
    char good[CKPT_ID_SIZE], hurt[CKPT_ID_SIZE];
    char files[3][FILE_PATH_MAX];
    char broken_pack[FILE_PATH_MAX];      /* a copy of what is damaged */
    char broken_pack_name[FILE_PATH_MAX]; /* in packs/ */
    char master[FILE_PATH_MAX];           /* the whole store, to begin anew with */
} patient;

static void patient_make(patient *p, fixture *f)
{
    char path[FILE_PATH_MAX];
    memcpy(p->good, noise_saved(p->files[0], f, 1, 0).id, CKPT_ID_SIZE);
    memcpy(p->hurt, noise_saved(p->files[1], f, 2, 0.05).id, CKPT_ID_SIZE);
    noise_saved(path, f, 4, 0);
    own_pack_file(p->broken_pack_name, f, "latest");
    flip_bit(p->broken_pack_name, PACK_HEADER_SIZE + 500);
    MUST(ckpt_remove(f->store, "latest", false, ERR));
    noise_saved(p->files[2], f, 3, 0);
    MUST(ckpt_tag_set(f->store, "third", "latest", false, ERR));

    own_pack_file(p->broken_pack_name, f, p->hurt);
    wipe(p->broken_pack_name, 2000, NOISE_BYTES / 30);
    join(p->broken_pack, f->root, "broken");
    file_copy(p->broken_pack, p->broken_pack_name);
    snapshot_file(path, f, "third");
    char *const text = read_text(path);
    text[40] = text[50] = '?'; /* more than one byte: made anew */
    write_text(path, text);
    free(text);
    join(p->master, f->root, "master");
    tree_copy(p->master, f->store->path);
}

static void store_begin_anew(const patient *p, fixture *f)
{
    char path[FILE_PATH_MAX];
    ckpt_store_close(f->store);
    f->store = NULL;
    join(path, f->root, ".ckpt");
    assert_int_equal(temp_dir_remove(path), 0);
    tree_copy(path, p->master);
    fixture_open(f);
}

/* Is the damaged pack still somewhere with all of its bytes? */
static bool broken_is_kept(const patient *p, const fixture *f)
{
    char kept[FILE_PATH_MAX];
    const char *const places[] = {p->broken_pack_name, kept};
    const file_bytes wanted = file_load(p->broken_pack);
    bool found = false;
    join(kept, f->store->damaged_dir, path_base(p->broken_pack_name));
    for (size_t i = 0; i < 2 && !found; i++) {
        if (!exists(places[i]))
            continue;
        const file_bytes bytes = file_load(places[i]);
        found = bytes.size == wanted.size && memcmp(bytes.data, wanted.data, wanted.size) == 0;
        free(bytes.data);
    }
    free(wanted.data);
    return found;
}

/* What was good is, nothing is lost, and another repair ends the work. */
static void assert_no_worse(const patient *p, fixture *f)
{
    ckpt_repair_result result;
    fixture_reopen(f);
    assert_restores(f, p->good, p->files[0]);
    assert_true(broken_is_kept(p, f));
    assert_int_equal(repair(&result, f), 0);
    ckpt_repair_result_clear(&result);
    assert_restores(f, p->good, p->files[0]);
    assert_restores(f, p->hurt, p->files[1]);
    assert_restores(f, "third", p->files[2]);
    assert_int_equal(count_files(f->store->packs_dir), 3);
    assert_int_equal(count_files(f->store->snapshots_dir), 3);
}

static int repair_in_child(fixture *f, long call)
{
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ckpt_store *store = NULL;
        if (ckpt_store_open(&store, f->root, NULL, NULL))
            _exit(1);
        calls_left = call;
        const int rc = ckpt_repair(NULL, store, NULL, NULL);
        calls_left = -1;
        _exit(rc ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_store_is_no_worse_wherever_repair_is_killed(void **state)
{
    fixture *const f = *state;
    static patient p;
    int ended = 9;
    long call = 0;
    patient_make(&p, f);
    for (; ended == 9; call++) {
        store_begin_anew(&p, f);
        ended = repair_in_child(f, call);
        assert_true(ended == 9 || ended == 0);
        assert_no_worse(&p, f);
    }
    assert_true(call > 30);
}

static void a_store_is_no_worse_when_the_disk_fills_while_it_is_repaired(void **state)
{
    fixture *const f = *state;
    static patient p;
    int rc = CKPT_ENOSPC;
    long call = 0;
    patient_make(&p, f);
    for (; rc; call += 4) {
        store_begin_anew(&p, f);
        disk_is_full = true;
        calls_left = call;
        rc = ckpt_repair(NULL, f->store, NULL, NULL);
        calls_left = -1;
        disk_is_full = false;
        assert_true(rc == 0 || rc == CKPT_ENOSPC);
        assert_no_worse(&p, f);
        assert_int_equal(count_files(f->store->tmp_dir), 0);
    }
    assert_true(call > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_store_is_no_worse_wherever_repair_is_killed, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_store_is_no_worse_when_the_disk_fills_while_it_is_repaired, tree_setup,
                                        tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
