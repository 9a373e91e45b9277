"""Serve models over HTTP: a page to translate on, and the protocols of LibreTranslate and DeepL.

    seq2seq serve RUN                                    at http://127.0.0.1:8000
    seq2seq serve --model de-en=RUN --model en-de=RUN2   several models
    seq2seq serve --demo                                 the model of the demo

Each option may also be an environment variable, such as SEQ2SEQ_SERVE_PORT=8000.
SIGHUP loads the models again; SIGTERM ends the server when all texts that were accepted are
answered, for which documents have --grace seconds.
"""

import ipaddress
import logging
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.base.errors import ConfigError
from seq2seq.cli.files import InputPath, check_written, inputs_of
from seq2seq.cli.options import BEAM, ENGINE, Option, add_options, natural_number, positive

if TYPE_CHECKING:
    from seq2seq.serving.auth import Access

log = logging.getLogger("seq2seq.serving")

HELP = "serve models over HTTP, with a page to translate on"
VARIABLES = "SEQ2SEQ_SERVE_"  # an option may be a variable of this prefix
DEMO = Path("runs/demo/quickstart")
FILES = {
    "keys": Option(InputPath, "FILE", "keys, one a line; clients must send one of them"),
    "tls_cert": Option(InputPath, "FILE", "serve https, with this certificate"),
    "tls_key": Option(InputPath, "FILE", "the private key, if it is in another file"),
}
REPEATED = {
    "cors": Option(str, "ORIGIN", "pages of this origin may send requests; may be repeated"),
    "allow_host": Option(str, "NAME", "answer to this name as well; may be repeated"),
    "trusted_proxy": Option(str, "ADDRESS", "a proxy, or network, that names clients; repeatable"),
}
LIMITS = {
    "queue": Option(positive, "N", "maximum pieces that wait (%(default)s)", 40_960),
    "deadline": Option(positive, "S", "seconds to wait (%(default)s)", 30),
    "characters": Option(positive, "N", "characters of a request's texts (%(default)s)", 20_000),
    "grace": Option(natural_number, "S", "seconds for documents after SIGTERM (%(default)s)", 8),
    "connections": Option(positive, "N", "open connections, and requests (%(default)s)", 512),
}
PACKAGES = ("starlette", "uvicorn", "prometheus_client", "python_multipart", "yaml")
NEEDED = "the service needs a few small packages: pip install 'seq2seq-attention-zoo[serve]'"


def add_arguments(command: ArgumentParser) -> None:
    add = command.add_argument
    again: dict[str, Any] = {"action": "append", "default": []}
    add("paths", nargs="*", type=InputPath, metavar="PATH", help="checkpoints, or folders of runs")
    add("--model", **again, metavar="NAME=PATH", help="a model with a name; may be repeated")
    add("--demo", action="store_true", help="the model of the demo")
    add("--device", default="auto", help="cpu, cuda or auto (%(default)s)")
    add_options(command, {"beam_size": BEAM["beam_size"], "precision": ENGINE["precision"]})
    add("--workers", type=positive, default=1, metavar="N", help="processes of each model (1)")
    kept = "keep the glossaries and suggestions that clients send; else nothing is kept"
    add("--keep-in", type=InputPath, metavar="FOLDER", help=kept)
    access = command.add_argument_group("access")
    add = access.add_argument
    add("--host", default="127.0.0.1", help="the address to listen at (%(default)s)")
    add("--port", type=natural_number, default=8000, help="%(default)s; 0 is any that is free")
    add("--no-auth", action="store_true", help="allow anyone who reaches the address to translate")
    add_options(access, FILES)
    add_options(access, REPEATED, **again)
    add_options(command.add_argument_group("limits"), LIMITS)


def run(arguments: Namespace) -> int:
    check_written(None, *inputs_of(arguments))
    models = models_of(arguments)
    if arguments.tls_key and not arguments.tls_cert:
        raise ConfigError("--tls-key is for a certificate: add --tls-cert FILE")
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # It warns of what clients send.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
    try:
        serve_models(arguments, models)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in PACKAGES:
            raise ConfigError(NEEDED) from error
        raise
    return 0


def serve_models(arguments: Namespace, models: dict[str, Path]) -> None:
    from seq2seq.serving.auth import read_keys

    if not (arguments.keys or arguments.no_auth or is_loopback(arguments.host)):
        raise ConfigError(
            f"others reach {arguments.host}: add --keys FILE, or let everyone translate, --no-auth"
        )
    keys = read_keys(arguments.keys) if arguments.keys else None
    access = access_of(arguments, keys)
    sources = ", ".join(f"{name} from {path}" for name, path in models.items())
    log.info("loading torch, which takes some seconds, and then %s", sources)
    import torch

    from seq2seq.serving.model_worker import ModelWorker
    from seq2seq.serving.server import build_server, open_socket, serve
    from seq2seq.serving.service import Service
    from seq2seq.serving.storage import Storage
    from seq2seq.serving.validation import Limits

    torch.set_num_threads(1)  # the matrices of a step are too small to split
    search = {"beam_size": arguments.beam_size}
    engine = {"precision": arguments.precision, "workers": arguments.workers}
    builders = {
        name: partial(ModelWorker, name, path, arguments.device, search, engine)
        for name, path in models.items()
    }
    limits = Limits(
        queue=arguments.queue,
        deadline=arguments.deadline,
        characters=arguments.characters,
        connections=arguments.connections,
    )
    storage = Storage(arguments.keep_in) if arguments.keep_in else None
    service = Service(builders, limits, keys, arguments.keys, storage, arguments.grace)
    listening = open_socket(arguments.host, arguments.port)
    tls = (arguments.tls_cert, arguments.tls_key)
    serve(build_server(service, access, tls), listening)


def access_of(arguments: Namespace, keys: list[bytes] | None) -> "Access":
    """From where requests are answered. Raises: ConfigError for what is no name or address."""
    from seq2seq.serving.auth import LOOPBACK, Access, parse_hosts, parse_proxies

    hosts = None  # any: where others ask, names are not known; and a strange page has no key
    if arguments.allow_host or (not keys and is_loopback(arguments.host)):
        own = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        hosts = parse_hosts([*LOOPBACK, own, *arguments.allow_host])
    return Access(hosts, arguments.cors, parse_proxies(arguments.trusted_proxy))


def models_of(arguments: Namespace) -> dict[str, Path]:
    """The models by name. Raises: ConfigError if there are none, or two of one name."""
    # The name of a path is that of the folder of a run, or of a checkpoint.
    folders = ((path, Path(path).resolve()) for path in arguments.paths)
    given = [((at if at.is_dir() else at.parent).name, Path(path)) for path, at in folders]
    for text in arguments.model:
        name, _, path = text.partition("=")
        if not (name and path):
            raise ConfigError(f"--model {text} should be a name and a path: --model demo=RUN")
        given.append((name, Path(path)))
    if arguments.demo:
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
