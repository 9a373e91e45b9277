"""Metrics for Prometheus, the access log, and the headers of all responses."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq.serving.load import client_digest, resident_memory, waiting_calls
from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.service import Service

log = logging.getLogger("seq2seq.access")

# Of each model: its gauges, and its counters since it was loaded.
GAUGES: dict[str, tuple[str, Callable[[ModelWorker], float]]] = {
    "alive": ("1 if the engine can work, 0 if it has ended.", lambda m: m.thread.alive),
    "queue_pieces": ("Of texts that are accepted and not answered.", lambda m: m.backlog.pieces),
    "queue_seconds": ("Age of the oldest request that is not answered.", lambda m: m.backlog.age),
    "rows": ("Hypotheses that are being decoded.", lambda m: m.sentences.active_rows),
    "pages": ("Pages of the cache in use.", lambda m: m.sentences.pages),
}
COUNTERS: dict[str, tuple[str, Callable[[ModelWorker], float]]] = {
    "sentences": ("Translated.", lambda m: m.sentences.stats.sentences),
    "tokens": ("Pieces of the best translations.", lambda m: m.sentences.stats.tokens),
    "steps": ("Of the decoder.", lambda m: m.sentences.stats.steps),
    "queue_wait_seconds": ("Of requests, before the engine had one.", lambda m: m.queue_seconds),
    "decode_seconds": ("Of requests, after the engine had one.", lambda m: m.decode_seconds),
    "preempted": ("Sentences that had to start again.", lambda m: m.sentences.stats.preempted),
}
# Of the requests: a count, and a histogram.
REQUESTS = ("seq2seq_requests", "Requests answered.", ["path", "code"])
SECONDS = ("seq2seq_request_seconds", "From a request's head to its answer's end.", ["path"])
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CONTENT_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", CONTENT_POLICY),
    (b"cache-control", b"no-store"),
]


class LoadCollector(Collector):
    """Metrics of the engines, the documents, the threads and the event loop, read on request; no
    engine is waited for.
    """

    def __init__(self, service: Service):
        self.service = service

    def collect(self) -> Iterator[Metric]:
        for family, kinds in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for name, (text, read) in kinds.items():
                metric = family(f"seq2seq_{name}", text, labels=["model"])
                for model in self.service.models.values():
                    metric.add_metric([model.name], read(model))
                yield metric
        about = InfoMetricFamily("seq2seq_model", "How each model computes.", labels=["model"])
        for model in self.service.models.values():
            arithmetic = {name: str(value) for name, value in model.arithmetic._asdict().items()}
            about.add_metric([model.name], arithmetic)
        yield about
        text, labels = (
            "Of each client, by a digest of its key or address.",
            ["client", "state"],
        )
        documents = GaugeMetricFamily("seq2seq_documents", text, labels=labels)
        for client in self.service.documents.count:
            for state, count in self.service.documents.counts(client).items():
                documents.add_metric([client_digest(client), state], count)
        yield documents
        calls = GaugeMetricFamily("seq2seq_pool_queue", "Calls without a thread.", labels=["pool"])
        for name, count in waiting_calls().items():
            calls.add_metric([name], count)
        yield calls
        text = "Longest delay of the event loop in the last half minute."
        yield GaugeMetricFamily("seq2seq_loop_lag_seconds", text, self.service.lag.seconds)


def build_registry(service: Service) -> CollectorRegistry:
    """A registry with the metrics of the engines, the service and the process."""
    disable_created_metrics()
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)  # among others, resident memory
    registry.register(LoadCollector(service))
    return registry


class MetricsMiddleware:
    """Counts and logs the requests of an application, and adds headers to its answers. The log
    contains only existing paths, codes, times, the load and a digest of the key: no text, no query,
    no ids.

    Args:
        service: of which the load is logged.
        registry: gets the counts and times of requests.
        paths: that exist.
    """

    def __init__(
        self, app: ASGIApp, service: Service, registry: CollectorRegistry, paths: frozenset[str]
    ):
        self.app, self.service, self.paths = app, service, paths
        self.requests = Counter(*REQUESTS, registry=registry)
        self.seconds = Histogram(*SECONDS, buckets=BUCKETS, registry=registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started_at = time.perf_counter()
        code = 499  # of a client that disconnects before the answer

        async def send_with_headers(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - started_at
            path = scope["path"]
            for name, value in scope.get("path_params", {}).items():
                path = path.replace(value, f"{{{name}}}")
            path = path if path in self.paths else "other"
            self.requests.labels(path, code).inc()
            self.seconds.labels(path).observe(seconds)
            client, load = (scope.get("client") or "-")[0], self._load(scope.get("state", {}))
            what = f"{client} {scope['method']} {path} {code}"
            log.info("%s %.1f ms %s", what, 1000 * seconds, load)

    def _load(self, state: Mapping[str, Any]) -> str:
        """Part of a log line about a request's work, and the load when it has ended.

        Args:
            state: of the request: its client and the parts of its work, if it got so far.
        """
        lag, memory = 1000 * self.service.lag.seconds, resident_memory() / 2**20
        load = [f"pool={sum(waiting_calls().values())} lag={lag:.1f} memory={memory:.0f}"]
        if client := state.get("client"):
            counts = self.service.documents.counts(client).values()
            load += [f"key={client_digest(client)}", f"documents={'+'.join(map(str, counts))}"]
        if times := [part.seconds for part in state.get("parts", ())]:
            queued, decoded = map(max, zip(*times, strict=True))
            load.append(f"queue={1000 * queued:.1f} decode={1000 * decoded:.1f}")
        return " ".join(load)
