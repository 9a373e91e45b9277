"""Metrics for Prometheus."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from seq2seq.serving.event_loop import count_waiting_calls
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.service import Service
from seq2seq.serving.storage import client_digest

# For each model: gauges, and counters since it was loaded.
GAUGES: dict[str, tuple[str, Callable[[ModelWorker], float]]] = {
    "alive": ("1 if the engine works, 0 if it has stopped.", lambda m: m.thread.alive),
    "queue_pieces": ("Pieces of texts not answered yet.", lambda m: m.backlog.pieces),
    "queue_seconds": ("Age of the oldest request not answered yet.", lambda m: m.backlog.age),
    "rows": ("Hypotheses being decoded.", lambda m: m.sentences.active_rows),
    "pages": ("Pages of the cache in use.", lambda m: m.sentences.pages),
}
COUNTERS: dict[str, tuple[str, Callable[[ModelWorker], float]]] = {
    "sentences": ("Sentences translated.", lambda m: m.sentences.stats.sentences),
    "tokens": ("Pieces of the best translations.", lambda m: m.sentences.stats.tokens),
    "steps": ("Steps of the decoder.", lambda m: m.sentences.stats.steps),
    "queue_wait_seconds": ("Time requests waited for an engine.", lambda m: m.queue_seconds),
    "decode_seconds": ("Time requests spent in an engine.", lambda m: m.decode_seconds),
    "preempted": ("Sentences that were restarted.", lambda m: m.sentences.stats.preempted),
}
REQUESTS = Counter("seq2seq_requests", "Requests answered.", ["path", "code"], registry=None)
SECONDS = Histogram(
    "seq2seq_request_seconds",
    "Time from the headers of a request to the end of its answer.",
    ["path"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    registry=None,
)


class LoadCollector(Collector):
    """Metrics of the engines, documents, threads and event loop, read when they are asked for,
    without waiting for an engine.
    """

    def __init__(self, service: Service):
        self.service = service

    def collect(self) -> Iterator[Metric]:
        models = self.service.models.values()
        for family, kinds in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for name, (text, read) in kinds.items():
                metric = family(f"seq2seq_{name}", text, labels=["model"])
                for model in models:
                    metric.add_metric([model.name], read(model))
                yield metric
        about = InfoMetricFamily("seq2seq_model", "How each model computes.", labels=["model"])
        for model in models:
            arithmetic = {name: str(value) for name, value in model.arithmetic._asdict().items()}
            about.add_metric([model.name], arithmetic)
        yield about
        text = "Documents of each client, by a digest of its key or address."
        documents = GaugeMetricFamily("seq2seq_documents", text, labels=["client", "state"])
        for client in self.service.documents.count:
            for state, count in self.service.documents.counts(client).items():
                documents.add_metric([client_digest(client)[:12], state], count)
        yield documents
        text = "Calls waiting for a thread."
        calls = GaugeMetricFamily("seq2seq_pool_queue", text, labels=["pool"])
        for name, count in count_waiting_calls().items():
            calls.add_metric([name], count)
        yield calls
        text = "Longest delay of the event loop in the last half minute."
        yield GaugeMetricFamily("seq2seq_loop_lag_seconds", text, self.service.lag.seconds)


def build_registry(service: Service) -> CollectorRegistry:
    """A registry with the metrics of the requests, engines, service and process."""
    disable_created_metrics()
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)  # includes resident memory
    for collector in (LoadCollector(service), REQUESTS, SECONDS):
        registry.register(collector)
    return registry
