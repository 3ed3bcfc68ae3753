/* What an engine's loader does with quantised weights, with the same threads: map, convert, scale, cast, copy.
 *
 * loader FILE OFFSET TENSOR_BYTES TENSORS PASSES: int8 tensors from OFFSET on, each in four parallel regions as PyTorch
 * runs them (int8 to float, times a scale by row, float to bfloat16, copy). Prints a checksum, so that nothing is left out.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { ROWS = 1024 };

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    size_t offset = strtoull(argv[2], NULL, 10), size = strtoull(argv[3], NULL, 10);
    long tensors = atol(argv[4]), passes = atol(argv[5]), columns = (long)size / ROWS;
    struct stat info;
    int fd = open(argv[1], O_RDONLY);
    if (fd < 0 || fstat(fd, &info) || (size_t)info.st_size < offset + size * (size_t)tensors) return 3;
    const int8_t *file = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    float *wide = malloc(size * sizeof *wide);
    uint16_t *half = malloc(size * sizeof *half), *out = malloc(size * sizeof *out);
    uint64_t sum = 0;
    if (file == MAP_FAILED || !wide || !half || !out) return 4;
    for (long pass = 0; pass < passes; pass++)
        for (long tensor = 0; tensor < tensors; tensor++) {
            const int8_t *in = file + offset + size * (size_t)tensor;
#pragma omp parallel for
            for (long i = 0; i < (long)size; i++) wide[i] = in[i];
#pragma omp parallel for
            for (long row = 0; row < ROWS; row++)
                for (long column = 0; column < columns; column++) wide[row * columns + column] *= 0.5f + (float)row;
#pragma omp parallel for
            for (long i = 0; i < (long)size; i++) {
                uint32_t bits;
                memcpy(&bits, &wide[i], sizeof bits);
                half[i] = (uint16_t)(bits >> 16);
            }
#pragma omp parallel for
            for (long row = 0; row < ROWS; row++)
                memcpy(out + row * columns, half + row * columns, (size_t)columns * sizeof *out);
            sum += out[(size_t)(tensor + pass) % size];
        }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
