#include "repair_fixture.h"

/* ---- Heads ---- */

typedef struct sample {
    char dir[TEMP_PATH_MAX], pack[FILE_PATH_MAX], parity[FILE_PATH_MAX];
    sha256 name;
} sample;

static int sample_setup(void **state)
{
    sample *const s = calloc(1, sizeof *s);
    file_tmp tmp;
    file_commit_plan plan = {0};
    if (!s || temp_dir_make(s->dir))
        return -1;
    join(s->pack, s->dir, "pack");
    write_noise(s->pack, 5, 100000);
    const file_bytes bytes = file_load(s->pack);
    sha256_of(&s->name, bytes.data, bytes.size);
    free(bytes.data);
    const int fd = open(s->pack, O_RDONLY);
    MUST(pack_parity_make(&tmp, s->dir, fd, 100000, &s->name, 0.1, ERR));
    close(fd);
    MUST(pack_parity_path(s->parity, s->dir, &s->name, ERR));
    MUST(file_commit_add(&plan, &tmp, s->parity, false, ERR));
    MUST(file_commit(&plan, ERR));
    *state = s;
    return 0;
}

static int sample_teardown(void **state)
{
    sample *const s = *state;
    const int rc = temp_dir_remove(s->dir);
    free(s);
    return rc;
}

static int open_sample(pack_parity *p, const sample *s)
{
    return pack_parity_open(p, s->dir, &s->name, NULL);
}

static void each_head_stands_in_for_the_other(void **state)
{
    const sample *const s = *state;
    pack_parity p;
    MUST(pack_parity_open(&p, s->dir, &s->name, ERR));
    assert_true(p.whole);
    assert_int_equal(p.layout.size, 100000);
    const size_t head = (size_t)p.blocks_offset;
    const off_t ends[] = {70, -(off_t)head + 100};
    pack_parity_close(&p);
    for (int i = 0; i < 2; i++) {
        flip_bit(s->parity, ends[i]);
        MUST(pack_parity_open(&p, s->dir, &s->name, ERR));
        assert_false(p.whole);
        assert_int_equal(p.layout.size, 100000);
        pack_parity_close(&p);
        flip_bit(s->parity, ends[i]);
    }
    flip_bit(s->parity, ends[0]);
    flip_bit(s->parity, ends[1]);
    assert_int_equal(open_sample(&p, s), CKPT_EDATA);
    assert_int_equal(p.fd, -1);
}

static void parity_that_is_cut_anywhere_is_used_or_refused(void **state)
{
    const sample *const s = *state;
    pack_parity p;
    MUST(pack_parity_open(&p, s->dir, &s->name, ERR));
    const off_t head = (off_t)p.blocks_offset, size = size_of(s->parity);
    pack_parity_close(&p);
    for (off_t left = size - 1; left >= 0; left = left > 300 ? left - 97 : left - 1) {
        assert_int_equal(truncate(s->parity, left), 0);
        const int rc = open_sample(&p, s);
        assert_int_equal(rc, left >= head ? 0 : CKPT_EDATA);
        if (!rc)
            assert_false(p.whole);
        pack_parity_close(&p);
    }
}

static void parity_of_another_pack_or_version_is_refused(void **state)
{
    const sample *const s = *state;
    pack_parity p;
    sha256 other;
    char path[FILE_PATH_MAX];
    sha256_of(&other, "other", 5);
    MUST(pack_parity_path(path, s->dir, &other, ERR));
    file_copy(path, s->parity);
    assert_int_equal(pack_parity_open(&p, s->dir, &other, NULL), CKPT_EDATA);
    sha256_of(&other, "none", 4);
    assert_int_equal(pack_parity_open(&p, s->dir, &other, NULL), CKPT_ENOTFOUND);
    MUST(pack_parity_open(&p, s->dir, &s->name, ERR));
    const off_t head = (off_t)p.blocks_offset;
    pack_parity_close(&p);
    flip_bit(s->parity, 8); /* version 17 in the first head; the second one still tells */
    MUST(pack_parity_open(&p, s->dir, &s->name, ERR));
    pack_parity_close(&p);
    flip_bit(s->parity, -head); /* and in the second one */
    assert_int_equal(open_sample(&p, s), CKPT_EVERSION);
}

/* ---- Blocks ---- */

static void survey_names_exactly_the_blocks_that_are_damaged(void **state)
{
    const sample *const s = *state;
    pack_parity p;
    pack_loss loss;
    MUST(pack_parity_open(&p, s->dir, &s->name, ERR));
    const uint32_t block = p.layout.block_size;
    const uint64_t data_blocks = p.layout.data_blocks;
    flip_bit(s->pack, 0);
    flip_bit(s->pack, 5 * block - 1);
    flip_bit(s->pack, -1);
    flip_bit(s->parity, (off_t)(p.blocks_offset + 2 * block + 3));
    const int fd = open(s->pack, O_RDONLY);
    MUST(pack_parity_survey(&loss, &p, fd, 100000, ERR));
    assert_int_equal(loss.lost_data, 3);
    assert_int_equal(loss.lost_parity, 1);
    assert_int_equal(loss.missing, 0);
    for (uint64_t i = 0; i < data_blocks; i++)
        assert_int_equal(loss.lost[i], i == 0 || i == 4 || i == data_blocks - 1);
    assert_true(loss.lost[data_blocks + 2]);
    pack_loss_clear(&loss);
    close(fd);
    pack_parity_close(&p);
}

static void what_is_rebuilt_is_the_pack_or_an_error(void **state)
{
    const sample *const s = *state;
    pack_parity p;
    pack_loss loss;
    file_tmp tmp = {.fd = -1};
    char good[FILE_PATH_MAX];
    join(good, s->dir, "good");
    file_copy(good, s->pack);
    wipe(s->pack, 40000, 7000);
    assert_int_equal(truncate(s->pack, 99000), 0);
    MUST(pack_parity_open(&p, s->dir, &s->name, ERR));
    const int fd = open(s->pack, O_RDONLY);
    MUST(pack_parity_survey(&loss, &p, fd, 99000, ERR));
    MUST(pack_parity_rebuild(&tmp, s->dir, &p, &loss, fd, ERR));
    assert_same_bytes(good, tmp.path);
    file_tmp_discard(&tmp);

    loss.lost[20] = true; /* its bytes were right, and are made again */
    loss.lost_data++;
    MUST(pack_parity_rebuild(&tmp, s->dir, &p, &loss, fd, ERR));
    file_tmp_discard(&tmp);
    for (uint64_t i = 0; i < p.layout.data_blocks; i++)
        loss.lost[i] = false; /* a lie: what is damaged is taken for good */
    assert_int_equal(pack_parity_rebuild(&tmp, s->dir, &p, &loss, fd, NULL), CKPT_EDATA);
    assert_int_equal(tmp.fd, -1);
    pack_loss_clear(&loss);
    close(fd);
    pack_parity_close(&p);
}

static void names_are_those_of_packs(void **state)
{
    (void)state;
    sha256 name, parsed;
    char path[FILE_PATH_MAX];
    sha256_of(&name, "x", 1);
    MUST(pack_parity_path(path, "dir", &name, ERR));
    assert_string_equal(path, "dir/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881.parity");
    assert_true(pack_parity_name_parse(&parsed, path + 4));
    assert_int_equal(sha256_compare(&name, &parsed), 0);
    assert_false(pack_parity_name_parse(&parsed, path + 5));
    assert_false(pack_parity_name_parse(&parsed, "x.parity"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_head_stands_in_for_the_other, sample_setup, sample_teardown),
        cmocka_unit_test_setup_teardown(parity_that_is_cut_anywhere_is_used_or_refused, sample_setup, sample_teardown),
        cmocka_unit_test_setup_teardown(parity_of_another_pack_or_version_is_refused, sample_setup, sample_teardown),
        cmocka_unit_test_setup_teardown(survey_names_exactly_the_blocks_that_are_damaged, sample_setup,
                                        sample_teardown),
        cmocka_unit_test_setup_teardown(what_is_rebuilt_is_the_pack_or_an_error, sample_setup, sample_teardown),
        cmocka_unit_test(names_are_those_of_packs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
