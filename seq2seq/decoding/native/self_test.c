/* Products of all tile sizes against sums written out, at the extremes of 8 bits too. */
#include "native.h"
#include <math.h>
#include <stdlib.h>

void pack_floats(const float *w, int64_t inputs, int64_t outputs, float *packed);
void pack_integers(const int8_t *w, int64_t inputs, int64_t outputs, int8_t *packed, int32_t *sums);
int32_t panel_columns(void);

enum { MOST_ROWS = 14, INPUTS = 301, OUTPUTS = 197 };

/* 0 if all is as it should be, else the number of the test that failed. */
int self_test(void) {
    static float x[MOST_ROWS * INPUTS], w[OUTPUTS * INPUTS], y[MOST_ROWS * OUTPUTS];
    static float scales[OUTPUTS];
    static int8_t integers[OUTPUTS * INPUTS];
    static int32_t sums[OUTPUTS];
    const int64_t columns = panel_columns(), padded = (OUTPUTS + columns - 1) / columns * columns;
    void *packed = aligned_alloc(64, (size_t)(padded * (INPUTS + 3) * 4));
    void *work = aligned_alloc(64, (size_t)((product_work(MOST_ROWS, INPUTS) + 63) / 64 * 64));
    if (!packed || !work) return 1;
    for (int is_int8 = 0; is_int8 < 2; is_int8++) {
        /* Rows of 127 and -127 give the largest sums; the others have all values. */
        for (int i = 0; i < MOST_ROWS * INPUTS; i++)
            x[i] = i < INPUTS ? 127 : i < 2 * INPUTS ? -127 : (float)(i * 37 % 255 - 127);
        for (int r = 0; r < MOST_ROWS; r++) x[r * INPUTS] = 127; /* each scale is 1 */
        for (int i = 0; i < OUTPUTS * INPUTS; i++) {
            integers[i] = i < INPUTS ? 127 : i < 2 * INPUTS ? -127 : (int8_t)(i * 53 % 255 - 127);
            w[i] = integers[i];
        }
        for (int i = 0; i < OUTPUTS; i++) scales[i] = 1;
        if (is_int8) pack_integers(integers, INPUTS, OUTPUTS, packed, sums);
        else pack_floats(w, INPUTS, OUTPUTS, packed);
        const linear map = {INPUTS, OUTPUTS, is_int8, packed, scales, sums, 0};
        const after nothing = {.activation = NO_ACTIVATION};
        for (int rows = 1; rows <= MOST_ROWS; rows++) {
            product(&map, x, rows, &nothing, y, work);
            for (int r = 0; r < rows; r++)
                for (int c = 0; c < OUTPUTS; c++) {
                    float sum = 0; /* of integers below 2^24: exact */
                    for (int i = 0; i < INPUTS; i++) sum += x[r * INPUTS + i] * w[c * INPUTS + i];
                    if (!(fabsf(y[r * OUTPUTS + c] - sum) <= 1)) return 2 + is_int8;
                }
        }
    }
    free(packed);
    free(work);
    return 0;
}
