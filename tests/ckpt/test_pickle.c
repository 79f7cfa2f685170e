/* Pickles: values come out as they went in, nothing is executed, and hostile streams end soon. Streams are those that
 * CPython's pickle module writes, in the notation of its pickletools. */
#include "tensor_input.h"

#include "pickle.h"

#define READ(p, literal) assert_int_equal(pickle_read((p), (literal), sizeof(literal) - 1, NULL), 0)

static void assert_stream_refused(const void *data, size_t size, const char *expected)
{
    pickle p;
    ckpt_error err = {0};
    assert_int_equal(pickle_read(&p, data, size, &err), CKPT_EFORMAT);
    assert_null(p.nodes);
    if (!strstr(err.message, expected))
        fail_msg("'%s' does not hold '%s'", err.message, expected);
}

#define ASSERT_REFUSED(literal, expected) assert_stream_refused((literal), sizeof(literal) - 1, (expected))

static int64_t int_of(const pickle *p, pickle_ref ref)
{
    assert_int_equal(p->nodes[ref].kind, PICKLE_INT);
    return p->nodes[ref].as.integer;
}

/* ---- Values ----------------------------------------------------------------------------------------------------- */

static void integers_of_all_sizes_and_signs_are_read(void **state)
{
    pickle p;
    (void)state;
    /* pickle.dumps((7, 300, -2, 2**40, -2**40, 2**63 - 1, 2**64), 2) */
    READ(&p, "\x80\2(K\7M\x2c\1J\xfe\xff\xff\xff\x8a\6\0\0\0\0\0\1\x8a\6\0\0\0\0\0\xff"
             "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x9\0\0\0\0\0\0\0\0\1t.");
    assert_int_equal(int_of(&p, pickle_item(&p, p.root, 0)), 7);
    assert_int_equal(int_of(&p, pickle_item(&p, p.root, 1)), 300);
    assert_int_equal(int_of(&p, pickle_item(&p, p.root, 2)), -2);
    assert_true(int_of(&p, pickle_item(&p, p.root, 3)) == INT64_C(1) << 40);
    assert_true(int_of(&p, pickle_item(&p, p.root, 4)) == -(INT64_C(1) << 40));
    assert_true(int_of(&p, pickle_item(&p, p.root, 5)) == INT64_MAX);
    assert_int_equal(p.nodes[pickle_item(&p, p.root, 6)].kind, PICKLE_UNKNOWN);
    assert_int_equal(pickle_item(&p, p.root, 7), 0);
    pickle_clear(&p);
}

static void containers_nest_and_keep_their_order(void **state)
{
    pickle p;
    (void)state;
    /* pickle.dumps({"a": [1, (2,)], "b": {}}, 2) */
    READ(&p, "\x80\2}q\0(X\1\0\0\0aq\1]q\2(K\1K\2\x85q\3eX\1\0\0\0bq\4}q\5u.");
    const pickle_node *root = &p.nodes[p.root];
    assert_int_equal(root->kind, PICKLE_DICT);
    assert_int_equal(root->count, 4);
    const pickle_cell *first = &p.cells[root->as.items.first];
    assert_true(pickle_text_is(&p, first->value, "a"));
    const pickle_ref list = p.cells[first->next].value;
    assert_int_equal(p.nodes[list].kind, PICKLE_LIST);
    assert_int_equal(int_of(&p, pickle_item(&p, list, 0)), 1);
    assert_int_equal(int_of(&p, pickle_item(&p, pickle_item(&p, list, 1), 0)), 2);
    pickle_clear(&p);
}

static void memoised_values_are_shared(void **state)
{
    pickle p;
    (void)state;
    READ(&p, "\x80\2]q\0(]q\1h\1e."); /* a = []; pickle.dumps([a, a], 2) */
    assert_int_equal(pickle_item(&p, p.root, 0), pickle_item(&p, p.root, 1));
    pickle_clear(&p);

    READ(&p, "\x80\4\x95\x08\0\0\0\0\0\0\0]\x94(]\x94h\1e."); /* protocol 4 */
    assert_int_equal(pickle_item(&p, p.root, 0), pickle_item(&p, p.root, 1));
    pickle_clear(&p);
}

static void a_list_may_hold_itself(void **state)
{
    pickle p;
    (void)state;
    READ(&p, "\x80\2]q\0h\0a."); /* a = []; a.append(a) */
    assert_int_equal(pickle_item(&p, p.root, 0), p.root);
    pickle_clear(&p);
}

static void calls_are_kept_as_what_would_have_been_called(void **state)
{
    pickle p;
    (void)state;
    READ(&p, "\x80\2cos\nsystem\nX\x07\0\0\0echo hi\x85R.");
    assert_int_equal(p.nodes[p.root].kind, PICKLE_OBJECT);
    assert_true(pickle_global_is(&p, p.nodes[p.root].callee, "os", "system"));
    assert_true(pickle_text_is(&p, pickle_item(&p, p.nodes[p.root].arguments, 0), "echo hi"));
    pickle_clear(&p);

    READ(&p, "\x80\4\x8c\5posix\x94\x8c\6system\x94\x93\x8c\4true\x85R.");
    assert_true(pickle_global_is(&p, p.nodes[p.root].callee, "posix", "system"));
    pickle_clear(&p);
}

static void objects_keep_the_last_state(void **state)
{
    pickle p;
    (void)state;
    READ(&p, "\x80\2ca\nB\n)\x81}b]b.");
    assert_int_equal(p.nodes[p.root].kind, PICKLE_OBJECT);
    assert_int_equal(p.nodes[p.nodes[p.root].state].kind, PICKLE_LIST);
    pickle_clear(&p);
}

static void bytes_behind_the_end_are_not_looked_at(void **state)
{
    pickle p;
    (void)state;
    READ(&p, "\x80\2K\1.\xff\xff");
    assert_int_equal(int_of(&p, p.root), 1);
    pickle_clear(&p);
}

/* ---- Malformed and hostile -------------------------------------------------------------------------------------- */

static void malformed_streams_are_refused_with_opcode_and_place(void **state)
{
    (void)state;
    ASSERT_REFUSED("", "ends without STOP");
    ASSERT_REFUSED("\x80\2", "ends without STOP");
    ASSERT_REFUSED("\x80\2.", "opcode 0x2e at 2: the stack has no value");
    ASSERT_REFUSED("\x80\2(.", "the stack has no value");
    ASSERT_REFUSED("\x80\6N.", "protocol 6");
    ASSERT_REFUSED("\x80\2\xffN.", "opcode 0xff at 2: not an opcode");
    ASSERT_REFUSED("I1\n.", "not an opcode"); /* protocol 0 */
    ASSERT_REFUSED("\x80\2X\xff\xff\xff\xffx.", "4294967295 bytes are announced");
    ASSERT_REFUSED("\x80\4\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "bytes are announced");
    ASSERT_REFUSED("\x80\2M\1", "ends inside");
    ASSERT_REFUSED("\x80\2h\0.", "never put");
    ASSERT_REFUSED("\x80\2Nr\xff\xff\xff\xff.", "memo key 4294967295 is too large");
    ASSERT_REFUSED("\x80\2t.", "no mark");
    ASSERT_REFUSED("\x80\2(K\1\x86.", "no value");
    ASSERT_REFUSED("\x80\2}(K\1u.", "a key has no value");
    ASSERT_REFUSED("\x80\2](K\1K\2u.", "cannot have them");
    ASSERT_REFUSED("\x80\2}K\1a.", "cannot have them");
    ASSERT_REFUSED("\x80\2)K\1a.", "cannot have them");
    ASSERT_REFUSED("\x80\2cos", "a name has no end");
    ASSERT_REFUSED("\x80\2ca\nB\n)RK\1aK\1K\2s.", "cannot have them");
    ASSERT_REFUSED("\x80\5\x97.", "not an opcode"); /* NEXT_BUFFER: data out of band */
}

static void doubling_by_the_memo_stays_small(void **state)
{
    pickle p;
    input in = {0};
    (void)state;
    /* a = [[], []]; a = [a, a]; ... 100 times: 2^100 values when it is unfolded */
    INPUT_ADD_LITERAL(&in, "\x80\2]");
    for (unsigned i = 0; i < 100; i++)
        INPUT_ADD_LITERAL(&in, "q\0]h\0ah\0a");
    INPUT_ADD_LITERAL(&in, ".");
    assert_int_equal(pickle_read(&p, in.data, in.size, NULL), 0);
    assert_true(p.node_count < 200);
    pickle_clear(&p);
    input_free(&in);
}

/* `count` times the opcode. */
static input repeated(char opcode, size_t count)
{
    input in = {0};
    INPUT_ADD_LITERAL(&in, "\x80\2");
    char *opcodes = malloc(count);
    memset(opcodes, opcode, count);
    input_add(&in, opcodes, count);
    free(opcodes);
    return in;
}

static void millions_of_values_and_marks_are_refused(void **state)
{
    (void)state;
    const char opcodes[] = {']', '(', 'N', ')'};
    for (size_t i = 0; i < sizeof opcodes; i++) {
        input in = repeated(opcodes[i], 3u << 20);
        assert_stream_refused(in.data, in.size, "more than 2097152");
        input_free(&in);
    }
}

static void a_million_lists_in_each_other_are_read_without_recursion(void **state)
{
    pickle p;
    (void)state;
    input in = repeated(']', 1u << 20);
    input tail = repeated('a', (1u << 20) - 1);
    input_add(&in, tail.data + 2, tail.size - 2);
    INPUT_ADD_LITERAL(&in, ".");
    assert_int_equal(pickle_read(&p, in.data, in.size, NULL), 0);
    pickle_clear(&p);
    input_free(&in);
    input_free(&tail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_of_all_sizes_and_signs_are_read),
        cmocka_unit_test(containers_nest_and_keep_their_order),
        cmocka_unit_test(memoised_values_are_shared),
        cmocka_unit_test(a_list_may_hold_itself),
        cmocka_unit_test(calls_are_kept_as_what_would_have_been_called),
        cmocka_unit_test(objects_keep_the_last_state),
        cmocka_unit_test(bytes_behind_the_end_are_not_looked_at),
        cmocka_unit_test(malformed_streams_are_refused_with_opcode_and_place),
        cmocka_unit_test(doubling_by_the_memo_stays_small),
        cmocka_unit_test(millions_of_values_and_marks_are_refused),
        cmocka_unit_test(a_million_lists_in_each_other_are_read_without_recursion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
