// The passes of `fused.py` over arrays of one dtype: float16 if HALF is defined, float32 otherwise.
//
// CuPy compiles all code so that arithmetic of float32 reads and writes subnormal numbers as zeros. The conversions to
// and from float64 are instructions of PTX, which that option does not change, and nothing is computed in float32.
//
// `rows` is `fused.Table.rows`. `addresses` is the address of an array of addresses, or that of the only array if
// `single`.

typedef unsigned long long Address;
struct Packet { long long integers[PACKET]; };

#ifdef PLAIN
#ifdef HALF
typedef _Float16 Element;
#else
typedef float Element;
#endif
__device__ double widen(Element x) { return x; }
__device__ Element narrow(double x) { return x; }
__device__ float narrow_to_float(double x) { return x; }
#elif defined(HALF)
typedef unsigned short Element;
__device__ double widen(Element x) { double y; asm("cvt.f64.f16 %0, %1;" : "=d"(y) : "h"(x)); return y; }
__device__ Element narrow(double x) { Element y; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y) : "d"(x)); return y; }
#else
typedef float Element;
__device__ double widen(Element x) { double y; asm("cvt.f64.f32 %0, %1;" : "=d"(y) : "f"(x)); return y; }
__device__ Element narrow(double x) { Element y; asm("cvt.rn.f32.f64 %0, %1;" : "=f"(y) : "d"(x)); return y; }
#endif
#ifndef PLAIN
__device__ float narrow_to_float(double x) { float y; asm("cvt.rn.f32.f64 %0, %1;" : "=f"(y) : "d"(x)); return y; }
#endif

__device__ Element* find_start(Address addresses, long long single, const int* rows, long long chunk, long long chunks)
{
    Address start = single ? addresses : ((const Address*)addresses)[rows[chunk]];
    return (Element*)start + (long long)rows[chunks + chunk] * CHUNK;
}

// Return the sum over all threads to the first thread.
__device__ double add_up(double value)
{
    __shared__ double parts[THREADS];
    parts[threadIdx.x] = value;
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    return parts[0];
}

__device__ void store_root(double x, double* norm, float* total)
{
    *norm = sqrt(x);
    *total = narrow_to_float(*norm);
}

extern "C" __global__ void sum_squares(
    Address addresses, const int* rows, double* sums, double* norms, float* totals, long long first, long long chunks,
    long long finish, long long single)
{
    long long chunk = first + blockIdx.x;
    const Element* start = find_start(addresses, single, rows, chunk, chunks);
    int length = rows[2 * chunks + chunk];
    double total = 0;
#pragma unroll 8
    for (int index = threadIdx.x; index < length; index += blockDim.x) {
        double x = widen(start[index]);
        total += x * x;
    }
    total = add_up(total);
    if (threadIdx.x)
        return;
    if (finish)
        store_root(total, norms, totals);
    else
        sums[chunk] = total;
}

extern "C" __global__ void take_roots(
    const int* rows, const double* sums, double* norms, float* totals, long long chunks)
{
    int first = rows[4 * chunks + blockIdx.x], last = rows[4 * chunks + gridDim.x + blockIdx.x];
    double total = 0;
    for (int index = first + threadIdx.x; index < last; index += blockDim.x)
        total += sums[index];
    total = add_up(total);
    if (!threadIdx.x)
        store_root(total, norms + blockIdx.x, totals + blockIdx.x);
}

extern "C" __global__ void scale(
    Address sources, Address targets, const int* rows, const double* norms, double limit, double eps, long long first,
    long long chunks, long long computes, long long inplace, long long single)
{
    long long chunk = first + blockIdx.x;
    double coefficient = norms[rows[3 * chunks + chunk]];
    if (computes) {
        double divisor = coefficient + eps;
        coefficient = divisor <= limit ? 1 : limit / divisor;
    }
    if (inplace && coefficient == 1)
        return;
    const Element* source = find_start(sources, single, rows, chunk, chunks);
    Element* target = find_start(targets, single, rows, chunk, chunks);
    int length = rows[2 * chunks + chunk];
#pragma unroll 8
    for (int index = threadIdx.x; index < length; index += blockDim.x)
        target[index] = narrow(widen(source[index]) * coefficient);
}

// A comparison with NaN is false, so NaN stays. So does a zero whose sign differs from that of a zero bound.
extern "C" __global__ void clamp(
    Address sources, Address targets, const int* rows, double lower, double upper, long long first, long long chunks,
    long long single)
{
    long long chunk = first + blockIdx.x;
    const Element* source = find_start(sources, single, rows, chunk, chunks);
    Element* target = find_start(targets, single, rows, chunk, chunks);
    int length = rows[2 * chunks + chunk];
    for (int index = threadIdx.x; index < length; index += blockDim.x) {
        double x = widen(source[index]);
        target[index] = x < lower ? narrow(lower) : x > upper ? narrow(upper) : source[index];
    }
}

extern "C" __global__ void copy_to_float64(const Element* source, double* target, long long count)
{
    long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count)
        target[index] = widen(source[index]);
}

extern "C" __global__ void copy_from_float64(const double* source, Element* target, long long count)
{
    long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count)
        target[index] = narrow(source[index]);
}

extern "C" __global__ void store(Packet packet, long long* target, long long count)
{
    for (int index = threadIdx.x; index < count; index += blockDim.x)
        target[index] = packet.integers[index];
}
