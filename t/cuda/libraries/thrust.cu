// SPDX-License-Identifier: Apache-2.0
// Thrust with the functors, iterators and closures that programs bring along, against the standard
// library.
#include "../features/check.h"

#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/complex.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/functional.h>
#include <thrust/gather.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/random.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>
#include <thrust/zip_function.h>

#include <algorithm>
#include <map>
#include <numeric>

struct Particle {
    float x;
    int cell;
    double mass;
};
struct ByCellThenX {
    __host__ __device__ bool operator()(const Particle &a, const Particle &b) const
    {
        return a.cell != b.cell ? a.cell < b.cell : a.x > b.x;
    }
};
struct Moments {
    double n, mean, m2;
};
struct Combine {
    __host__ __device__ Moments operator()(const Moments &a, const Moments &b) const
    {
        const double n = a.n + b.n, d = b.mean - a.mean;
        return n == 0 ? a : Moments{n, a.mean + d * b.n / n, a.m2 + b.m2 + d * d * a.n * b.n / n};
    }
};
struct Hundreds {
    __host__ __device__ int operator()(int i) const { return i / 100; }
};
struct Pi {
    __host__ __device__ int operator()(unsigned i) const
    {
        thrust::default_random_engine engine(i * 7919 + 1);
        thrust::uniform_real_distribution<float> u(0, 1);
        const float x = u(engine), y = u(engine);
        return x * x + y * y < 1;
    }
};

int main()
{
    constexpr int n = 20000;
    std::vector<Particle> host(n);
    for (int i = 0; i < n; i++) host[i] = {float(i * 7919 % 10007), i * 31 % 50, i * 0.5};
    thrust::device_vector<Particle> particles(host.begin(), host.end());
    thrust::stable_sort(particles.begin(), particles.end(), ByCellThenX());
    std::stable_sort(host.begin(), host.end(), ByCellThenX());
    std::vector<Particle> back(n);
    thrust::copy(particles.begin(), particles.end(), back.begin());
    for (int i = 0; i < n; i++)
        TRUE(back[i].cell == host[i].cell && back[i].x == host[i].x &&
             back[i].mass == host[i].mass);

    // Sums of each cell, through transforming iterators.
    auto cells = thrust::make_transform_iterator(
        particles.begin(), [] __host__ __device__(const Particle &p) { return p.cell; });
    auto masses = thrust::make_transform_iterator(
        particles.begin(), [] __host__ __device__(const Particle &p) { return p.mass; });
    thrust::device_vector<int> keys(50);
    thrust::device_vector<double> sums(50);
    auto ends = thrust::reduce_by_key(cells, cells + n, masses, keys.begin(), sums.begin());
    TRUE(ends.first - keys.begin() == 50);
    std::map<int, double> by_cell;
    for (const Particle &p : host) by_cell[p.cell] += p.mass;
    for (int i = 0; i < 50; i++) TRUE(keys[i] == i && sums[i] == by_cell[i]);

    // Mean and variance in one pass; a dot product; the greatest, with its place.
    thrust::device_vector<float> x(n), y(n);
    thrust::sequence(x.begin(), x.end(), 1.0f);
    thrust::tabulate(y.begin(), y.end(), [] __device__(int i) { return float(i % 100); });
    const Moments m = thrust::transform_reduce(
        x.begin(), x.end(),
        [] __host__ __device__(float v) {
            return Moments{1, v, 0};
        },
        Moments{0, 0, 0}, Combine());
    TRUE(m.n == n && fabs(m.mean - (n + 1) / 2.0) < 1e-6 &&
         fabs(m.m2 / n - (double(n) * n - 1) / 12) < 1e-3 * m.m2 / n);
    const double dot = thrust::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    double wanted = 0;
    for (int i = 0; i < n; i++) wanted += (i + 1.0) * (i % 100);
    TRUE(dot == wanted);
    TRUE(thrust::max_element(y.begin(), y.end()) - y.begin() == 99);
    auto both = thrust::minmax_element(x.begin(), x.end());
    TRUE(*both.first == 1 && *both.second == n);

    // Zipped: z = a x + y where a mask says so.
    thrust::device_vector<int> mask(n);
    thrust::transform(thrust::counting_iterator<int>(0), thrust::counting_iterator<int>(n),
                      mask.begin(), [] __device__(int i) { return i % 3 == 0; });
    auto first = thrust::make_zip_iterator(thrust::make_tuple(x.begin(), y.begin(), mask.begin()));
    thrust::for_each(first, first + n,
                     thrust::make_zip_function([] __device__(float &a, float b, int take) {
                         if (take) a = 2 * a + b;
                     }));
    thrust::host_vector<float> hx = x;
    for (int i = 0; i < n; i++) TRUE(hx[i] == (i % 3 == 0 ? 2 * (i + 1.0f) + i % 100 : i + 1.0f));

    // Scans, also by key; partitions; removal; permutations; sets; searches.
    thrust::device_vector<long long> running(n);
    thrust::inclusive_scan(mask.begin(), mask.end(), running.begin());
    TRUE(running.back() == (n + 2) / 3);
    auto hundreds = [](int from) {
        return thrust::make_transform_iterator(thrust::counting_iterator<int>(from), Hundreds());
    };
    thrust::exclusive_scan_by_key(hundreds(0), hundreds(n), thrust::constant_iterator<long long>(3),
                                  running.begin());
    for (int i = 0; i < n; i += 777) TRUE(running[i] == i % 100 * 3);
    thrust::device_vector<int> v(n);
    thrust::sequence(v.begin(), v.end());
    auto middle =
        thrust::stable_partition(v.begin(), v.end(), [] __device__(int i) { return i % 7 == 0; });
    TRUE(middle - v.begin() == (n + 6) / 7 && v[1] == 7 && *middle == 1);
    thrust::sort(v.begin(), v.end(), thrust::greater<int>());
    TRUE(v[0] == n - 1 && v[n - 1] == 0);
    auto end = thrust::remove_if(v.begin(), v.end(), [] __device__(int i) { return i % 2; });
    TRUE(end - v.begin() == n / 2);
    v.erase(end, v.end());
    thrust::device_vector<int> map(100);
    thrust::tabulate(map.begin(), map.end(), [] __device__(int i) { return 99 - i; });
    TRUE(thrust::reduce(thrust::make_permutation_iterator(v.begin(), map.begin()),
                        thrust::make_permutation_iterator(v.begin(), map.end())) ==
         thrust::reduce(v.begin(), v.begin() + 100));
    thrust::device_vector<int> a(1000), b(700), c(1700);
    thrust::sequence(a.begin(), a.end(), 0, 2);
    thrust::sequence(b.begin(), b.end(), 0, 3);
    TRUE(thrust::set_intersection(a.begin(), a.end(), b.begin(), b.end(), c.begin()) - c.begin() ==
         334);
    TRUE(thrust::set_union(a.begin(), a.end(), b.begin(), b.end(), c.begin()) - c.begin() ==
         1000 + 700 - 334);
    thrust::merge(a.begin(), a.end(), b.begin(), b.end(), c.begin());
    TRUE(thrust::is_sorted(c.begin(), c.end()));
    TRUE(thrust::unique(c.begin(), c.end()) - c.begin() == 1000 + 700 - 334);
    TRUE(thrust::lower_bound(a.begin(), a.end(), 501) - a.begin() == 251 &&
         thrust::binary_search(b.begin(), b.end(), 600));
    TRUE(thrust::count_if(a.begin(), a.end(), [] __device__(int i) { return i % 10 == 0; }) == 200);

    // Complex numbers; random numbers, the same on both sides.
    thrust::device_vector<thrust::complex<double>> z(1000);
    thrust::tabulate(z.begin(), z.end(), [] __device__(int i) {
        return thrust::polar(1.0, i * 0.0062831853071795865);
    });
    const thrust::complex<double> total =
        thrust::reduce(z.begin(), z.end(), thrust::complex<double>(0, 0));
    TRUE(abs(total) < 1e-9);
    const int inside = thrust::transform_reduce(thrust::counting_iterator<unsigned>(0),
                                                thrust::counting_iterator<unsigned>(n), Pi(), 0,
                                                thrust::plus<int>());
    int inside_host = 0;
    for (int i = 0; i < n; i++) inside_host += Pi()(i);
    TRUE(inside == inside_host && inside > n * 0.77 && inside < n * 0.80);

    // In a stream, with memory of the stream's own.
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    thrust::sort_by_key(thrust::cuda::par_nosync.on(s), a.begin(), a.end(), c.begin(),
                        thrust::greater<int>());
    CHECK(cudaStreamSynchronize(s));
    TRUE(a[0] == 1998);
    return right();
}
