#include "store_internal.h"

#include "pack_fixture.h"

#include <dirent.h>
#include <pthread.h>

#include "alloc_fail.h"

#define FILE_BYTES ((size_t)2048)

static ckpt_store store_of(const fixture *f)
{
    ckpt_store store = {0};
    memcpy(store.packs_dir, f->packs, sizeof store.packs_dir);
    memcpy(store.cache_dir, f->cache, sizeof store.cache_dir);
    memcpy(store.tmp_dir, f->tmp, sizeof store.tmp_dir);
    return store;
}

static lookup *open_lookup(ckpt_store *store)
{
    lookup *l = NULL;
    MUST(lookup_open(&l, store, ERR));
    return l;
}

/* Opens, so that what is to be written is written, and closes. */
static void touch(ckpt_store *store)
{
    lookup_close(open_lookup(store));
}

static hash128 hash_of(uint64_t seed)
{
    unsigned char *data = noise(FILE_BYTES, seed);
    const hash128 hash = xxh128_of(data, FILE_BYTES);
    free(data);
    return hash;
}

/* Pack number `seed`: one file whose bytes no other pack has. */
static sha256 add(const fixture *f, uint64_t seed)
{
    sha256 name;
    small_pack(&name, f, FILE_BYTES, seed);
    return name;
}

static size_t hits_of(lookup *l, uint64_t seed)
{
    lookup_hit hits[8];
    return lookup_find(hits, 8, l, hash_of(seed), FILE_BYTES);
}

static size_t missing(lookup *l, uint64_t first, uint64_t last)
{
    size_t count = 0;
    for (uint64_t seed = first; seed < last; seed++)
        count += hits_of(l, seed) != 1;
    return count;
}

static size_t segments(const fixture *f, char last[FILE_PATH_MAX])
{
    size_t count = 0;
    DIR *dir = opendir(f->cache);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (entry->d_name[0] != '.') {
            count++;
            MUST(path_join(last, f->cache, entry->d_name, ERR));
        }
    closedir(dir);
    return count;
}

static void remove_pack(const fixture *f, const sha256 *name)
{
    char path[FILE_PATH_MAX];
    MUST(pack_path(path, f->packs, name, ERR));
    assert_int_equal(unlink(path), 0);
}

/* ---- Finding ---- */

static void an_empty_store_has_no_hits(void **state)
{
    ckpt_store store = store_of(*state);
    lookup *l = open_lookup(&store);
    assert_int_equal(hits_of(l, 1), 0);
    lookup_close(l);
}

static void bytes_are_found_in_the_pack_that_has_them(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    lookup_hit hit;
    add(f, 1);
    const sha256 name = add(f, 2);
    add(f, 3);
    lookup *l = open_lookup(&store);
    assert_int_equal(lookup_find(&hit, 1, l, hash_of(2), FILE_BYTES), 1);
    assert_memory_equal(&hit.pack, &name, sizeof name);
    assert_int_equal(hit.frame, 0);
    assert_int_equal(hit.frame_offset, 0);
    lookup_close(l);
}

static void bytes_of_another_size_or_hash_are_not_found(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    lookup_hit hit;
    add(f, 1);
    lookup *l = open_lookup(&store);
    assert_int_equal(lookup_find(&hit, 1, l, hash_of(1), FILE_BYTES + 1), 0);
    assert_int_equal(lookup_find(&hit, 1, l, hash_of(2), FILE_BYTES), 0);
    lookup_close(l);
}

/* Two packs with the same file, which differ in the file's name. */
static void all_places_are_found_up_to_the_callers_limit(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    lookup_hit hits[4];
    unsigned char *data = noise(FILE_BYTES, 1);
    for (int i = 0; i < 3; i++) {
        pack_writer w;
        sha256 name;
        char path[] = {(char)('a' + i), 0};
        MUST(pack_writer_open(&w, f->tmp, ERR));
        put_file(&w, path, put_stored(&w, data, FILE_BYTES), data);
        finish(&name, &w, f);
    }
    lookup *l = open_lookup(&store);
    assert_int_equal(lookup_find(hits, 4, l, hash_of(1), FILE_BYTES), 3);
    assert_int_equal(lookup_find(hits, 2, l, hash_of(1), FILE_BYTES), 2);
    lookup_close(l);
    free(data);
}

static void packs_that_were_removed_are_not_named(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    const sha256 first = add(f, 0);
    for (uint64_t seed = 1; seed < 20; seed++)
        add(f, seed);
    touch(&store);
    remove_pack(f, &first);
    lookup *l = open_lookup(&store);
    assert_int_equal(hits_of(l, 0), 0);
    assert_int_equal(missing(l, 1, 20), 0);
    lookup_close(l);
}

/* ---- The files of the cache ---- */

static void a_few_new_packs_are_read_without_writing(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    char path[FILE_PATH_MAX];
    for (uint64_t seed = 0; seed < 3; seed++)
        add(f, seed);
    lookup *l = open_lookup(&store);
    assert_int_equal(missing(l, 0, 3), 0);
    assert_int_equal(segments(f, path), 0);
    lookup_close(l);
}

static void covered_packs_are_not_read_again(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    sha256 names[20];
    for (uint64_t seed = 0; seed < 20; seed++)
        names[seed] = add(f, seed);
    touch(&store);
    for (int i = 0; i < 20; i++) /* now there is nothing to be read in them */
        pack_overwrite(f, &names[i], (const unsigned char *)"", 0);
    lookup *l = open_lookup(&store);
    assert_int_equal(missing(l, 0, 20), 0);
    lookup_close(l);
}

static void a_save_after_each_other_leaves_few_segments_and_all_packs_found(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    char path[FILE_PATH_MAX];
    for (uint64_t seed = 0; seed < 600; seed++) {
        add(f, seed);
        touch(&store);
        assert_in_range(segments(f, path), 0, 12);
    }
    lookup *l = open_lookup(&store);
    assert_int_equal(missing(l, 0, 600), 0);
    lookup_close(l);
}

static void a_lost_cache_is_made_again(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    char path[FILE_PATH_MAX];
    for (uint64_t seed = 0; seed < 30; seed++)
        add(f, seed);
    touch(&store);
    assert_int_equal(segments(f, path), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(f->cache), 0);
    lookup *l = open_lookup(&store);
    assert_int_equal(missing(l, 0, 30), 0);
    assert_int_equal(segments(f, path), 1);
    lookup_close(l);
}

static void overwrite_byte(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    fputc(byte ^ 1, file);
    assert_int_equal(fclose(file), 0);
}

static void a_segment_with_a_damaged_head_is_made_again(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    char path[FILE_PATH_MAX], again[FILE_PATH_MAX];
    for (uint64_t seed = 0; seed < 30; seed++)
        add(f, seed);
    touch(&store);
    segments(f, path);
    overwrite_byte(path, 50);
    lookup *l = open_lookup(&store);
    assert_int_equal(missing(l, 0, 30), 0);
    assert_int_equal(segments(f, again), 1);
    assert_string_equal(again, path); /* the same packs make the same file */
    lookup_close(l);
}

/* Its entries are only looked at as a whole when it is merged: until then a hit may be missing or wrong, then no more.
 */
static void a_segment_with_damaged_entries_is_gone_after_the_next_merge(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    char path[FILE_PATH_MAX];
    for (uint64_t seed = 0; seed < 30; seed++)
        add(f, seed);
    touch(&store);
    segments(f, path);
    overwrite_byte(path, -30);
    for (uint64_t seed = 30; seed < 100; seed++) {
        add(f, seed);
        touch(&store);
    }
    lookup *l = open_lookup(&store);
    assert_int_equal(missing(l, 0, 100), 0);
    lookup_close(l);
}

static void files_that_are_no_segments_are_left_alone(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    char path[FILE_PATH_MAX];
    MUST(path_join(path, f->cache, "README", ERR));
    fclose(fopen(path, "wb"));
    touch(&store);
    assert_int_equal(access(path, F_OK), 0);
}

static void segments_of_removed_packs_are_removed(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    sha256 names[20];
    char path[FILE_PATH_MAX];
    for (uint64_t seed = 0; seed < 20; seed++)
        names[seed] = add(f, seed);
    touch(&store);
    assert_int_equal(segments(f, path), 1);
    for (int i = 0; i < 20; i++)
        remove_pack(f, &names[i]);
    touch(&store);
    assert_int_equal(segments(f, path), 0);
}

static void a_damaged_pack_does_not_hide_the_others(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    const sha256 bad = add(f, 0);
    for (uint64_t seed = 1; seed < 20; seed++)
        add(f, seed);
    pack_overwrite(f, &bad, (const unsigned char *)"CKPTPACK", 8);
    lookup *l = open_lookup(&store);
    assert_int_equal(hits_of(l, 0), 0);
    assert_int_equal(missing(l, 1, 20), 0);
    lookup_close(l);
}

static void a_cache_that_cannot_be_written_is_no_error(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    for (uint64_t seed = 0; seed < 30; seed++)
        add(f, seed);
    snprintf(store.tmp_dir, sizeof store.tmp_dir, "%s/nowhere", f->root);
    lookup *l = open_lookup(&store);
    assert_int_equal(missing(l, 0, 30), 0);
    lookup_close(l);
}

static void a_read_only_store_is_only_read(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    char path[FILE_PATH_MAX];
    for (uint64_t seed = 0; seed < 30; seed++)
        add(f, seed);
    store.read_only = true;
    lookup *l = open_lookup(&store);
    assert_int_equal(missing(l, 0, 30), 0);
    assert_int_equal(segments(f, path), 0);
    lookup_close(l);
}

/* ---- Adding ---- */

static void a_large_pack_is_written_at_once(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    pack_index index = {0};
    uint32_t at = 0;
    char path[FILE_PATH_MAX];
    const sha256 name = add(f, 1);
    for (uint64_t i = 0; i < 5000; i++) {
        const pack_extent extent = {.size = 4096, .frame = 7, .hash = {i, i}};
        MUST(pack_index_add_extent(&at, &index, &extent, ERR));
    }
    MUST(lookup_add(&store, &name, &index, ERR));
    assert_int_equal(segments(f, path), 1);
    lookup *l = open_lookup(&store);
    lookup_hit hit;
    assert_int_equal(lookup_find(&hit, 1, l, (hash128){4321, 4321}, 4096), 1);
    assert_memory_equal(&hit.pack, &name, sizeof name);
    assert_int_equal(hit.frame, 7);
    lookup_close(l);
    pack_index_clear(&index);
}

typedef struct adder {
    pthread_t thread;
    const fixture *f;
    uint64_t first;
} adder;

static void *add_and_touch(void *payload)
{
    const adder *a = payload;
    ckpt_store store = store_of(a->f);
    for (uint64_t i = 0; i < 150; i++) {
        add(a->f, a->first + i);
        touch(&store);
    }
    return NULL;
}

static void two_adders_at_once_lose_nothing(void **state)
{
    fixture *f = *state;
    ckpt_store store = store_of(f);
    adder adders[2] = {{.f = f, .first = 0}, {.f = f, .first = 150}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&adders[i].thread, NULL, add_and_touch, &adders[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(adders[i].thread, NULL), 0);
    lookup *l = open_lookup(&store);
    assert_int_equal(missing(l, 0, 300), 0);
    lookup_close(l);
}

/* Where only the writing of the cache failed, the lookup is as good as with it. */
static void a_failed_allocation_is_reported_or_does_no_harm(void **state)
{
    fixture *f = *state;
    if (!ALLOC_FAIL_WORKS)
        skip();
    ckpt_store store = store_of(f);
    char path[FILE_PATH_MAX];
    for (uint64_t seed = 0; seed < 10; seed++)
        add(f, seed);
    bool failed = true;
    for (long at = 1; failed; at++) {
        lookup *l = NULL;
        if (segments(f, path)) /* each round begins without a cache */
            assert_int_equal(unlink(path), 0);
        alloc_fail_arm(at);
        const int rc = lookup_open(&l, &store, NULL);
        failed = alloc_fail_disarm();
        assert_true(rc == 0 || (failed && rc == CKPT_ENOMEM));
        if (rc == 0)
            assert_int_equal(missing(l, 0, 10), 0);
        lookup_close(l);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_store_has_no_hits),
        TEST(bytes_are_found_in_the_pack_that_has_them),
        TEST(bytes_of_another_size_or_hash_are_not_found),
        TEST(all_places_are_found_up_to_the_callers_limit),
        TEST(packs_that_were_removed_are_not_named),
        TEST(a_few_new_packs_are_read_without_writing),
        TEST(covered_packs_are_not_read_again),
        TEST(a_save_after_each_other_leaves_few_segments_and_all_packs_found),
        TEST(a_lost_cache_is_made_again),
        TEST(a_segment_with_a_damaged_head_is_made_again),
        TEST(a_segment_with_damaged_entries_is_gone_after_the_next_merge),
        TEST(files_that_are_no_segments_are_left_alone),
        TEST(segments_of_removed_packs_are_removed),
        TEST(a_damaged_pack_does_not_hide_the_others),
        TEST(a_cache_that_cannot_be_written_is_no_error),
        TEST(a_read_only_store_is_only_read),
        TEST(a_large_pack_is_written_at_once),
        TEST(two_adders_at_once_lose_nothing),
        TEST(a_failed_allocation_is_reported_or_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
