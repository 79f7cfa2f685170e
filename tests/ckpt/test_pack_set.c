#include "pack_fixture.h"

#include "open_packs.h"

#include <pthread.h>

#define MANY (PACK_SET_OPEN_MAX + 20)

static pack_set *new_set(const fixture *f)
{
    pack_set *set = NULL;
    MUST(pack_set_new(&set, f->packs, ERR));
    return set;
}

static pack *get(pack_set *set, const sha256 *name)
{
    pack *p = NULL;
    MUST(pack_set_get(&p, set, name, ERR));
    return p;
}

static void assert_first_byte(const pack *p, uint64_t seed)
{
    unsigned char coded[CODEC_STORED + 65];
    size_t size = 0;
    unsigned char *data = noise(64, seed);
    MUST(pack_read_chunk(&size, coded, p, &p->index.frames[0], 0, ERR));
    assert_memory_equal(coded + 1, data, 64);
    free(data);
}

static void a_pack_is_opened_once(void **state)
{
    fixture *f = *state;
    sha256 names[3];
    pack_set *set = new_set(f);
    for (uint64_t i = 0; i < 3; i++)
        small_pack(&names[i], f, 64, i);
    pack *const first = get(set, &names[0]), *const second = get(set, &names[1]), *const third = get(set, &names[2]);
    assert_ptr_equal(get(set, &names[1]), second);
    assert_ptr_equal(get(set, &names[0]), first);
    assert_ptr_equal(get(set, &names[2]), third);
    assert_first_byte(second, 1);
    pack_set_free(set);
}

static void a_missing_pack_is_not_found_and_others_still_are(void **state)
{
    fixture *f = *state;
    sha256 name;
    pack *p = NULL;
    pack_set *set = new_set(f);
    small_pack(&name, f, 64, 1);
    assert_int_equal(pack_set_get(&p, set, &(sha256){{9}}, NULL), CKPT_ENOTFOUND);
    assert_null(p);
    assert_first_byte(get(set, &name), 1);
    pack_set_free(set);
}

static void an_opened_pack_is_read_after_its_file_was_removed(void **state)
{
    fixture *f = *state;
    sha256 name;
    char path[FILE_PATH_MAX];
    pack_set *set = new_set(f);
    small_pack(&name, f, 64, 1);
    pack *p = get(set, &name);
    MUST(pack_path(path, f->packs, &name, ERR));
    assert_int_equal(unlink(path), 0);
    assert_first_byte(p, 1);
    pack_set_free(set);
}

static void descriptors_stay_below_their_bound_and_every_pack_readable(void **state)
{
    fixture *f = *state;
    static sha256 names[MANY];
    static pack *packs[MANY];
    pack_set *set = new_set(f);
    for (uint64_t i = 0; i < MANY; i++) {
        small_pack(&names[i], f, 64, i);
        packs[i] = get(set, &names[i]);
    }
    assert_int_equal(open_packs(), PACK_SET_OPEN_MAX);
    for (int round = 0; round < 2; round++)
        for (uint64_t i = 0; i < MANY; i++)
            assert_first_byte(packs[i], i);
    assert_int_equal(open_packs(), PACK_SET_OPEN_MAX);
    pack_set_free(set);
    assert_int_equal(open_packs(), 0);
}

static void the_pack_not_read_for_longest_is_closed(void **state)
{
    fixture *f = *state;
    sha256 name;
    pack_set *set = new_set(f);
    small_pack(&name, f, 64, 0);
    pack *const used = get(set, &name);
    small_pack(&name, f, 64, 1);
    pack *const unused = get(set, &name);
    for (uint64_t i = 2; i < PACK_SET_OPEN_MAX; i++) {
        small_pack(&name, f, 64, i);
        get(set, &name);
    }
    assert_first_byte(used, 0);
    small_pack(&name, f, 64, PACK_SET_OPEN_MAX);
    get(set, &name);
    assert_true(used->fd >= 0);
    assert_int_equal(unused->fd, -1);
    pack_set_free(set);
}

static void a_closed_pack_that_was_pruned_is_not_found(void **state)
{
    fixture *f = *state;
    static sha256 names[PACK_SET_OPEN_MAX + 1];
    char path[FILE_PATH_MAX];
    unsigned char coded[128];
    size_t size = 0;
    pack_set *set = new_set(f);
    small_pack(&names[0], f, 64, 0);
    const pack *const first = get(set, &names[0]);
    for (uint64_t i = 1; i <= PACK_SET_OPEN_MAX; i++) {
        small_pack(&names[i], f, 64, i);
        get(set, &names[i]);
    }
    MUST(pack_path(path, f->packs, &names[0], ERR));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(pack_read_chunk(&size, coded, first, &first->index.frames[0], 0, NULL), CKPT_ENOTFOUND);
    pack_set_free(set);
}

static void a_closed_pack_that_is_another_file_now_is_damaged(void **state)
{
    fixture *f = *state;
    static sha256 names[PACK_SET_OPEN_MAX + 1];
    unsigned char coded[128];
    size_t size = 0;
    pack_set *set = new_set(f);
    small_pack(&names[0], f, 64, 0);
    const pack *const first = get(set, &names[0]);
    for (uint64_t i = 1; i <= PACK_SET_OPEN_MAX; i++) {
        small_pack(&names[i], f, 64, i);
        get(set, &names[i]);
    }
    unsigned char *bytes = pack_bytes(&size, f, &names[0]);
    pack_overwrite(f, &names[0], bytes, size - 1);
    assert_int_equal(pack_read_chunk(&size, coded, first, &first->index.frames[0], 0, NULL), CKPT_EDATA);
    free(bytes);
    pack_set_free(set);
}

static void a_pack_that_is_got_again_is_open_again(void **state)
{
    fixture *f = *state;
    sha256 name;
    char path[FILE_PATH_MAX];
    pack_set *set = new_set(f);
    small_pack(&name, f, 64, 1);
    get(set, &name);
    pack_set_trim(set);
    const pack *const p = get(set, &name);
    MUST(pack_path(path, f->packs, &name, ERR));
    assert_int_equal(unlink(path), 0);
    assert_first_byte(p, 1);
    pack_set_free(set);
}

static void trimming_closes_all_files(void **state)
{
    fixture *f = *state;
    sha256 name;
    pack_set *set = new_set(f);
    for (uint64_t i = 0; i < 5; i++) {
        small_pack(&name, f, 64, i);
        get(set, &name);
    }
    assert_int_equal(open_packs(), 5);
    pack_set_trim(set);
    assert_int_equal(open_packs(), 0);
    assert_first_byte(get(set, &name), 4);
    assert_int_equal(open_packs(), 1);
    pack_set_free(set);
}

/* A pack whose index was kept is only opened; of one that was forgotten the index is read, and is damaged here. */
static void trimming_keeps_the_packs_asked_for_last(void **state)
{
    fixture *f = *state;
    static sha256 names[PACK_SET_KEPT_MAX + 2];
    const size_t count = PACK_SET_KEPT_MAX + 2;
    pack *p = NULL;
    pack_set *set = new_set(f);
    for (uint64_t i = 0; i < count; i++) {
        small_pack(&names[i], f, 64, i);
        get(set, &names[i]);
    }
    get(set, &names[0]);
    pack_set_trim(set);
    for (uint64_t i = 0; i < count; i++) {
        size_t size = 0;
        unsigned char *bytes = pack_bytes(&size, f, &names[i]);
        bytes[size - 1] ^= 1;
        pack_overwrite(f, &names[i], bytes, size);
        free(bytes);
    }
    assert_first_byte(get(set, &names[0]), 0);
    assert_int_equal(pack_set_get(&p, set, &names[1], NULL), CKPT_EDATA);
    assert_int_equal(pack_set_get(&p, set, &names[2], NULL), CKPT_EDATA);
    for (uint64_t i = 3; i < count; i++)
        assert_first_byte(get(set, &names[i]), i);
    pack_set_free(set);
}

static void following_refuses_numbers_that_the_tables_do_not_have(void **state)
{
    fixture *f = *state;
    sha256 name;
    frame_at at;
    pack_set *set = new_set(f);
    small_pack(&name, f, 64, 1);
    pack *p = get(set, &name);
    MUST(pack_set_follow(&at, set, p, 0, 0, ERR));
    assert_ptr_equal(at.pack, p);
    assert_int_equal(pack_set_follow(&at, set, p, 0, 1, NULL), CKPT_EDATA);
    assert_int_equal(pack_set_follow(&at, set, p, 1, 0, NULL), CKPT_EDATA);
    assert_int_equal(pack_set_follow(&at, set, p, PACK_NONE, 0, NULL), CKPT_EDATA);
    pack_set_free(set);
}

/* ---- Threads ---- */

typedef struct reading {
    pthread_t thread;
    pack_set *set;
    const sha256 *names;
    unsigned step, wrong;
} reading;

static void *read_all(void *payload)
{
    reading *r = payload;
    unsigned char coded[128];
    size_t size = 0;
    for (unsigned n = 0; n < 3 * MANY; n++) {
        const unsigned i = n * r->step % MANY;
        pack *p = NULL;
        unsigned char *data = noise(64, i);
        if (pack_set_get(&p, r->set, &r->names[i], NULL) ||
            pack_read_chunk(&size, coded, p, &p->index.frames[0], 0, NULL) || memcmp(coded + 1, data, 64) != 0)
            r->wrong++;
        free(data);
    }
    return NULL;
}

static void threads_read_right_bytes_while_descriptors_are_closed(void **state)
{
    fixture *f = *state;
    static sha256 names[MANY];
    reading readings[4] = {{.step = 1}, {.step = 7}, {.step = 13}, {.step = 101}};
    pack_set *set = new_set(f);
    for (uint64_t i = 0; i < MANY; i++)
        small_pack(&names[i], f, 64, i);
    for (int i = 0; i < 4; i++) {
        readings[i].set = set;
        readings[i].names = names;
        assert_int_equal(pthread_create(&readings[i].thread, NULL, read_all, &readings[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(readings[i].thread, NULL), 0);
        assert_int_equal(readings[i].wrong, 0);
    }
    pack_set_free(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_pack_is_opened_once),
        TEST(a_missing_pack_is_not_found_and_others_still_are),
        TEST(an_opened_pack_is_read_after_its_file_was_removed),
        TEST(descriptors_stay_below_their_bound_and_every_pack_readable),
        TEST(the_pack_not_read_for_longest_is_closed),
        TEST(a_closed_pack_that_was_pruned_is_not_found),
        TEST(a_closed_pack_that_is_another_file_now_is_damaged),
        TEST(a_pack_that_is_got_again_is_open_again),
        TEST(trimming_closes_all_files),
        TEST(trimming_keeps_the_packs_asked_for_last),
        TEST(following_refuses_numbers_that_the_tables_do_not_have),
        TEST(threads_read_right_bytes_while_descriptors_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
