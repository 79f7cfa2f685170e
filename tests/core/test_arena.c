#include "arena.h"

#include "backend.h"
#include "philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ALIGNED(bytes) (((bytes) + BACKEND_ALIGNMENT - 1) / BACKEND_ALIGNMENT * BACKEND_ALIGNMENT)

static size_t place(arena_buffer *buffers, size_t count)
{
    size_t total = SIZE_MAX;
    assert_int_equal(arena_place(&total, buffers, count, NULL), 0);
    return total;
}

/* ---- Simple cases, whose least total can be seen ---------------------------------------------------------------- */

static void buffers_that_meet_lie_side_by_side(void **state)
{
    (void)state;
    arena_buffer buffers[] = {{100, 0, 1}, {200, 1, 2}, {64, 0, 2}};
    assert_int_equal(place(buffers, 3), 128 + 256 + 64);
    assert_int_equal(buffers[1].offset, 0); /* the largest first */
    assert_int_equal(buffers[0].offset, 256);
    assert_int_equal(buffers[2].offset, 256 + 128);
}

static void buffers_that_do_not_meet_share_a_place(void **state)
{
    (void)state;
    arena_buffer buffers[] = {{100, 0, 0}, {200, 1, 1}, {50, 2, 9}, {640, 10, 10}};
    assert_int_equal(place(buffers, 4), 640);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(buffers[i].offset, 0);
}

static void a_chain_needs_two_neighbours_at_a_time(void **state)
{
    (void)state;
    arena_buffer buffers[100];
    for (size_t i = 0; i < 100; i++)
        buffers[i] = (arena_buffer){.bytes = 4096, .first = i, .last = i + 1};
    assert_int_equal(place(buffers, 100), 2 * 4096);
}

static void a_gap_is_used_where_it_is_large_enough(void **state)
{
    (void)state;
    /* The first leaves a gap of 512 below the second, and the fourth takes 320 of it. */
    arena_buffer buffers[] = {{512, 0, 0}, {320, 0, 1}, {256, 1, 1}, {320, 1, 1}};
    assert_int_equal(place(buffers, 4), 512 + 320 + 256);
    assert_int_equal(buffers[0].offset, 0);
    assert_int_equal(buffers[1].offset, 512);
    assert_int_equal(buffers[3].offset, 0);
    assert_int_equal(buffers[2].offset, 512 + 320); /* 192 are too few */
}

static void a_gap_of_just_the_size_is_used(void **state)
{
    (void)state;
    arena_buffer buffers[] = {{512, 0, 0}, {320, 0, 1}, {192, 1, 1}, {320, 1, 1}};
    assert_int_equal(place(buffers, 4), 512 + 320);
    assert_int_equal(buffers[2].offset, 320);
}

static void empty_buffers_need_no_place(void **state)
{
    (void)state;
    arena_buffer buffers[] = {{0, 0, 9, 77}, {64, 3, 3, 77}, {0, 3, 3, 77}};
    assert_int_equal(place(buffers, 3), 64);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(buffers[i].offset, 0);
}

static void no_buffers_need_no_memory(void **state)
{
    (void)state;
    arena_buffer none = {0};
    assert_int_equal(place(&none, 0), 0);
    assert_int_equal(place(&none, 1), 0);
}

/* ---- Any case --------------------------------------------------------------------------------------------------- */

static size_t smaller_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Lifetimes within [0, times], many of them short; sizes with a few large ones, and empty ones. */
static void random_buffers(arena_buffer *buffers, size_t count, size_t times, random_sequence *draws)
{
    for (size_t i = 0; i < count; i++) {
        const size_t first = random_next(draws) % times, bits = random_next(draws) % 15;
        buffers[i] =
            (arena_buffer){.bytes = random_next(draws) & (((size_t)1 << bits) - 1),
                           .first = first,
                           .last = smaller_of(first + random_next(draws) % (1 + random_next(draws) % times), times)};
    }
}

static void assert_no_overlap(const arena_buffer *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++) {
            const arena_buffer *const a = &buffers[i], *const b = &buffers[k];
            if (a->bytes && b->bytes && a->first <= b->last && b->first <= a->last)
                assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
        }
}

/* The most that is alive at one time. */
static size_t peak_of(const arena_buffer *buffers, size_t count, size_t times)
{
    size_t peak = 0;
    for (size_t time = 0; time <= times; time++) {
        size_t sum = 0;
        for (size_t i = 0; i < count; i++)
            if (buffers[i].first <= time && time <= buffers[i].last)
                sum += ALIGNED(buffers[i].bytes);
        peak = sum > peak ? sum : peak;
    }
    return peak;
}

static void buffers_whose_lives_meet_never_overlap(void **state)
{
    (void)state;
    arena_buffer buffers[80];
    random_sequence draws = {.seed = 4, .purpose = RANDOM_ORDER};
    for (size_t round = 0; round < 500; round++) {
        const size_t count = 1 + random_next(&draws) % 80, times = 1 + random_next(&draws) % 40;
        random_buffers(buffers, count, times, &draws);
        const size_t total = place(buffers, count);
        size_t end = 0, sum = 0;
        for (size_t i = 0; i < count; i++) {
            const size_t room = ALIGNED(buffers[i].bytes);
            assert_int_equal(buffers[i].offset % BACKEND_ALIGNMENT, 0);
            end = buffers[i].offset + room > end ? buffers[i].offset + room : end;
            sum += room;
        }
        assert_no_overlap(buffers, count);
        assert_int_equal(total, end);
        assert_in_range(total, peak_of(buffers, count, times), sum);
    }
}

static void as_many_buffers_as_allowed(void **state)
{
    (void)state;
    arena_buffer *const buffers = calloc(ARENA_BUFFERS_MAX, sizeof *buffers);
    random_sequence draws = {.seed = 5, .purpose = RANDOM_ORDER};
    assert_non_null(buffers);
    random_buffers(buffers, ARENA_BUFFERS_MAX, 2000, &draws);
    assert_true(place(buffers, ARENA_BUFFERS_MAX) >= peak_of(buffers, ARENA_BUFFERS_MAX, 2000));
    free(buffers);
}

/* ---- Too much --------------------------------------------------------------------------------------------------- */

static void assert_too_much(size_t a, size_t b)
{
    ckpt_error err = {0};
    size_t total = 7;
    arena_buffer buffers[] = {{a, 0, 0}, {b, 1, 1}};
    assert_int_equal(arena_place(&total, buffers, 2, &err), CKPT_ENOMEM);
    assert_string_equal(err.message, "the buffers need more memory than there are addresses");
    assert_int_equal(total, 7);
}

static void more_than_an_address_space_is_refused(void **state)
{
    (void)state;
    assert_too_much(SIZE_MAX, 0);
    assert_too_much(SIZE_MAX - BACKEND_ALIGNMENT + 2, SIZE_MAX); /* wraps to 0 when it is rounded up */
    assert_too_much((size_t)PTRDIFF_MAX - 1, 0);
    assert_too_much((size_t)PTRDIFF_MAX / 2, (size_t)PTRDIFF_MAX / 2 + 1);
    assert_too_much(64, (size_t)PTRDIFF_MAX - BACKEND_ALIGNMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_that_meet_lie_side_by_side),
        cmocka_unit_test(buffers_that_do_not_meet_share_a_place),
        cmocka_unit_test(a_chain_needs_two_neighbours_at_a_time),
        cmocka_unit_test(a_gap_is_used_where_it_is_large_enough),
        cmocka_unit_test(a_gap_of_just_the_size_is_used),
        cmocka_unit_test(empty_buffers_need_no_place),
        cmocka_unit_test(no_buffers_need_no_memory),
        cmocka_unit_test(buffers_whose_lives_meet_never_overlap),
        cmocka_unit_test(as_many_buffers_as_allowed),
        cmocka_unit_test(more_than_an_address_space_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
