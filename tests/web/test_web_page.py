"""The page in a real browser, as people use it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Page, Route, expect

from tests.browser import TIMEOUT_MS
from tests.web.ground import (
    Caller,
    Script,
    ScriptedRunner,
    Site,
    calling,
    kinds,
    running_part,
    running_site,
    running_store,
    running_worker,
    web_config,
    web_part,
)

expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path) as site:
        yield site


@pytest.fixture
async def caller(site: Site) -> AsyncIterator[Caller]:
    async with calling(site) as caller:
        yield caller


async def open_page(context: BrowserContext | Page, site: Site, fragment: str = "") -> Page:
    page = context if isinstance(context, Page) else await context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    await page.goto(site.url)
    if fragment:
        await page.goto(f"{site.base}/#{fragment}")
    await expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    return page


async def say(page: Page, text: str) -> None:
    await page.fill("#text", text)
    await page.press("#text", "Enter")


async def test_a_newcomer_asks_sees_the_answer_grow_and_gets_it(site: Site, page: Page) -> None:
    may_end = asyncio.Event()

    async def turn(script: Script) -> str:
        await script.says("Let me look.")
        await script.uses("list_dir", '{"path": "."}', "README.md\nsrc/")
        script.shows("There is a **README")
        await may_end.wait()
        return "There is a **README.md**.\n\n```\ncode\n```"

    site.runner.turns.append(turn)
    await open_page(page, site)
    assert page.url == f"{site.base}/"
    await expect(page.locator(".trial").first).to_have_text(
        "list filesSee what is in the work directory"
    )

    await page.click(".trial >> nth=0")
    await expect(page.locator("#log .bubble")).to_have_text("list files")
    await expect(page.locator("#live .prose")).to_have_text("There is a **README")
    await expect(page.locator("#log .tool")).to_have_attribute("data-state", "done")
    await expect(page.locator("#stop")).to_be_visible()
    await expect(page.locator("#empty")).to_be_hidden()

    may_end.set()
    await expect(page.locator("#log .assistant").last).to_contain_text("There is a README.md.")
    await expect(page.locator("#live")).to_be_hidden()
    await expect(page.locator("#stop")).to_be_hidden()
    await expect(page.locator("#log .item")).to_have_count(4)
    await page.click("#log .tool summary")
    await expect(page.locator("#log .tool pre")).to_have_text("README.md\nsrc/")
    await expect(page).to_have_title("list files · clawbot")


@pytest.mark.parametrize(
    ("button", "answer", "line"),
    [
        ("Approve", "Approved: bash.", "Approved"),
        ("For this conversation", "the same call again until /new", "Approved"),
        ("For 1 hour", "the same call again until 2", "Approved"),
        ("Deny", "Refused: bash.", "Refused"),
    ],
)
async def test_h5_a_question_is_shown_with_buttons_that_go_when_it_is_decided(
    site: Site, browser: Browser, button: str, answer: str, line: str
) -> None:
    async def asks(script: Script) -> str:
        await script.asks(site.store, "bash", '{"command": "rm -rf build"}', "Delete files")
        raise AssertionError("it is not decided yet")

    async def goes_on(_script: Script) -> str:
        return "That was decided."

    site.runner.turns += [asks, goes_on]
    context = await browser.new_context()
    page = await open_page(context, site)
    await say(page, "clean up")
    question = page.locator("#log .question")
    await expect(question).to_contain_text("May I do this? Delete files")
    await expect(question).to_contain_text("rm -rf build")
    await expect(question.locator("button[data-command]")).to_have_text(
        ["Approve", "For this conversation", "For 1 hour", "Deny"]
    )
    other = await open_page(context, site)
    await expect(other.locator("#log .question button[data-command]")).to_have_count(4)
    await question.get_by_role("button", name=button, exact=True).click()
    await expect(page.locator("#log .notice .card").last).to_contain_text(answer)
    await expect(page.locator("#log .assistant")).to_contain_text("That was decided.")
    for each in (page, other):
        await expect(each.locator("#log .question")).to_contain_text("Delete files")
        await expect(each.locator("#log [data-command]")).to_have_count(0)
        await expect(each.locator("#log .line")).to_have_text(line)
    await page.reload()
    await expect(page.locator("#log .line")).to_have_text(line)
    await expect(page.locator("#log [data-command]")).to_have_count(0)


async def test_a_reload_shows_the_same_and_keeps_what_was_being_written(
    site: Site, page: Page
) -> None:
    await open_page(page, site)
    await page.click("#new-chat")
    await say(page, "hello")
    await expect(page.locator("#log .assistant")).to_contain_text("You said: hello")
    await say(page, "!help")
    await expect(page.locator("#log .notice .card")).to_contain_text("each conversation")
    await page.fill("#text", "half a thought")
    before = await page.locator("#log").inner_text()

    await page.reload()
    await expect(page.locator("#log .item")).to_have_count(3)
    assert await page.locator("#log").inner_text() == before
    assert await page.input_value("#text") == "half a thought"
    await expect(page.locator(".session[aria-current]")).to_contain_text("hello")


async def test_each_browser_has_its_own_unread_badges(
    site: Site, caller: Caller, browser: Browser
) -> None:
    await caller.say("old", session="web:old", client_msg_id="m0")
    await caller.until(lambda page: page["session"]["total"] == 1, "web:old")
    first = await open_page(await browser.new_context(), site)
    second = await open_page(await browser.new_context(), site)
    await expect(first.locator(".session")).to_have_count(2)
    await expect(first.locator(".badge")).to_have_count(0)

    for number in range(2):
        await caller.say("news", session="web:news", client_msg_id=f"m{number + 1}")
        await caller.until(lambda page, n=number: page["session"]["total"] == n + 1, "web:news")
    for page in (first, second):
        await expect(page.locator(".badge")).to_have_text("2")
        await expect(page).to_have_title("(2) Main chat · clawbot")

    await first.click("text=news")
    await expect(first.locator(".badge")).to_have_count(0)
    await expect(second.locator(".badge")).to_have_text("2")
    await second.reload()
    await expect(second.locator(".badge")).to_have_text("2")
    await first.reload()
    await expect(first.locator(".session")).to_have_count(3)
    await expect(first.locator(".badge")).to_have_count(0)


async def test_another_tab_of_the_same_browser_shares_what_was_read(
    site: Site, caller: Caller, browser: Browser
) -> None:
    context = await browser.new_context()
    first, second = await open_page(context, site), await open_page(context, site)
    await caller.say("news", session="web:news", client_msg_id="m1")
    await expect(first.locator(".badge")).to_have_text("1")
    await first.click("text=news")
    await expect(second.locator(".badge")).to_have_count(0)


ATTACK = "<img src=x onerror=window.hit=1><script>window.hit=1</script>"


async def test_foreign_text_runs_nothing_wherever_it_stands(
    site: Site, caller: Caller, page: Page
) -> None:
    async def turn(script: Script) -> str:
        await script.uses("read_file", json.dumps({"path": ATTACK}), ATTACK)
        script.shows(f"{ATTACK} [x](javascript:window.hit=1)")
        return f"{ATTACK}\n\n[link](javascript:window.hit=1) `{ATTACK}` ![p](https://a.example/p)"

    async def fail(script: Script) -> str:
        raise RuntimeError(ATTACK)

    site.runner.turns += [turn, fail]
    await caller.say(ATTACK, session="web:x", client_msg_id="m1")
    await caller.until(lambda page: "assistant" in kinds(page), "web:x")
    await caller.say(ATTACK, session="web:x", client_msg_id="m2")
    await caller.until(lambda page: "failed" in kinds(page), "web:x")
    await caller.say(f"!new {ATTACK}", session="web:x", client_msg_id="m3")
    await caller.until(lambda page: kinds(page)[-1] == "assistant", "web:x")

    await open_page(page, site, "web:x")
    await expect(page.locator("#log .assistant")).to_have_count(2)
    await expect(page.locator("#log .bubble").first).to_have_text(ATTACK)
    await expect(page.locator(".session[aria-current]")).to_contain_text("<img src=x")
    for summary in await page.locator("#log summary").all():
        await summary.click()
    assert await page.locator("#log img, #log script, #sessions img").count() == 0
    links = await page.locator("#log a").evaluate_all(
        "links => links.map(one => [one.href, one.rel, one.target])"
    )
    assert links == [["https://a.example/p", "noopener noreferrer nofollow", "_blank"]]
    assert await page.evaluate("window.hit") is None


async def test_the_address_can_name_anything_and_runs_nothing(site: Site, browser: Browser) -> None:
    page = await open_page(await browser.new_context(), site)
    await page.goto(f"{site.base}/#%3Cimg%20src=x%20onerror=window.hit=1%3E")
    await expect(page.locator("#problem")).to_contain_text("session key")
    await expect(page.locator("#title")).to_have_text("Main chat")
    await expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    assert await page.evaluate("window.hit") is None


async def test_stop_ends_a_turn_and_keeps_what_was_shown(site: Site, page: Page) -> None:
    async def turn(script: Script) -> str:
        script.shows("Counting: 1, 2")
        await asyncio.Event().wait()
        return "never"

    site.runner.turns.append(turn)
    await open_page(page, site)
    await say(page, "count")
    await expect(page.locator("#live .prose")).to_have_text("Counting: 1, 2")
    await say(page, "and then this")
    await expect(page.locator("#waiting .status")).to_have_text("Waits for its turn")
    await page.click("#stop")
    await expect(page.locator("#stop")).to_be_hidden()
    await expect(page.locator("#log .assistant")).to_contain_text("Counting: 1, 2")
    await expect(page.locator("#log .withdrawn")).to_contain_text("and then this")
    await expect(page.locator("#log .line").last).to_have_text("Stopped by the user")
    await expect(page.locator("#waiting li")).to_have_count(0)


async def test_messages_written_while_the_server_is_away_arrive_once_it_is_back(
    site: Site, browser: Browser
) -> None:
    context = await browser.new_context()
    page = await open_page(context, site)
    await say(page, "before")
    await expect(page.locator("#log .assistant")).to_have_count(1)

    await context.set_offline(True)
    await say(page, "while away")
    await expect(page.locator("#waiting .not-sent")).to_contain_text("Not sent.")
    await context.set_offline(False)
    await page.click("text=Try again")
    await expect(page.locator("#log .assistant").last).to_contain_text("You said: while away")
    await expect(page.locator("#waiting li")).to_have_count(0)
    await expect(page.locator("#log .bubble")).to_have_text(["before", "while away"])


async def test_when_the_server_is_back_the_page_goes_on_without_gap_or_double(
    tmp_path: Path, browser: Browser
) -> None:
    async with running_store(tmp_path) as store, running_worker(store, ScriptedRunner()):
        first = web_part(web_config(tmp_path), store)
        await first.open()
        url = first.url
        port = int(url.partition("/?")[0].rpartition(":")[2])
        page = await browser.new_page()
        async with running_part(first):
            await page.goto(url)
            await say(page, "before")
            await expect(page.locator("#log .assistant")).to_have_count(1)
        await expect(page.locator("#connection")).to_have_attribute("data-state", "lost")
        await say(page, "while away")
        await expect(page.locator("#waiting .not-sent")).to_contain_text("Is it running?")

        second = web_part(web_config(tmp_path, port=port), store)
        await second.open()
        async with running_part(second):
            await expect(page.locator("#connection")).to_have_attribute("data-state", "live")
            await expect(page.locator("#log .assistant")).to_have_count(2)
            texts = ["before", "while away"]
            await expect(page.locator("#log .bubble")).to_have_text(texts)
            await expect(page.locator("#waiting li")).to_have_count(0)
            await page.goto("about:blank")


async def test_a_message_whose_acknowledgement_is_lost_is_sent_again_and_answered_once(
    site: Site, browser: Browser
) -> None:
    page = await open_page(await browser.new_context(), site)
    lost = asyncio.Event()

    async def lose_once(route: Route) -> None:
        if lost.is_set():
            await route.continue_()
            return
        lost.set()
        await route.fetch()  # it arrives, but its answer does not
        await route.fulfill(status=503, json={"error": "lost", "message": "lost"})

    await page.route("**/api/messages", lose_once)
    await say(page, "hello")
    await expect(page.locator("#log .assistant")).to_have_count(1)
    await expect(page.locator("#waiting li")).to_have_count(0)
    await expect(page.locator("#log .bubble")).to_have_text(["hello"])


async def test_enter_sends_shift_enter_does_not_and_composing_does_not(
    site: Site, page: Page
) -> None:
    await open_page(page, site)
    await page.fill("#text", "one")
    await page.press("#text", "Shift+Enter")
    await page.type("#text", "two")
    assert await page.input_value("#text") == "one\ntwo"

    compose = """text => text.dispatchEvent(
        new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true }))"""
    await page.locator("#text").evaluate(compose)
    assert await page.input_value("#text") == "one\ntwo"
    await page.press("#text", "Enter")
    await expect(page.locator("#log .bubble")).to_have_text("one\ntwo")
    assert await page.input_value("#text") == ""


async def test_earlier_messages_are_read_when_one_goes_there(
    site: Site, caller: Caller, page: Page
) -> None:
    for number in range(40):
        await caller.say(f"question {number}", client_msg_id=f"m{number}")
        await caller.until(lambda page, n=number: page["session"]["total"] == n + 1)
    await open_page(page, site)
    await expect(page.locator("#log .assistant").last).to_contain_text("question 39")
    await expect(page.locator("#log .bubble").last).to_be_in_viewport()
    await page.evaluate("document.getElementById('scroll').scrollTop = 0")
    await expect(page.locator("#log .bubble")).to_have_count(40)
    numbers = [f"question {number}" for number in range(40)]
    assert await page.locator("#log .bubble").all_inner_texts() == numbers
    await expect(page.locator("#earlier")).to_be_hidden()
    await page.click("#jump")
    await expect(page.locator("#log .bubble").last).to_be_in_viewport()


async def test_on_a_phone_nothing_is_wider_than_the_screen_and_the_list_opens(
    site: Site, caller: Caller, browser: Browser
) -> None:
    async def turn(script: Script) -> str:
        wide = "x" * 300
        return f"{wide}\n\n```\n{wide}\n```\n\n|a|b|\n|-|-|\n|{wide}|{wide}|"

    site.runner.turns.append(turn)
    await caller.say("y" * 300, client_msg_id="m1")
    await caller.until(lambda page: page["session"]["total"] == 1)
    await caller.say("news", session="web:news", client_msg_id="m2")
    await caller.until(lambda page: page["session"]["total"] == 1, "web:news")
    context = await browser.new_context(viewport={"width": 360, "height": 640}, has_touch=True)
    page = await open_page(context, site)
    await expect(page.locator("#log .assistant")).to_be_visible()
    for part in ("html", "#scroll", "#log"):
        assert await page.locator(part).evaluate("part => part.scrollWidth") <= 360

    await expect(page.locator("#sidebar")).to_be_hidden()
    await page.tap("#menu")
    await expect(page.locator("#menu")).to_have_attribute("aria-expanded", "true")
    await page.tap("text=news")
    await expect(page.locator("#sidebar")).to_be_hidden()
    await expect(page.locator("#log .assistant")).to_contain_text("You said: news")


async def test_the_page_can_be_used_by_keyboard_alone(
    site: Site, caller: Caller, page: Page
) -> None:
    await caller.say("other", session="web:other", client_msg_id="m1")
    await caller.until(lambda page: page["session"]["total"] == 1, "web:other")
    await open_page(page, site)
    await expect(page.locator("#text")).to_be_focused()
    for _ in range(20):
        await page.keyboard.press("Shift+Tab")
        if await page.evaluate("document.activeElement.dataset.key") == "web:other":
            break
    await page.keyboard.press("Enter")
    await expect(page.locator("#title")).to_have_text("other")
    await expect(page.locator("#text")).to_be_focused()
    await page.keyboard.type("by keyboard")
    await page.keyboard.press("Enter")
    await expect(page.locator("#log .assistant").last).to_contain_text("by keyboard")


async def test_a_stranger_sees_the_locked_page_in_its_own_looks(
    site: Site, browser: Browser
) -> None:
    page = await browser.new_page()
    await page.goto(site.base)
    await expect(page.locator("h1")).to_have_text("This page is locked")
    assert await page.evaluate("document.styleSheets.length") == 1
    await page.goto(site.url)
    await expect(page.locator("#connection")).to_have_attribute("data-state", "live")
