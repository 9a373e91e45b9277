"""The thread that runs an engine, while the front of the service talks to clients."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from seq2seq.decoding.sentence_engine import SentenceEngine
from seq2seq.serving.client_request import ClientRequest
from seq2seq.serving.errors import HTTPError, log, log_traceback
from seq2seq.translation.request import TranslationRequest
from seq2seq.translation.text_engine import TextEngine


class EngineThread:
    """Advances an engine, and carries out calls of the front between two steps.

    The front is a thread with an event loop. A request that fails is answered with its error, and
    the thread goes on. If the thread itself fails, it answers all requests with an error.

        await thread.translate(request)
        result = await thread.compute(function, argument)

    Args:
        engine: Engine of texts; only this thread uses it from now on.
        sentences: Engine of the sentences of these texts, which may wait for other processes.
        name: Name of the model.

    Attributes:
        alive: True while the thread accepts calls.
    """

    def __init__(self, engine: TextEngine, sentences: SentenceEngine, name: str):
        self.engine, self.sentences, self.name = engine, sentences, name
        self.alive = True
        self._end = (
            "has stopped working (see the server's log): load it again with SIGHUP, or restart the "
            "server"
        )
        self._active: set[ClientRequest] = set()  # requests with sentences in the engine
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._results: set[asyncio.Future[Any]] = set()  # of the calls that are not done yet
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name=f"engine of {name}", daemon=True)

    # Methods for the front.

    def start(self) -> None:
        """Start the thread; it sends its results to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self) -> None:
        """Accept no more calls, and wait until the thread has carried out the others and ended."""
        self.alive, self._end = False, "is no longer in use: send the request again"
        self._calls.put(None)
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join)

    def translate(self, request: ClientRequest) -> "asyncio.Future[None]":
        """Translate the sentences of a request; errors as for `compute`.

        Returns: a future that is done when all are translated, or fails with the first error.
        """
        return self._call(self._translate, request)

    def cancel(self, request: ClientRequest) -> None:
        """Drop the untranslated sentences of a request; errors as for `compute`."""
        self.compute(self._drop, request)

    def compute(self, work: Callable[..., Any], *given: Any) -> "asyncio.Future[Any]":
        """Call a function in this thread.

        Returns: a future with the result of the function, or the error that it raises.
        Raises: HTTPError if the thread has ended.
        """
        return self._call(self._compute, work, *given)

    def crash_error(self) -> HTTPError:
        """The error for every request after the thread has ended."""
        return HTTPError(503, f"model {self.name!r} {self._end}", {"retry-after": "30"})

    def _call(self, method: Callable[..., None], *given: Any) -> "asyncio.Future[Any]":
        if not self.alive:
            raise self.crash_error()
        result = self._loop.create_future()
        self._results.add(result)
        result.add_done_callback(self._results.discard)
        self._calls.put(partial(method, result, *given))
        self.sentences.wake()
        return result

    def _end_calls(self) -> None:
        for result in self._results:
            set_result(result, self.crash_error())

    # Methods of the thread itself.

    def _translate(self, answer: "asyncio.Future[None]", request: ClientRequest) -> None:
        request.answer = answer
        self._active.add(request)
        try:
            self.engine.submit(list(request.sentences))
        except Exception as error:
            self._fail(request, error)

    def _compute(
        self, result: "asyncio.Future[Any]", work: Callable[..., Any], *given: Any
    ) -> None:
        if not result.done():
            try:
                value = work(*given)
            except Exception as error:
                value = error
            self._tell(result, value)

    def _run(self) -> None:
        try:
            while self._carry_out_calls():
                self._advance()
        except BaseException as error:
            self.alive = False
            log.critical("the engine of %s has stopped", self.name)
            log_traceback(error)
            self._loop.call_soon_threadsafe(self._end_calls)

    def _carry_out_calls(self) -> bool:
        """Carry out all calls; if the engine has nothing to do, wait for one.

        Returns: False if the thread should end.
        """
        while not (self.engine.busy and self._calls.empty()):
            call = self._calls.get()
            if call is None:
                return False
            call()
        return True

    def _advance(self) -> None:
        try:
            for sentence in self.engine.advance():
                self._finish(sentence)
        except Exception as error:  # for example out of memory: the engine has dropped everything
            for request in list(self._active):
                self._fail(request, error)

    def _finish(self, sentence: TranslationRequest) -> None:
        """Answer the request of a sentence that has ended, if it failed or was the last one."""
        request: ClientRequest = sentence.owner
        if request not in self._active:  # the request was dropped
            return
        if sentence.error:
            self._fail(request, sentence.error)
        elif request.finish(sentence):
            self._active.discard(request)
            self._tell(request.answer, None)

    def _fail(self, request: ClientRequest, error: Exception) -> None:
        """Answer a request with an error."""
        self._drop(request)
        self._tell(request.answer, error)

    def _drop(self, request: ClientRequest) -> None:
        self._active.discard(request)
        try:
            self.engine.cancel(request.sentences)
        except Exception as error:
            log_traceback(error)

    def _tell(self, future: "asyncio.Future[Any]", result: Any) -> None:
        """Let the front set the result or error of a future."""
        self._loop.call_soon_threadsafe(set_result, future, result)


def set_result(future: "asyncio.Future[Any]", result: Any) -> None:
    """Set the result or error of a future, unless it is done."""
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
