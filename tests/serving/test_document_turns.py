"""Documents of several clients: how many there may be, whose turn it is, and their end."""

import asyncio
import time
from collections.abc import Awaitable
from contextlib import ExitStack

import pytest

pytest.importorskip("starlette", reason="pip install -e '.[serve]'")

from seq2seq.serving.document_turns import AT_ONCE, TOGETHER, DocumentTurns
from seq2seq.serving.errors import HTTPError
from seq2seq.serving.event_loop import TICKS, Lag


def test_a_client_and_all_of_them_have_so_many() -> None:
    turns = DocumentTurns()
    with ExitStack() as admitted:
        for number in range(TOGETHER // 2 // AT_ONCE):
            for _ in range(AT_ONCE):
                admitted.enter_context(turns.admit(f"many {number}"))
            with pytest.raises(HTTPError, match=f"have {AT_ONCE} documents in progress") as caught:
                admitted.enter_context(turns.admit(f"many {number}"))
            assert caught.value.status == 429 and caught.value.headers
        for number in range(TOGETHER // 2):  # half of the room is for those who have none
            admitted.enter_context(turns.admit(f"one {number}"))
            with pytest.raises(HTTPError, match="have 1 document in progress"):
                admitted.enter_context(turns.admit(f"one {number}"))
        with pytest.raises(HTTPError, match=f"{TOGETHER} documents"):
            admitted.enter_context(turns.admit("another"))
        assert turns.count.total() == TOGETHER
    assert not turns.count and not turns._one_of_client


def test_a_client_waits_for_one_document_of_each_other() -> None:
    turns, order = DocumentTurns(), list[str]()

    async def read(client: str) -> None:
        with turns.admit(client):
            async with turns.turn(client):
                assert turns.counts(client)["working"] == 1
                order.append(client)
                await asyncio.sleep(0)

    async def run() -> None:
        works: list[Awaitable[None]] = [read("first") for _ in range(AT_ONCE)]
        works += [read("second") for _ in range(AT_ONCE)]
        tasks = [asyncio.ensure_future(work) for work in works]
        await asyncio.sleep(0)
        assert turns.counts("second") == {"working": 0, "waiting": AT_ONCE}
        await asyncio.gather(*tasks, read("third"))

    asyncio.run(run())
    assert order.index("third") <= 2 and len(order) == 2 * AT_ONCE + 1
    assert not turns.count and not turns.waiting


def test_who_leaves_while_waiting_holds_nobody_up() -> None:
    async def run() -> None:
        turns = DocumentTurns()
        held, inside = asyncio.Event(), asyncio.Event()

        async def read(client: str) -> None:
            async with turns.turn(client):
                inside.set()
                await held.wait()

        first = asyncio.ensure_future(read("first"))
        await inside.wait()
        second, third = (asyncio.ensure_future(read(client)) for client in ("second", "third"))
        await asyncio.sleep(0)
        second.cancel()
        held.set()
        await asyncio.gather(first, third)
        assert second.cancelled() and not turns.waiting

    asyncio.run(run())


def test_the_end_waits_for_what_is_in_time_and_cancels_the_rest() -> None:
    async def run() -> None:
        turns = DocumentTurns()
        quick, slow = (turns.run(asyncio.sleep(each, each)) for each in (0.01, 3600.0))
        assert await turns.finish(1.0) == 1
        assert quick.result() == 0.01 and slow.cancelled()
        assert not turns.tasks and await turns.finish(3600.0) == 0

    asyncio.run(run())


def test_the_lag_is_the_worst_of_a_while() -> None:
    lag = Lag()
    assert lag.seconds == 0
    lag.delays += [0.5, *[0.1] * (TICKS - 1)]
    assert lag.seconds == 0.5
    lag.delays.append(0.1)
    assert lag.seconds == 0.1


def test_a_loop_that_is_held_up_is_late() -> None:
    async def run() -> float:
        lag = Lag()
        task = asyncio.ensure_future(lag.measure())
        await asyncio.sleep(0.01)
        time.sleep(0.5)
        await asyncio.sleep(0.05)
        task.cancel()
        return lag.seconds

    assert asyncio.run(run()) >= 0.35
