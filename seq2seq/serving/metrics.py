"""What is seen from outside: counts and times, as Prometheus reads them, and the access log."""

import logging
import time
from collections.abc import Callable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seq2seq.serving.model_worker import ModelWorker
from seq2seq.serving.service import Service

log = logging.getLogger("seq2seq.access")

# What is said of each model: gauges, and counters since it was loaded.
GAUGES: dict[str, tuple[str, Callable[[ModelWorker], float]]] = {
    "alive": ("1 if the engine can work, 0 if it has ended.", lambda m: m.alive),
    "queue_pieces": ("Of texts that are accepted and not answered.", lambda m: m.pieces),
    "queue_seconds": ("Age of the oldest request that is not answered.", lambda m: m.age),
    "lanes": ("Hypotheses that are decoded.", lambda m: m.sentences.active_rows),
    "pages": ("Pages of the cache in use.", lambda m: m.sentences.pages),
}
COUNTERS: dict[str, tuple[str, Callable[[ModelWorker], float]]] = {
    "sentences": ("Translated.", lambda m: m.sentences.stats.sentences),
    "tokens": ("Pieces of the best translations.", lambda m: m.sentences.stats.tokens),
    "steps": ("Of the decoder.", lambda m: m.sentences.stats.steps),
    "preempted": ("Sentences that had to start again.", lambda m: m.sentences.stats.preempted),
}
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CONTENT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": CONTENT,
    "cache-control": "no-store",
}
ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class EngineCollector(Collector):
    """What engines are doing, read when it is asked for; no engine is waited for."""

    def __init__(self, service: Service):
        self.service = service

    def collect(self) -> Iterator[Metric]:
        for family, kinds in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
            for name, (text, read) in kinds.items():
                metric = family(f"seq2seq_{name}", text, labels=["model"])
                for model in self.service.models.values():
                    metric.add_metric([model.name], read(model))
                yield metric
        about = InfoMetricFamily("seq2seq_model", "What it computes with.", labels=["model"])
        for model in self.service.models.values():
            arithmetic = {name: str(value) for name, value in model.arithmetic._asdict().items()}
            about.add_metric([model.name], arithmetic)
        yield about


class MetricsMiddleware:
    """Counts and logs the requests of an application, and adds headers to its answers. The log says
    no more than paths that exist, codes and times: no text, and no query.

    Args:
        paths: that exist.
    """

    def __init__(self, app: ASGIApp, service: Service, paths: frozenset[str]):
        self.app, self.paths = app, paths
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self.registry.register(EngineCollector(service))
        self.requests = Counter(
            "seq2seq_requests", "Requests answered.", ["path", "code"], registry=self.registry
        )
        self.seconds = Histogram(
            "seq2seq_request_seconds",
            "From the head of a request to the end of its answer.",
            ["path"],
            buckets=BUCKETS,
            registry=self.registry,
        )

    def text(self) -> bytes:
        content: bytes = generate_latest(self.registry)
        return content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, code = time.perf_counter(), 499  # of a client that went before it was answered

        async def noted(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
                message["headers"] = [*message["headers"], *ENCODED]
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            seconds = time.perf_counter() - began
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.requests.labels(path, code).inc()
            self.seconds.labels(path).observe(seconds)
            client = (scope.get("client") or ("-",))[0]
            log.info("%s %s %s %d %.1f ms", client, scope["method"], path, code, 1000 * seconds)
