#include "serverd/rgpud/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>

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

void Metrics::handshake_refused()
{
    state_->refused.Increment();
}

std::string Metrics::text(const Service::Count &count)
{
    state_->gpus.Set(count.gpus);
    state_->free.Set(static_cast<double>(count.share_free) / kWholeGpu);
    state_->offers.Set(static_cast<double>(count.offers));
    state_->leases.Set(static_cast<double>(count.leases));
    state_->workers.Set(count.workers);
    {
        // The service counts; two scrapes at once must not both add the difference.
        std::lock_guard lock(state_->mutex);
        state_->granted.Increment(static_cast<double>(count.leases_granted) -
                                  state_->granted.Value());
        state_->started.Increment(static_cast<double>(count.workers_started) -
                                  state_->started.Value());
    }
    return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace rgpu::serverd
