#include "pack_index_sample.h"

#include "tables.h"

static void assert_same_string(const pack_index *a, uint32_t i, const pack_index *b, uint32_t j)
{
    assert_string_equal(pack_string(a, i), pack_string(b, j));
}

/* A pack number of `b` and one of `a` stand for the same pack. */
static void assert_same_pack(const pack_index *a, uint32_t i, const pack_index *b, uint32_t j)
{
    assert_int_equal(i == 0, j == 0);
    if (i)
        assert_memory_equal(&a->packs[i - 1], &b->packs[j - 1], sizeof *a->packs);
}

static void assert_same_tensor(const pack_index *a, const pack_tensor *x, const pack_index *b, const pack_tensor *y)
{
    assert_same_string(a, x->name, b, y->name);
    assert_int_equal(x->dtype, y->dtype);
    assert_int_equal(x->rank, y->rank);
    assert_int_equal(x->flags, y->flags);
    assert_int_equal(x->offset, y->offset);
    assert_int_equal(x->span_bytes, y->span_bytes);
    const size_t dims = (size_t)x->rank << (x->flags & 1);
    assert_memory_equal(a->dims + x->dim_first, b->dims + y->dim_first, dims * sizeof *a->dims);
}

/* File i of a and file j of b say the same, wherever their rows stand. */
static void assert_same_file(const pack_index *a, uint32_t i, const pack_index *b, uint32_t j)
{
    const pack_file *const x = &a->files[i], *const y = &b->files[j];
    assert_same_string(a, x->path, b, y->path);
    assert_same_string(a, x->link, b, y->link);
    assert_same_string(a, x->format, b, y->format);
    assert_int_equal(x->mode, y->mode);
    assert_int_equal(x->kind, y->kind);
    assert_int_equal(x->size, y->size);
    assert_memory_equal(&x->hash, &y->hash, sizeof x->hash);
    assert_int_equal(x->extent_count, y->extent_count);
    for (uint32_t k = 0; k < x->extent_count; k++) {
        const pack_extent *const e = &a->extents[x->extent_first + k], *const g = &b->extents[y->extent_first + k];
        assert_same_pack(a, e->pack, b, g->pack);
        assert_int_equal(e->size, g->size);
        assert_int_equal(e->frame, g->frame);
        assert_int_equal(e->frame_offset, g->frame_offset);
        assert_memory_equal(&e->hash, &g->hash, sizeof e->hash);
    }
    assert_int_equal(x->tensor_count, y->tensor_count);
    for (uint32_t k = 0; k < x->tensor_count; k++)
        assert_same_tensor(a, &a->tensors[x->tensor_first + k], b, &b->tensors[y->tensor_first + k]);
    assert_int_equal(x->value_count, y->value_count);
    for (uint32_t k = 0; k < x->value_count; k++) {
        const pack_value *const v = &a->values[x->value_first + k], *const u = &b->values[y->value_first + k];
        assert_same_string(a, v->key, b, u->key);
        assert_same_string(a, v->value, b, u->value);
    }
}

static void copied_files_say_the_same(void **state)
{
    pack_index from = sample(), to = {0};
    uint32_t number;
    (void)state;
    /* Rows and packs of its own, so that every number moves. */
    const sha256 other = {{0x55}};
    string(&to, "something else");
    assert_int_equal(pack_index_add_pack(&number, &to, &other, NULL), 0);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(pack_index_add_dim(&number, &to, 7, NULL), 0);
    assert_int_equal(tables_copy(&to, &from, 0, from.file_count, NULL), 0);
    assert_int_equal(to.file_count, 3);
    assert_int_equal(to.pack_count, 2);
    for (uint32_t i = 0; i < 3; i++)
        assert_same_file(&from, i, &to, i);
    pack_index_clear(&from);
    pack_index_clear(&to);
}

static void ranges_are_copied_behind_one_another(void **state)
{
    pack_index from = sample(), to = {0};
    (void)state;
    assert_int_equal(tables_copy(&to, &from, 1, 3, NULL), 0);
    assert_int_equal(tables_copy(&to, &from, 0, 1, NULL), 0);
    assert_int_equal(tables_copy(&to, &from, 2, 2, NULL), 0);
    assert_int_equal(to.file_count, 3);
    assert_int_equal(to.extent_count, 2);
    assert_int_equal(to.tensor_count, 2);
    assert_int_equal(to.value_count, 1);
    assert_same_file(&from, 1, &to, 0);
    assert_same_file(&from, 2, &to, 1);
    assert_same_file(&from, 0, &to, 2);
    pack_index_clear(&from);
    pack_index_clear(&to);
}

static void nothing_is_copied_of_empty_tables(void **state)
{
    pack_index from = {0}, to = {0};
    (void)state;
    assert_int_equal(tables_copy(&to, &from, 0, 0, NULL), 0);
    assert_int_equal(to.file_count, 0);
    assert_int_equal(to.pack_count, 0);
    pack_index_clear(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copied_files_say_the_same),
        cmocka_unit_test(ranges_are_copied_behind_one_another),
        cmocka_unit_test(nothing_is_copied_of_empty_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
