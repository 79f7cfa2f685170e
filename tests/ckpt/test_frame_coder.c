#include "pack_fixture.h"

#include "frame_coder.h"
#include "weights.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

typedef struct coding {
    pool *pool;
    pack_set *set;
    frame_coder *coder;
    pack_writer writer;
    bool lends; /* the bytes of frames stay where they are */
} coding;

static const codec_plan PLANES = {.mode = CODEC_PLANES, .width = 4, .dtype = CKPT_F32, .level = 0, .rotate = 1};
static const codec_plan DELTA = {.mode = CODEC_SUB, .width = 4, .dtype = CKPT_F32, .level = 0};

static void coding_open(coding *c, const fixture *f, unsigned threads)
{
    *c = (coding){0};
    MUST(pool_new(&c->pool, threads, ERR));
    MUST(pack_set_new(&c->set, f->packs, ERR));
    MUST(frame_coder_new(&c->coder, c->pool, c->set, ERR));
    MUST(pack_writer_open(&c->writer, f->tmp, ERR));
    frame_coder_target(c->coder, &c->writer); /* by its address, so a coding is never copied */
}

static void coding_close(coding *c)
{
    frame_coder_free(c->coder);
    pack_writer_discard(&c->writer);
    pack_set_free(c->set);
    pool_free(c->pool);
}

/* Hands a whole frame to the coder; the first failure, or 0. */
static int frame_put(uint32_t *number, coding *c, const unsigned char *data, size_t size, const codec_plan *plan,
                     const frame_at *reference, ckpt_error *err)
{
    pack_frame row = {.size = size, .reference_pack = PACK_NONE, .dtype = CKPT_F32, .kind = FRAME_TENSOR};
    if (reference) {
        MUST(pack_index_add_pack(&row.reference_pack, &c->writer.index, &reference->pack->name, ERR));
        row.reference_frame = reference->frame;
        row.reference_hash = reference->pack->index.frames[reference->frame].hash;
        row.depth = 1;
    }
    int rc = frame_coder_begin(number, c->coder, &row, plan, reference, err);
    for (size_t done = 0; !rc && done < size;) {
        unsigned char *slot = NULL;
        size_t n = 0;
        rc = frame_coder_chunk(&slot, &n, c->coder, err);
        if (!rc) {
            assert_int_equal(n, size - done < CODEC_CHUNK_BYTES ? size - done : CODEC_CHUNK_BYTES);
            if (c->lends)
                frame_coder_lend(c->coder, data + done);
            else
                memcpy(slot, data + done, n);
            rc = frame_coder_submit(c->coder, err);
            done += n;
        }
    }
    return rc;
}

static unsigned char *weights_of(size_t size, uint64_t seed)
{
    unsigned char *const bytes = calloc(1, size + 1);
    fill_weights(bytes, size, seed);
    return bytes;
}

/* The frame, read back from the finished pack, has these bytes and this SHA-256. */
static void assert_frame(const fixture *f, const sha256 *name, uint32_t frame, const unsigned char *data, size_t size)
{
    pack_set *set;
    frame_reader *reader;
    frame_at at = {.frame = frame};
    sha256 hash;
    unsigned char *const got = malloc(size);
    MUST(pack_set_new(&set, f->packs, ERR));
    MUST(frame_reader_new(&reader, set, ERR));
    MUST(pack_set_get(&at.pack, set, name, ERR));
    assert_int_equal(at.pack->index.frames[frame].size, size);
    sha256_of(&hash, data, size);
    assert_memory_equal(&at.pack->index.frames[frame].hash, &hash, sizeof hash);
    MUST(frame_read(got, reader, at, 0, size, ERR));
    assert_memory_equal(got, data, size);
    free(got);
    frame_reader_free(reader);
    pack_set_free(set);
}

/* More chunks than there are slots, of frames with odd ends. */
static void frames_keep_their_order_and_bytes_with(const fixture *f, unsigned threads)
{
    static const size_t SIZES[] = {
        4, 5 * CODEC_CHUNK_BYTES + 4, CODEC_CHUNK_BYTES, 100, 9 * CODEC_CHUNK_BYTES - 8, CODEC_CHUNK_BYTES + 1, 64};
    enum { FRAMES = sizeof SIZES / sizeof *SIZES };
    unsigned char *data[FRAMES];
    sha256 name;
    coding c;
    coding_open(&c, f, threads);
    for (uint32_t i = 0; i < FRAMES; i++) {
        uint32_t number = 99;
        data[i] = weights_of(SIZES[i], i + 1);
        MUST(frame_put(&number, &c, data[i], SIZES[i], &PLANES, NULL, ERR));
        assert_int_equal(number, i);
    }
    MUST(frame_coder_drain(c.coder, ERR));
    finish(&name, &c.writer, f);
    coding_close(&c);
    for (uint32_t i = 0; i < FRAMES; i++) {
        assert_frame(f, &name, i, data[i], SIZES[i]);
        free(data[i]);
    }
}

static void frames_keep_their_order_and_bytes(void **state)
{
    frames_keep_their_order_and_bytes_with(*state, 1);
    frames_keep_their_order_and_bytes_with(*state, 2);
    frames_keep_their_order_and_bytes_with(*state, 8);
}

static void lent_bytes_are_coded_as_those_in_slots(void **state)
{
    const fixture *const f = *state;
    const size_t size = 3 * CODEC_CHUNK_BYTES + 8;
    unsigned char *const data = weights_of(size, 9);
    sha256 name;
    coding c;
    coding_open(&c, f, 2);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t number = 0;
        c.lends = i % 2;
        MUST(frame_put(&number, &c, data, size, &PLANES, NULL, ERR));
    }
    MUST(frame_coder_drain(c.coder, ERR));
    finish(&name, &c.writer, f);
    coding_close(&c);
    for (uint32_t i = 0; i < 4; i++)
        assert_frame(f, &name, i, data, size);
    free(data);
}

#define TENSOR_BYTES (2 * CODEC_CHUNK_BYTES + 4000)

typedef struct keyframe {
    sha256 name;
    unsigned char *data;
    uint64_t coded_bytes;
} keyframe;

static keyframe keyframe_make(const fixture *f)
{
    keyframe k;
    uint32_t number;
    coding c;
    coding_open(&c, f, 2);
    k.data = weights_of(TENSOR_BYTES, 1);
    MUST(frame_put(&number, &c, k.data, TENSOR_BYTES, &PLANES, NULL, ERR));
    MUST(frame_coder_drain(c.coder, ERR));
    k.coded_bytes = c.writer.coded_bytes;
    finish(&k.name, &c.writer, f);
    coding_close(&c);
    return k;
}

static uint64_t delta_make(sha256 *name, const fixture *f, const keyframe *k, const unsigned char *data)
{
    uint32_t number;
    frame_at reference = {0};
    coding c;
    coding_open(&c, f, 2);
    MUST(pack_set_get(&reference.pack, c.set, &k->name, ERR));
    MUST(frame_put(&number, &c, data, TENSOR_BYTES, &DELTA, &reference, ERR));
    MUST(frame_coder_drain(c.coder, ERR));
    const uint64_t coded_bytes = c.writer.coded_bytes;
    finish(name, &c.writer, f);
    coding_close(&c);
    return coded_bytes;
}

static void deltas_use_their_reference(void **state)
{
    const fixture *const f = *state;
    sha256 name;
    keyframe k = keyframe_make(f);
    unsigned char *const trained = weights_of(TENSOR_BYTES, 1);
    fill_trained(trained, k.data, TENSOR_BYTES, 1e-5f, 2);
    assert_true(delta_make(&name, f, &k, trained) < TENSOR_BYTES / 2);
    assert_frame(f, &name, 0, trained, TENSOR_BYTES);
    free(trained);
    free(k.data);
}

static void damaged_reference_costs_space_only(void **state)
{
    const fixture *const f = *state;
    sha256 name;
    char path[FILE_PATH_MAX];
    keyframe k = keyframe_make(f);
    unsigned char *const trained = weights_of(TENSOR_BYTES, 1);
    fill_trained(trained, k.data, TENSOR_BYTES, 1e-5f, 2);
    const uint64_t sound_bytes = delta_make(&name, f, &k, trained);
    MUST(pack_path(path, f->packs, &k.name, ERR));
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (off_t at = PACK_HEADER_SIZE + 1000; at < (off_t)TENSOR_BYTES / 2; at += 1000)
        assert_int_equal(pwrite(fd, "damage", 6, at), 6);
    close(fd);
    const uint64_t alone_bytes = delta_make(&name, f, &k, trained);
    assert_true(alone_bytes > sound_bytes);
    assert_true(alone_bytes < k.coded_bytes + k.coded_bytes / 50); /* no more than such weights by themselves */

    /* The first chunk does without what is gone. */
    pack_set *set;
    pack *p;
    size_t size = 0;
    bool needs = true;
    char *const coded = malloc(CODEC_CHUNK_CODED_MAX);
    MUST(pack_set_new(&set, f->packs, ERR));
    MUST(pack_set_get(&p, set, &name, ERR));
    MUST(pack_read_chunk(&size, coded, p, &p->index.frames[0], 0, ERR));
    MUST(codec_needs_reference(&needs, coded, size, ERR));
    assert_false(needs);
    free(coded);
    pack_set_free(set);
    free(trained);
    free(k.data);
}

/* The disk fails: /dev/full takes nothing. */
static void failure_of_the_writer_is_told_by_the_next_call_and_by_drain(void **state)
{
    const fixture *const f = *state;
    uint32_t number;
    ckpt_error err = {0};
    coding c;
    coding_open(&c, f, 2);
    unsigned char *const data = noise(4 * CODEC_CHUNK_BYTES, 1);
    const int full = open("/dev/full", O_RDWR);
    assert_true(full >= 0);
    assert_true(dup2(full, c.writer.tmp.fd) >= 0);
    close(full);
    int rc = 0;
    for (int i = 0; i < 16 && !rc; i++)
        rc = frame_put(&number, &c, data, 4 * CODEC_CHUNK_BYTES, &PLANES, NULL, &err);
    assert_int_equal(rc, CKPT_ENOSPC);
    assert_int_equal(err.code, CKPT_ENOSPC);
    memset(&err, 0, sizeof err);
    assert_int_equal(frame_coder_drain(c.coder, &err), CKPT_ENOSPC);
    assert_int_equal(err.code, CKPT_ENOSPC);
    coding_close(&c);
    free(data);
}

#define WORKERS 2
#define SLOTS   FRAME_CODER_SLOTS(WORKERS)
static void frame_left_unfinished_is_filled_with_zeros(void **state)
{
    const fixture *const f = *state;
    uint32_t number;
    unsigned char *slot, *const data = noise(1000, 1), *const zeros = calloc(1, 3 * CODEC_CHUNK_BYTES);
    unsigned char *const dirt = noise(CODEC_CHUNK_BYTES, 2);
    size_t size;
    sha256 name;
    coding c;
    coding_open(&c, f, WORKERS);
    const pack_frame row = {.size = 3 * CODEC_CHUNK_BYTES, .reference_pack = PACK_NONE, .kind = FRAME_OTHER};
    MUST(frame_coder_pad(c.coder, ERR)); /* nothing begun, nothing to do */
    for (uint32_t i = 0; i < SLOTS; i++) /* so that no slot holds zeros */
        MUST(frame_put(&number, &c, dirt, CODEC_CHUNK_BYTES, &PLANES, NULL, ERR));
    MUST(frame_coder_begin(&number, c.coder, &row, &PLANES, NULL, ERR));
    MUST(frame_coder_chunk(&slot, &size, c.coder, ERR));
    memset(slot, 0, size);
    MUST(frame_coder_submit(c.coder, ERR));
    MUST(frame_coder_pad(c.coder, ERR));
    MUST(frame_put(&number, &c, data, 1000, &PLANES, NULL, ERR));
    assert_int_equal(number, SLOTS + 1);
    MUST(frame_coder_drain(c.coder, ERR));
    finish(&name, &c.writer, f);
    coding_close(&c);
    assert_frame(f, &name, SLOTS, zeros, 3 * CODEC_CHUNK_BYTES);
    assert_frame(f, &name, SLOTS + 1, data, 1000);
    free(dirt);
    free(zeros);
    free(data);
}

static void coder_goes_on_in_another_pack(void **state)
{
    const fixture *const f = *state;
    uint32_t number;
    sha256 first, second;
    unsigned char *const a = weights_of(CODEC_CHUNK_BYTES + 4, 1), *const b = weights_of(5000, 2);
    coding c;
    coding_open(&c, f, 2);
    MUST(frame_put(&number, &c, a, CODEC_CHUNK_BYTES + 4, &PLANES, NULL, ERR));
    MUST(frame_coder_drain(c.coder, ERR));
    finish(&first, &c.writer, f);
    MUST(pack_writer_open(&c.writer, f->tmp, ERR));
    frame_coder_target(c.coder, &c.writer);
    MUST(frame_put(&number, &c, b, 5000, &PLANES, NULL, ERR));
    assert_int_equal(number, 0);
    MUST(frame_coder_drain(c.coder, ERR));
    finish(&second, &c.writer, f);
    coding_close(&c);
    assert_frame(f, &first, 0, a, CODEC_CHUNK_BYTES + 4);
    assert_frame(f, &second, 0, b, 5000);
    free(a);
    free(b);
}

static void coder_with_work_on_its_way_can_be_freed(void **state)
{
    const fixture *const f = *state;
    uint32_t number;
    unsigned char *const data = noise(6 * CODEC_CHUNK_BYTES, 1);
    coding c;
    coding_open(&c, f, 2);
    MUST(frame_put(&number, &c, data, 6 * CODEC_CHUNK_BYTES, &PLANES, NULL, ERR));
    coding_close(&c);
    frame_coder_free(NULL);
    free(data);
}

#define CODER_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

static volatile sig_atomic_t signals_handled;

static void count_signal(int number)
{
    (void)number;
    signals_handled++;
}

static void signals_are_left_to_the_threads_of_the_program(void **state)
{
    const fixture *const f = *state;
    const struct sigaction counting = {.sa_handler = count_signal};
    struct sigaction before;
    sigset_t usr1, pending;
    coding c;
    coding_open(&c, f, 2);

    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    assert_int_equal(sigaction(SIGUSR1, &counting, &before), 0);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    kill(getpid(), SIGUSR1); /* a thread that does not block it would take it */
    coding_close(&c);
    assert_int_equal(signals_handled, 0);
    assert_int_equal(sigpending(&pending), 0);
    assert_true(sigismember(&pending, SIGUSR1));
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    assert_int_equal(signals_handled, 1);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CODER_TEST(frames_keep_their_order_and_bytes),
        CODER_TEST(lent_bytes_are_coded_as_those_in_slots),
        CODER_TEST(deltas_use_their_reference),
        CODER_TEST(damaged_reference_costs_space_only),
        CODER_TEST(failure_of_the_writer_is_told_by_the_next_call_and_by_drain),
        CODER_TEST(frame_left_unfinished_is_filled_with_zeros),
        CODER_TEST(coder_goes_on_in_another_pack),
        CODER_TEST(coder_with_work_on_its_way_can_be_freed),
        CODER_TEST(signals_are_left_to_the_threads_of_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
