"""The real run that a person can look at: `python -m tests.mending`."""

import asyncio
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.timeout(300)
async def test_a_failing_project_is_mended_in_chat_with_an_approval_on_the_way() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.mending"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")
    asking, ended, pushed, traced = output.decode().split("\n── ")[1:]
    assert "[Approve]" in asking
    assert "git commit -qam 'Take the discount off the whole basket'" in asking
    assert "Done:" not in asking
    order = [ended.index(words) for words in ("I run the tests", "May I do this?", "Done:")]
    assert order == sorted(order), "the answer stands below the question that it waited for"
    assert "Approved by alice." in ended
    assert "[Approve]" not in ended
    assert "+    return cents - cents * discount_percent // 100" in pushed
    assert traced.count("attempt at") == 2
    assert "waits for people" in traced
