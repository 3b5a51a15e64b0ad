"""What runs in a Ray worker, here in this process: no Ray is needed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scripted_actor import ONE, TASK, ScriptedActor, candidate
from waiting import until

from bottega.cluster.judge_actor import JudgeActor
from bottega.cluster.pool import RayJudge
from bottega.cluster.request_queue import JudgeName
from bottega.core.errors import TaskError
from bottega.judge.cancellation import Cancelled


def test_a_request_that_comes_again_is_judged_once() -> None:
    actor = ScriptedActor("cpu", 1, 1)
    given: Any = ("key", "judge", ONE, (TASK, candidate("judge 0.2 x")), {})
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: actor.do(*given), range(4)))
    assert len(actor.asked) == 1 and len({id(answer.found) for answer in found}) == 1
    actor.do("another", *given[1:])
    assert len(actor.asked) == 2


def test_what_is_cancelled_says_so() -> None:
    actor = ScriptedActor("cpu", 1, 1)
    threading.Thread(target=lambda: (until(lambda: actor.asked), actor.cancel("key"))).start()
    answer = actor.do("key", "judge", ONE, (TASK, candidate("hang")), {})
    assert isinstance(answer.exception, Cancelled)
    actor.cancel("unknown")


def test_errors_keep_their_kind_and_bugs_are_told() -> None:
    class Broken(ScriptedActor):
        def _judge(self, judge: JudgeName) -> Any:
            raise judge.defaults["error"]

    actor = Broken("cpu", 1, 1)
    answer = actor.do("one", "fitness", JudgeName("", {"error": TaskError("no Model")}), (TASK,), {})
    assert type(answer.exception) is TaskError and str(answer.exception) == "no Model"
    assert "ZeroDivisionError" in actor.do("two", "fitness", JudgeName("", {"error": ZeroDivisionError()}), (TASK,), {}).text


def test_cores_decide_how_many_verdicts_run_at_a_time() -> None:
    told = ScriptedActor("cpu", 8, 1).hello("auto")
    assert told["workers"] == told["lanes"] == 2 and told["device"] == "cpu"
    assert ScriptedActor("cpu", 1, 1).hello(3)["lanes"] == 3


def test_a_machine_with_other_code_under_the_same_version_is_of_another_make() -> None:
    told = JudgeActor("cpu", 1, 1).hello(1)
    one, other = RayJudge("x", told=told), RayJudge("y", told={**told, "host": "y"})
    assert one.identity == other.identity
    other.told["code"] = "of another checkout"
    assert one.identity != other.identity
