#include "rgpud/ports/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>

#include "share/protocol.h"

namespace rgpu::serverd {

struct Metrics::State {
    prometheus::Registry registry;
    std::mutex mutex;

    prometheus::Gauge &gauge(const char *name, const char *help)
    {
        return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
    }
    prometheus::Counter &counter(const char *name, const char *help)
    {
        return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
    }

    prometheus::Gauge &gpus = gauge("rgpu_gpus", "GPUs of this server");
    prometheus::Gauge &free = gauge("rgpu_gpus_free", "What nobody holds, in GPUs");
    prometheus::Gauge &offers = gauge("rgpu_offers", "Offers that hold GPUs now");
    prometheus::Gauge &leases = gauge("rgpu_leases", "Leases now");
    prometheus::Gauge &workers = gauge("rgpu_workers", "Worker processes now");
    prometheus::Counter &granted =
        counter("rgpu_leases_granted_total", "Leases granted since start");
    prometheus::Counter &started =
        counter("rgpu_workers_started_total", "Workers started since start");
    prometheus::Counter &refused =
        counter("rgpu_handshakes_refused_total", "Data connections refused");
    prometheus::Family<prometheus::Gauge> &checks =
        prometheus::BuildGauge()
            .Name("rgpu_health_checks")
            .Help("Health checks of this host by how they ended")
            .Register(registry);
    prometheus::Family<prometheus::Counter> &requests = prometheus::BuildCounter()
                                                            .Name("rgpu_control_requests_total")
                                                            .Help("Control requests by HTTP status")
                                                            .Register(registry);
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::control_request(int status)
{
    state_->requests.Add({{"status", std::to_string(status)}}).Increment();
}

void Metrics::handshake_refused() { state_->refused.Increment(); }

namespace {

// The tenants come and go: their series are made anew each time, and those who are gone have none.
class TenantFigures {
public:
    explicit TenantFigures(const std::vector<Boards::Gpu> &boards)
    {
        for (const Boards::Gpu &gpu : boards)
            for (const share::TenantView &tenant : gpu.tenants) add(gpu.uuid, tenant);
    }
    std::vector<prometheus::MetricFamily> collect() { return registry_.Collect(); }

private:
    using Labels = prometheus::Labels;

    // A lease's id names nobody.
    void add(const std::string &uuid, const share::TenantView &t)
    {
        Labels labels = {{"gpu", uuid}, {"lease", share::text_of(t.lease).substr(0, 8)}};
        gauge("rgpu_share_least", "Part of the GPU's time that the tenant is promised", labels,
              t.terms.least / 100.0);
        gauge("rgpu_share_most", "Part of the GPU's time that the tenant may have", labels,
              t.terms.most / 100.0);
        gauge("rgpu_share_weight", "Weight of the QOS of the tenant's job", labels,
              t.terms.weight / 100.0);
        gauge("rgpu_share_due", "Part that it is due among those who want it now", labels, t.due);
        const std::pair<const char *, double> windows[] = {
            {"1s", t.given_1s}, {"10s", t.given_10s}, {"1m", t.given_1min}};
        for (auto [window, given] : windows) {
            Labels with = labels;
            with["window"] = window;
            gauge("rgpu_share_given", "Part of the GPU's time that it was given in the last window",
                  with, given);
        }
        gauge("rgpu_share_owed_seconds", "GPU time owed to it, or (below 0) by it", labels,
              t.owed_seconds);
        gauge("rgpu_tenant_memory_bytes", "Memory of the GPU that it holds", labels,
              static_cast<double>(t.memory));
        gauge("rgpu_tenant_longest_kernel_seconds", "The longest kernel seen", labels, t.longest_s);
        gauge("rgpu_tenant_running_kernel_seconds", "How long what runs now has run", labels,
              t.running_s);
        counter("rgpu_tenant_gpu_seconds_total", "GPU time that it was given", labels,
                t.given_seconds);
        counter("rgpu_tenant_turns_total", "Times that it got the GPU", labels,
                static_cast<double>(t.turns));
        counter("rgpu_tenant_launches_total", "Kernels, graphs and fills that have ended", labels,
                static_cast<double>(t.launches));
        counter("rgpu_tenant_bytes_total", "Bytes copied between the host and the GPU", labels,
                static_cast<double>(t.bytes));
    }
    void gauge(const char *name, const char *help, const Labels &labels, double value)
    {
        prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels).Set(value);
    }
    void counter(const char *name, const char *help, const Labels &labels, double value)
    {
        prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels).Increment(
            value);
    }

    prometheus::Registry registry_{prometheus::Registry::InsertBehavior::Merge};
};

}  // namespace

std::string Metrics::text(const Service::Count &count, const std::vector<Boards::Gpu> &boards)
{
    state_->gpus.Set(count.gpus);
    state_->free.Set(static_cast<double>(count.share_free) / kWholeGpu);
    state_->offers.Set(static_cast<double>(count.offers));
    state_->leases.Set(static_cast<double>(count.leases));
    state_->workers.Set(count.workers);
    for (const auto &[verdict, number] : count.checks)
        state_->checks.Add({{"verdict", verdict}}).Set(number);
    {
        // The service counts; two scrapes at once must not both add the difference.
        std::lock_guard lock(state_->mutex);
        state_->granted.Increment(static_cast<double>(count.leases_granted) -
                                  state_->granted.Value());
        state_->started.Increment(static_cast<double>(count.workers_started) -
                                  state_->started.Value());
    }
    auto families = state_->registry.Collect();
    for (auto &family : TenantFigures(boards).collect()) families.push_back(std::move(family));
    return prometheus::TextSerializer().Serialize(families);
}

}  // namespace rgpu::serverd
