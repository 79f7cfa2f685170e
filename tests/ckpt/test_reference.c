#include "pack_fixture.h"

#include "reference.h"

/* Tables of files that nobody stored: enough for what pairing looks at. File k lies in frame k of a pack that is not
 * there, so that the frame tells which file was found. */
typedef struct shelf {
    pack_index index;
    pack self;
    reference_library *library;
} shelf;

typedef struct stored {
    const char *path, *names; /* of tensors of 4 floats, between blanks */
    pack_frame_kind kind;
} stored;

static uint32_t text(pack_index *index, const char *string)
{
    uint32_t at = 0;
    MUST(pack_index_add_string(&at, index, string, ERR));
    return at;
}

static void add_tensors(pack_index *index, pack_file *file, const char *names)
{
    char copy[256], *rest = copy;
    uint32_t ignored;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name; (name = strsep(&rest, " "));) {
        if (!name[0])
            continue;
        const pack_tensor tensor = {.name = text(index, name),
                                    .dim_first = index->dim_count,
                                    .dtype = CKPT_F32,
                                    .rank = 1,
                                    .offset = 16u * file->tensor_count,
                                    .span_bytes = 16};
        MUST(pack_index_add_dim(&ignored, index, 4, ERR));
        MUST(pack_index_add_tensor(&ignored, index, &tensor, ERR));
        file->tensor_count++;
    }
}

static void add_file(pack_index *index, const stored *from)
{
    uint32_t frame, ignored;
    const pack_frame row = {.size = 1000, .reference_pack = PACK_NONE, .kind = (uint8_t)from->kind};
    MUST(pack_index_add_frame(&frame, index, &row, ERR));
    pack_file file = {.path = text(index, from->path),
                      .size = 1000,
                      .extent_first = index->extent_count,
                      .extent_count = 1,
                      .tensor_first = index->tensor_count};
    MUST(pack_index_add_extent(&ignored, index, &(pack_extent){.size = 1000, .frame = frame}, ERR));
    add_tensors(index, &file, from->names);
    MUST(pack_index_add_file(&ignored, index, &file, ERR));
}

static void shelf_fill(shelf *s, const stored *files, size_t count)
{
    *s = (shelf){0};
    for (size_t i = 0; i < count; i++)
        add_file(&s->index, &files[i]);
    s->self = (pack){.fd = -1, .index = s->index};
    MUST(reference_library_new(&s->library, NULL, ERR));
    MUST(reference_library_add(s->library, &s->index, &s->self, 0, s->index.file_count, ERR));
}

static void shelf_clear(shelf *s)
{
    reference_library_free(s->library);
    pack_index_clear(&s->index);
}

/* The file about to be saved. */
static tensor_file views_of(tensor_view views[8], char copy[256], const char *names)
{
    tensor_file file = {.tensors = views};
    char *rest = copy;
    snprintf(copy, 256, "%s", names);
    for (char *name; (name = strsep(&rest, " "));)
        if (name[0])
            views[file.count++] = (tensor_view){.name = name, .dtype = CKPT_F32, .rank = 1, .shape = {4}};
    return file;
}

/* Which of the stored files are candidates, best first: their numbers, between blanks. */
static void assert_candidates(const stored *files, size_t count, const char *path, const char *names,
                              const char *expected)
{
    shelf s;
    tensor_view views[8] = {0};
    char copy[256], found[64] = "";
    const reference_file *candidates[REFERENCE_FILES_MAX];
    const tensor_file file = views_of(views, copy, names);
    shelf_fill(&s, files, count);
    const size_t n = reference_files(candidates, s.library, path, &file);
    for (size_t i = 0; i < n; i++) {
        frame_at at;
        assert_true(reference_other(&at, s.library, candidates[i], 0));
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%u", i ? " " : "", at.frame);
    }
    assert_string_equal(found, expected);
    shelf_clear(&s);
}

static void newest_file_of_the_same_path_comes_first(void **state)
{
    static const stored FILES[] = {{"a.pt", "", 0}, {"model.pt", "", 0}, {"model.pt", "", 0}, {"b.pt", "", 0}};
    (void)state;
    assert_candidates(FILES, 4, "model.pt", "", "2");
    assert_candidates(FILES, 4, "other.pt", "", "");
}

static void numbers_in_a_path_do_not_count(void **state)
{
    static const stored FILES[] = {
        {"run_1/epoch_12.pt", "", 0}, {"run_1/epoch_12.bin", "", 0}, {"run_1/epoch.pt", "", 0}};
    (void)state;
    assert_candidates(FILES, 3, "run_1/epoch_13.pt", "", "0");
    assert_candidates(FILES, 3, "run_20/epoch_3.pt", "", "0");
    assert_candidates(FILES, 3, "run_1/epoch_x.pt", "", "");
}

static void nearest_number_before_is_the_numbered_candidate(void **state)
{
    static const stored FILES[] = {
        {"epoch_10.pt", "", 0}, {"epoch_2.pt", "", 0}, {"epoch_9.pt", "", 0}, {"epoch_11.pt", "", 0}};
    (void)state;
    assert_candidates(FILES, 4, "epoch_12.pt", "", "3");
    assert_candidates(FILES, 4, "epoch_3.pt", "", "1");
    assert_candidates(FILES, 4, "epoch_1.pt", "", "1"); /* none before: the nearest behind */
}

static void newest_of_the_nearest_number_is_the_numbered_candidate(void **state)
{
    static const stored FILES[] = {{"epoch_12.pt", "", 0}, {"epoch_12.pt", "", 0}, {"epoch_11.pt", "", 0}};
    (void)state;
    assert_candidates(FILES, 3, "epoch_13.pt", "", "1");
    assert_candidates(FILES, 3, "epoch_2.pt", "", "2");
}

static void own_path_and_number_before_are_both_candidates(void **state)
{
    static const stored FILES[] = {{"epoch_2.pt", "", 0}, {"epoch_1.pt", "", 0}};
    (void)state;
    assert_candidates(FILES, 2, "epoch_2.pt", "", "0 1");
}

static void file_with_most_names_in_common_is_a_candidate(void **state)
{
    static const stored FILES[] = {{"x.bin", "a b c", 0}, {"y.bin", "a b c d", 0}, {"z.bin", "d e f g", 0}};
    (void)state;
    assert_candidates(FILES, 3, "new.pt", "a b c d", "1");
    assert_candidates(FILES, 3, "new.pt", "a b h i", ""); /* half of them is not enough */
    assert_candidates(FILES, 3, "x.bin", "a b c d", "0 1");
}

static void names_are_compared_without_their_containers(void **state)
{
    static const stored FILES[] = {{"x.bin", "model.a model.b", 0}};
    (void)state;
    assert_candidates(FILES, 1, "new.safetensors", "a module.b", "0");
}

static void folders_and_empty_files_are_no_candidates(void **state)
{
    shelf s = {0};
    uint32_t ignored;
    const reference_file *candidates[REFERENCE_FILES_MAX];
    (void)state;
    const pack_file folder = {.path = text(&s.index, "model.pt"), .kind = CKPT_FOLDER};
    const pack_file empty = {.path = text(&s.index, "model.pt")};
    MUST(pack_index_add_file(&ignored, &s.index, &folder, ERR));
    MUST(pack_index_add_file(&ignored, &s.index, &empty, ERR));
    MUST(reference_library_new(&s.library, NULL, ERR));
    MUST(reference_library_add(s.library, &s.index, NULL, 0, 2, ERR));
    assert_int_equal(reference_files(candidates, s.library, "model.pt", &(tensor_file){0}), 0);
    shelf_clear(&s);
}

/* ---- Tensors of a candidate ---- */

static void assert_pairs(const tensor_view *view, pack_frame_kind kind, bool tensor, bool group)
{
    const stored file = {"model.pt", "model.a model.b", kind};
    shelf s;
    frame_at at;
    const reference_file *candidates[REFERENCE_FILES_MAX];
    shelf_fill(&s, &file, 1);
    assert_int_equal(reference_files(candidates, s.library, "model.pt", &(tensor_file){0}), 1);
    assert_int_equal(reference_tensor(&at, s.library, candidates[0], view, 0), tensor);
    assert_int_equal(reference_group(&at, s.library, candidates[0], view), group);
    assert_false(reference_tensor(&at, s.library, candidates[0], view, 1)); /* the extent has one piece only */
    shelf_clear(&s);
}

static char A[] = "a", MODULE_A[] = "module.a", UNKNOWN[] = "c";

static void tensors_are_paired_by_name_type_and_shape(void **state)
{
    (void)state;
    tensor_view view = {.name = A, .dtype = CKPT_F32, .rank = 1, .shape = {4}};
    assert_pairs(&view, FRAME_TENSOR, true, false);
    assert_pairs(&view, FRAME_GROUP, false, true);
    assert_pairs(&view, FRAME_OTHER, false, false);
    view.name = MODULE_A;
    assert_pairs(&view, FRAME_TENSOR, true, false);
    view.name = UNKNOWN;
    assert_pairs(&view, FRAME_TENSOR, false, false);
    view = (tensor_view){.name = A, .dtype = CKPT_I32, .rank = 1, .shape = {4}};
    assert_pairs(&view, FRAME_TENSOR, false, false);
    view = (tensor_view){.name = A, .dtype = CKPT_F32, .rank = 2, .shape = {4, 1}};
    assert_pairs(&view, FRAME_TENSOR, false, false);
    view = (tensor_view){.name = A, .dtype = CKPT_F32, .rank = 1, .shape = {5}};
    assert_pairs(&view, FRAME_GROUP, false, false);
}

/* ---- Depth ---- */

/* Frames 0 to PACK_DEPTH_READ_MAX of one pack, each coded against the one before. */
static void chain_make(sha256 *name, const fixture *f)
{
    pack_writer w;
    unsigned char *const data = noise(100, 1);
    unsigned char coded[101] = {CODEC_STORED};
    sha256 hash;
    memcpy(coded + 1, data, 100);
    sha256_of(&hash, data, 100);
    MUST(pack_writer_open(&w, f->tmp, ERR));
    for (uint32_t i = 0; i <= PACK_DEPTH_READ_MAX; i++) {
        uint32_t at;
        pack_frame frame = {.size = 100,
                            .hash = hash,
                            .depth = (uint8_t)i,
                            .reference_pack = i ? 0 : PACK_NONE,
                            .reference_frame = i ? i - 1 : 0};
        if (i)
            frame.reference_hash = hash;
        MUST(pack_writer_frame(&at, &w, &frame, ERR));
        MUST(pack_writer_chunk(&w, coded, sizeof coded, xxh64_of(data, 100), ERR));
    }
    finish(name, &w, f);
    free(data);
}

static void frames_at_the_limit_are_replaced_by_their_root(void **state)
{
    const fixture *const f = *state;
    sha256 name;
    pack_set *set;
    pack *p;
    chain_make(&name, f);
    MUST(pack_set_new(&set, f->packs, ERR));
    MUST(pack_set_get(&p, set, &name, ERR));
    for (uint32_t i = 0; i <= PACK_DEPTH_READ_MAX; i++) {
        frame_at at = {p, i};
        assert_true(reference_usable(&at, set));
        assert_int_equal(at.frame, i < PACK_DEPTH_WRITE_MAX ? i : 0);
    }
    pack_set_free(set);
}

static void frames_whose_root_is_missing_are_not_usable(void **state)
{
    const fixture *const f = *state;
    sha256 name, gone;
    pack_set *set;
    pack_writer w;
    frame_at at = {0};
    uint32_t ignored;
    unsigned char *const data = noise(100, 1);
    unsigned char coded[101] = {CODEC_STORED};
    memcpy(coded + 1, data, 100);
    sha256_of(&gone, "gone", 4);
    MUST(pack_writer_open(&w, f->tmp, ERR));
    pack_frame frame = {.size = 100, .depth = PACK_DEPTH_WRITE_MAX, .reference_pack = 1, .reference_hash = gone};
    sha256_of(&frame.hash, data, 100);
    MUST(pack_index_add_pack(&ignored, &w.index, &gone, ERR));
    MUST(pack_writer_frame(&ignored, &w, &frame, ERR));
    MUST(pack_writer_chunk(&w, coded, sizeof coded, xxh64_of(data, 100), ERR));
    finish(&name, &w, f);
    MUST(pack_set_new(&set, f->packs, ERR));
    MUST(pack_set_get(&at.pack, set, &name, ERR));
    assert_false(reference_usable(&at, set));
    pack_set_free(set);
    free(data);
}

#define DEPTH_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_file_of_the_same_path_comes_first),
        cmocka_unit_test(numbers_in_a_path_do_not_count),
        cmocka_unit_test(nearest_number_before_is_the_numbered_candidate),
        cmocka_unit_test(newest_of_the_nearest_number_is_the_numbered_candidate),
        cmocka_unit_test(own_path_and_number_before_are_both_candidates),
        cmocka_unit_test(file_with_most_names_in_common_is_a_candidate),
        cmocka_unit_test(names_are_compared_without_their_containers),
        cmocka_unit_test(folders_and_empty_files_are_no_candidates),
        cmocka_unit_test(tensors_are_paired_by_name_type_and_shape),
        DEPTH_TEST(frames_at_the_limit_are_replaced_by_their_root),
        DEPTH_TEST(frames_whose_root_is_missing_are_not_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
