"""Serve models over HTTP: a page to translate on, and the protocols of LibreTranslate and DeepL.

    seq2seq serve RUN                                    at http://127.0.0.1:8000
    seq2seq serve --model de-en=RUN --model en-de=RUN2   several models
    seq2seq serve --demo                                 the model of the demo

Each option can also be set by an environment variable, such as SEQ2SEQ_SERVE_PORT=8000.
SIGHUP reloads the models. SIGTERM ends the server when all accepted texts are answered; documents
have --grace seconds for that.
"""

import ipaddress
import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.base.errors import ConfigError
from seq2seq.cli.files import InputPath
from seq2seq.cli.options import Options, argument, flag, natural_number, repeated, subset, value
from seq2seq.decoding.options import BeamOptions, EngineOptions

if TYPE_CHECKING:
    from seq2seq.serving.auth import Access

log = logging.getLogger("seq2seq.serving")

HELP = "serve models over HTTP, with a page to translate on"
VARIABLES = "SEQ2SEQ_SERVE_"  # prefix of environment variables for options
DEMO = Path("runs/demo/quickstart")
KEPT = "keep the glossaries and suggestions that clients send; else nothing is kept"
GRACE = "seconds for documents after SIGTERM (%(default)s)"
PACKAGES = ("starlette", "uvicorn", "prometheus_client", "python_multipart", "yaml")
NEEDED = "the service needs a few small packages: pip install 'seq2seq-attention-zoo[serve]'"


class AccessOptions(Options):
    """The address of the service, and the clients that may use it."""

    host: str = value("the address to listen at (%(default)s)", "HOST", default="127.0.0.1")
    port: int = value("0: any free one", "PORT", default=8000, type=natural_number)
    no_auth: bool = flag("allow anyone who reaches the address to translate")
    keys: InputPath | None = value("keys, one per line; clients must send one of them", "FILE")
    tls_cert: InputPath | None = value("serve https, with this certificate", "FILE")
    tls_key: InputPath | None = value("the private key, if it is in another file", "FILE")
    cors: Sequence[str] = repeated("allow web pages of this origin; repeatable", "ORIGIN")
    allow_host: Sequence[str] = repeated("another host name to accept; repeatable", "NAME")
    trusted_proxy: Sequence[str] = repeated("proxy that names its clients; repeatable", "ADDRESS")

    def __post_init__(self) -> None:
        if self.tls_key and not self.tls_cert:
            raise ConfigError("--tls-key is for a certificate: add --tls-cert FILE")


class LimitOptions(Options):
    """Limits on work and on waiting."""

    queue: int = value("maximum pieces that wait (%(default)s)", "N", default=40_960)
    deadline: int = value("seconds until an answer is due (%(default)s)", "S", default=30)
    characters: int = value("characters of a request's texts (%(default)s)", "N", default=20_000)
    grace: int = value(GRACE, "S", default=8, type=natural_number)
    connections: int = value("open connections, and requests (%(default)s)", "N", default=512)


class ServeOptions(Options):
    """The options of `seq2seq serve`."""

    paths: Sequence[InputPath] = argument("checkpoints, or folders of runs", "PATH", nargs="*")
    model: Sequence[str] = repeated("a model with a name; may be repeated", "NAME=PATH")
    demo: bool = flag("the model of the demo")
    device: str = value("cpu, cuda or auto (%(default)s)", "DEVICE", default="auto")
    search: dict[str, Any] = subset(BeamOptions, "beam_size")
    engine: dict[str, Any] = subset(EngineOptions, "precision")
    workers: int = value("processes of each model (1)", "N", default=1)
    keep_in: InputPath | None = value(KEPT, "FOLDER")
    access: AccessOptions
    limits: LimitOptions


def run(options: ServeOptions) -> None:
    models = models_of(options)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # It warns of mistakes in the requests of clients.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    try:
        serve_models(options, models)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in PACKAGES:
            raise ConfigError(NEEDED) from error
        raise


def serve_models(options: ServeOptions, models: dict[str, Path]) -> None:
    from seq2seq.serving.auth import read_keys

    given = options.access
    if not (given.keys or given.no_auth or is_loopback(given.host)):
        raise ConfigError(f"others can reach {given.host}: add --keys FILE, or --no-auth")
    keys = read_keys(given.keys) if given.keys else None
    access = access_of(given, keys)
    sources = ", ".join(f"{name} from {path}" for name, path in models.items())
    log.info("loading torch, which takes some seconds, and then %s", sources)
    import torch

    from seq2seq.checkpoint.folder import find_checkpoint
    from seq2seq.serving.model_worker import ModelWorker
    from seq2seq.serving.server import build_server, open_socket, serve
    from seq2seq.serving.service import Service
    from seq2seq.serving.storage import Storage
    from seq2seq.serving.validation import Limits

    torch.set_num_threads(1)  # the matrices of a step are too small to split
    for path in models.values():
        find_checkpoint(path)  # before it listens
    engine = {**options.engine, "workers": options.workers}
    builders = {
        name: partial(ModelWorker, name, path, options.device, options.search, engine)
        for name, path in models.items()
    }
    storage = Storage(options.keep_in) if options.keep_in else None
    service = Service(builders, Limits(**vars(options.limits)), keys, given.keys, storage)
    listening = open_socket(given.host, given.port)
    serve(build_server(service, access, (given.tls_cert, given.tls_key)), listening)


def access_of(options: AccessOptions, keys: list[bytes] | None) -> "Access":
    """The clients that may use the service. Raises: ConfigError for an invalid host or address."""
    from seq2seq.serving.auth import LOOPBACK, Access, parse_hosts, parse_proxies

    hosts = None  # any host: the names that clients use are unknown, and other pages have no key
    if options.allow_host or (not keys and is_loopback(options.host)):
        own = f"[{options.host}]" if ":" in options.host else options.host
        hosts = parse_hosts([*LOOPBACK, own, *options.allow_host])
    return Access(hosts, options.cors, parse_proxies(options.trusted_proxy))


def models_of(options: ServeOptions) -> dict[str, Path]:
    """Paths of the models by name. Raises: ConfigError if none is given, or two share a name."""
    # A model is named after the folder of its run, or of its checkpoint.
    folders = ((path, Path(path).resolve()) for path in options.paths)
    given = [((at if at.is_dir() else at.parent).name, Path(path)) for path, at in folders]
    for text in options.model:
        name, _, path = text.partition("=")
        if not (name and path):
            raise ConfigError(f"--model {text} should be a name and a path: --model demo=RUN")
        given.append((name, Path(path)))
    if options.demo:
        if not DEMO.exists():
            raise ConfigError(f"there is no model in {DEMO} yet. To train it: seq2seq demo")
        given.append(("demo", DEMO))
    if not given:
        raise ConfigError("no model is given: seq2seq serve RUN, or seq2seq serve --demo")
    models = dict(given)
    if len(models) < len(given):
        raise ConfigError("two models have one name: give each its own with --model NAME=PATH")
    return models


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
